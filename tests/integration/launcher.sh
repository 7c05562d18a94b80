# SPDX-License-Identifier: BSD-3-Clause
#
# launcher.sh -- for tests of stepgate-run alone: a copy of it in a folder of its own, beside a ps that is a few lines of shell. What the
# job does is not the matter here; who is started, with what, and how all of it ends, is.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

bin=${STEPGATE_BIN:-build/bin}
folder=$(mktemp -d)
run=$folder/stepgate-run
cp "$bin/stepgate-run" "$run" || exit 1
# Not by a child that is killed before it has become the program that it is for: until then it has this trap, too.
trap '[ "$BASHPID" = $$ ] && rm -rf "$folder"' EXIT
mark=stepgate-test-$$-$RANDOM # every process of a test carries it in its environment
export STEPGATE_TEST_MARK=$mark

# server BODY: the text of stepgate-ps
server() {
    printf '#!/usr/bin/env bash\n%s\n' "$1" >"$folder/stepgate-ps"
    chmod +x "$folder/stepgate-ps"
}
# usual_server: says its address, ends with 143 on SIGTERM, else serves until all is over
usual_server() {
    server 'trap "echo ps $STEPGATE_TASK_INDEX stops >&2; exit 143" TERM
        echo "listening 127.0.0.1:$((5000 + STEPGATE_TASK_INDEX))"
        while :; do sleep 0.05; done'
}

# left: processes of the test that still live, without this shell and its own
left() {
    local all=(/proc/[0-9]*/environ) process # before anything below is started
    for process in $(grep -lzs "^STEPGATE_TEST_MARK=$mark\$" "${all[@]}"); do
        process=${process%/environ}
        [ "${process#/proc/}" = $$ ] && continue
        grep -q '^PPid:[[:space:]]*'$$'$' "$process/status" 2>/dev/null && continue
        echo "${process#/proc/} $(tr '\0' ' ' <"$process/cmdline" 2>/dev/null)"
    done
}
# nobody_left WHEN: fails if a process still lives after half a second
nobody_left() {
    local still i
    for i in 1 2 3 4 5 6 7 8 9 10; do
        still=$(left)
        [ -z "$still" ] && return
        sleep 0.05
    done
    wrong "processes are left $1: $still"
}
# until_true SECONDS COMMAND...
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}
# milliseconds since some time
now() { echo $(($(date +%s%N) / 1000000)); }

failures=0
wrong() {
    echo "wrong: $*"
    failures=$((failures + 1))
}
# same WHAT EXPECTED GOT
same() { [ "$2" = "$3" ] || wrong "$1: expected '$2', got '$3'"; }
# has WHAT TEXT PART
has() { [[ "$2" == *"$3"* ]] || wrong "$1: '$3' is not in: $2"; }
finish() {
    [ "$failures" = 0 ] || exit 1
    exit 0
}
