# SPDX-License-Identifier: BSD-3-Clause
#
# bits.sh -- for tests of jobs whose every bit is given (bits-worker): what they end with is compared.
. "$(dirname "${BASH_SOURCE[0]}")/launcher.sh"
worker=$(cd "$bin/../tests" && pwd)/bits-worker
# over verbs: STEPGATE_TEST_TRANSPORT=verbs and STEPGATE_TEST_HOST, the address of a device. An emulated machine is slower:
# STEPGATE_TEST_SLOWNESS=5, and STEPGATE_TEST_SHORT=1 for the first few jobs of a test alone, of few steps
transport=${STEPGATE_TEST_TRANSPORT:-shm} slowness=${STEPGATE_TEST_SLOWNESS:-1} short=${STEPGATE_TEST_SHORT:-}
job=("$bin/stepgate-run" --transport "$transport" --log warn)
[ "$transport" = shm ] || job+=(--listen "$STEPGATE_TEST_HOST:0")
few=()
[ -z "$short" ] || few=(--steps 4)
# all that is between a contribution and its step
everything=(--weights --set clip_norm=20 --set clip_global_norm=3 --set clip_value=0.02 --set l2_decay=0.01 --set average_decay=0.9)

# alone T WORKER-FLAGS...: sets $digest to what one process ends with that sums T parts
alone() {
    digest=$(timeout $((30 * slowness)) "$worker" --single "$@" "${few[@]}" 2>"$folder/err") || wrong "one process, $*: $(cat "$folder/err")"
}
# together NAME T RUN-FLAGS... -- WORKER-FLAGS...: sets $digest to what a job of T workers ends with
together() {
    local name=$1 workers=$2 flags=()
    shift 2
    while [ "$1" != -- ]; do flags+=("$1"); shift; done
    shift
    timeout $((30 * slowness)) "${job[@]}" --workers "$workers" "${flags[@]}" -- "$worker" "$@" "${few[@]}" >"$folder/out" 2>"$folder/err" ||
        wrong "$name: $(tail -n 3 "$folder/err")"
    same "$name: workers that say what they end with" "$workers" "$(grep -c ': bits_sha256 [0-9a-f]\{64\}$' "$folder/out")"
    digest=$(sed 's/^worker [0-9]*: //' "$folder/out" | sort -u)
    same "$name: different ends" 1 "$(wc -l <<<"$digest")"
}
# equal NAME T RUN-FLAGS... -- WORKER-FLAGS...: a job that ends with $expected
equal() {
    together "$@"
    same "$1" "$expected" "$digest"
}
# differs NAME: $digest is not $expected
differs() { [ "$digest" != "$expected" ] || wrong "$1 changes nothing"; }
