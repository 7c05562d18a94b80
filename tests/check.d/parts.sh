# SPDX-License-Identifier: BSD-3-Clause
# The parts of check: one function each. pass, fail, try and tally are those of check.

jobs=$(nproc)

# build_in FOLDER OPTIONS...: configures and builds, all or the targets in $targets; its own test
build_in() {
    local folder=$1 log generator=(-G Ninja)
    shift
    [ ! -e "$folder/CMakeCache.txt" ] || generator=()
    log=$logs/build-$(basename "$folder").log
    # Said aloud, since quickstart or a hand may have set them otherwise in the same folder.
    if cmake -S . -B "$folder" "${generator[@]}" -DBUILD_TESTING=ON -DSTEPGATE_WERROR=ON -DSTEPGATE_MUTANT= "$@" >"$log" 2>&1 && cmake --build "$folder" -j "$jobs" ${targets:+--target $targets} >>"$log" 2>&1; then
        pass "build $(basename "$folder")"
    else
        fail "build $(basename "$folder")" "$log"
        return 1
    fi
}

# unit_in FOLDER [OPTIONS OF CTEST]: every unit test there
unit_in() {
    local folder=$1 log=$logs/unit-$(basename "$1").log line bad all
    shift
    (cd "$folder" && exec ctest -L unit --output-on-failure --timeout 120 -j "$beside" "$@") >"$log" 2>&1
    set -- "$folder"
    line=$(grep -E 'tests passed, [0-9]+ tests failed out of' "$log" | tail -n 1)
    all=${line##* }
    bad=$(sed -E 's/.*, ([0-9]+) tests failed.*/\1/' <<<"$line")
    if [ -z "$line" ] || [ "$all" -eq 0 ]; then
        fail "unit tests in $1" "$log"
        return 1
    fi
    passed=$((passed + all - bad)) failed=$((failed + bad))
    echo "  $([ "$bad" = 0 ] && echo "ok     " || echo FAILED) unit tests in $(basename "$1"): $((all - bad)) of $all programs"
    [ "$bad" = 0 ] || grep -vE ' Passed | Start +[0-9]+:|^$' "$log" | tail -n 120 | sed 's/^/          | /'
}

# torch_optimizers: formula=torch against PyTorch itself
torch_optimizers() {
    try "optimizers give the numbers of PyTorch" 200 tests/reference/torch_optimizers.py build/tests/optimizer-steps
}

part_install() {
    try "install packages" 900 packaging/install build test
}

part_lint() {
    local script
    for script in tests/lint/lint_*; do
        aside try "lint $(basename "$script" | sed 's/^lint_//')" 60 "$script"
    done
    aside try "lint selftest" 60 tests/lint/selftest
    gather
}

# model: the protocol itself, of which nothing need be built
part_model() {
    local most=240
    [ "${CHECK_MODE:-}" != full ] || most=880
    tally "model" $most tests/model/run
}

part_build() {
    build_in build -DCMAKE_BUILD_TYPE=Release -DSTEPGATE_SANITIZE=
}

part_unit() {
    aside unit_in build
    aside torch_optimizers
    gather
}

part_conformance() {
    local quick=()
    [ "$CHECK_MODE" != quick ] || quick=(--quick)
    aside tally "conformance simulated" 170 build/bin/stepgate-conformance --transport simulated "${quick[@]}"
    aside tally "conformance shm" 170 build/bin/stepgate-conformance --transport shm "${quick[@]}"
    aside tally "conformance of a transport of somebody else's" 170 build/bin/stepgate-conformance --transport counted --transport-library build/tests/counted.so --quick
    gather
}

# scenarios FOLDER [OPTIONS]: the rules of updates, one by one
scenarios() {
    local folder=$1 transport
    shift
    for transport in simulated shm; do
        tally "scenarios $(basename "$folder") $transport" 120 "$folder/bin/stepgate-scenario" --transport $transport "$@"
    done
}

part_simulation() {
    local seeds=1500 tf=10000 chaos=500 every=83
    [ "$CHECK_MODE" != quick ] || seeds=200 tf=500 chaos=50 every=263
    [ "$CHECK_MODE" != full ] || seeds=20000 chaos=10000 every=1
    aside tally "each $every. call that can fail does so once" 5400 build/bin/stepgate-faults --every "$every"
    aside tally "simulation of $seeds jobs" 1200 build/bin/stepgate-simulation --seeds "$seeds"
    aside tally "simulation of $chaos jobs in which processes die and are started again" 1500 build/bin/stepgate-simulation --mode chaos --seeds "$chaos"
    aside tally "simulation of $tf jobs in tf mode against a model of it" 300 build/bin/stepgate-simulation --mode tf --seeds "$tf"
    aside scenarios build
    aside tally "every rule has its scenario" 10 build/bin/stepgate-scenario --rules tests/scenario/README.md
    gather
}

part_integration() {
    local script quiet="idle_job_uses_no_cpu memory_of_a_ps_keeps_to_the_formula" spins=steps_allocate_nothing_and_lock_nothing
    local faults=random_faults_end_a_job_as_its_policies_say # 10 jobs, 200 in a long check
    # These look at a job while it rests for so many seconds: not on a busy machine.
    for script in $quiet; do aside try "integration $script" 200 "tests/integration/test_$script"; done
    gather
    aside try "integration $faults" 1800 "tests/integration/test_$faults"
    for script in tests/integration/test_*; do
        [[ " $quiet $spins $faults " != *" ${script##*/test_} "* ]] || continue
        aside try "integration $(basename "$script" | sed 's/^test_//')" 200 "$script"
    done
    gather
    try "integration $spins" 200 "tests/integration/test_$spins" # its processes never sleep
}

# clang, optimized as a user's build is: the library, and the tests of what computes, to the bit. Everything else it compiles for the part `thread`.
part_clang() {
    local what='unit-ps-(lane|mode|optimizer|protocol)-' options=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Release) targets
    cmake -S . -B build/clang -G Ninja -DBUILD_TESTING=ON "${options[@]}" >/dev/null 2>&1 # build_in says what is wrong
    targets="stepgate $(ctest --test-dir build/clang -N -L unit -R "$what" | sed -n 's/.*: \(unit-.*\)/\1/p' | tr '\n' ' ')"
    build_in build/clang "${options[@]}" && unit_in build/clang -R "$what"
}

part_sanitize() {
    local script every=271
    [ "${CHECK_MODE:-}" != full ] || every=5
    export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
    build_in build/asan -DSTEPGATE_SANITIZE=address -DCMAKE_BUILD_TYPE=RelWithDebInfo || return
    aside unit_in build/asan
    aside tally "asan conformance simulated" 200 build/asan/bin/stepgate-conformance --transport simulated --quick
    aside tally "asan conformance shm" 200 build/asan/bin/stepgate-conformance --transport shm --quick
    aside tally "asan simulation" 300 build/asan/bin/stepgate-simulation --seeds 200
    aside tally "asan simulation in which processes die" 300 build/asan/bin/stepgate-simulation --mode chaos --seeds 60
    aside tally "asan simulation in tf mode" 300 build/asan/bin/stepgate-simulation --mode tf --seeds 200
    aside tally "asan: each $every. call that can fail does so once" 3000 build/asan/bin/stepgate-faults --every "$every"
    aside scenarios build/asan --seeds 1
    for script in bad_input_is_one_line_with_a_remedy ckpt_lists_verifies_prints_and_converts example_loop_finds_the_line job_started_by_hand killed_ps_ends_the_job \
        killed_worker_ends_the_job process_that_never_comes run_leaves_nothing_of_a_training_job; do
        STEPGATE_BIN=build/asan/bin aside try "asan integration $script" 200 "tests/integration/test_$script"
    done
    gather
}

part_thread() {
    build_in build/thread -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DSTEPGATE_SANITIZE=thread || return
    # The examples have one thread, and compute; and ThreadSanitizer knows no threads in the child of a fork.
    TSAN_OPTIONS=halt_on_error=1 aside unit_in build/thread -E 'unit-worker-examples|test_fork|test_fleet'
    aside try "tsan catches a relaxed store" 200 tests/mutants/race
    gather
}

part_mutants() {
    tally "mutants" 600 tests/mutants/run
}

part_valgrind() {
    try "valgrind: no leak in a whole job" 280 tests/integration/whole_job_valgrind
}

part_guest() {
    local most=900
    [ "${CHECK_MODE:-}" != full ] || most=3600
    if try "prepare the guest" 600 tests/testbed/prepare; then
        tally "guest" $most tests/testbed/suite
    fi
}
