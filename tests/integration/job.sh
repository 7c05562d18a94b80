# SPDX-License-Identifier: BSD-3-Clause
#
# job.sh -- for tests of whole jobs over shared memory that lose somebody. Every process that is started with `begin` leaves NAME.out,
# NAME.err, NAME.pid and, when it has ended, NAME.end (its status and the time in milliseconds) in $folder.
. "$(dirname "${BASH_SOURCE[0]}")/launcher.sh"
run=$bin/stepgate-run
ps=$bin/stepgate-ps
# small steps on a few images of noise, which are soon read, and more steps than any test waits for; the same noise in every run: some would make a training diverge
for part in train t10k; do
    { printf '\0\0\10\3\0\0\1\54\0\0\0\34\0\0\0\34' && perl -e 'srand(length $ARGV[0]); print pack("C*", map { int rand 256 } 1 .. 300 * 28 * 28)' "$part"; } | gzip -1 >"$folder/$part-images-idx3-ubyte.gz"
    { printf '\0\0\10\1\0\0\1\54' && printf '\0\1\2\3\4\5\6\7\10\11%.0s' {1..30}; } | gzip -1 >"$folder/$part-labels-idx1-ubyte.gz"
done
fashion=("$bin/stepgate-fashion" --data "$folder" --batch 4 --lr 0.001 --epochs 10000 --progress rewrite)
(umask 077 && head -c 32 /dev/urandom >"$folder/secret")
# over verbs: STEPGATE_TEST_TRANSPORT=verbs and STEPGATE_TEST_HOST, the address of a device
# an emulated machine is slower: STEPGATE_TEST_SLOWNESS=5
slowness=${STEPGATE_TEST_SLOWNESS:-1} transport=${STEPGATE_TEST_TRANSPORT:-shm} host=${STEPGATE_TEST_HOST:-127.0.0.1}
common=(--transport "$transport" --secret-file "$folder/secret" --log warn)

begun=() # names
# end_job: whatever still lives of it is killed
end_job() {
    local name
    for name in "${begun[@]}"; do
        [ -e "$folder/$name.end" ] || kill -KILL "$(cat "$folder/$name.pid")" 2>/dev/null
    done
    wait
    begun=()
}
# Not by a child that is killed before it has become the program that it is for: until then it has this trap, too.
trap '[ "$BASHPID" = $$ ] && { end_job; rm -rf "$folder"; }' EXIT

# begin NAME COMMAND...: in the background
begin() {
    local name=$1
    shift
    begun+=("$name")
    rm -f "$folder/$name".{out,err,pid,end}
    {
        "$@" >"$folder/$name.out" 2>"$folder/$name.err" &
        echo $! >"$folder/$name.pid.new" && mv "$folder/$name.pid.new" "$folder/$name.pid"
        wait $!
        echo "$? $(now)" >"$folder/$name.end.new" && mv "$folder/$name.end.new" "$folder/$name.end"
    } 2>/dev/null &
    until_true 5 test -e "$folder/$name.pid" || wrong "$name was not started"
}
# begin_ps INDEX HOSTS ARGS...: sets address[INDEX]
begin_ps() {
    local index=$1 hosts=$2
    shift 2
    begin "ps-$index" "$ps" --job-name ps --task-index "$index" --ps-hosts "$hosts" "${common[@]}" "$@"
    until_true 10 grep -qs '^listening ' "$folder/ps-$index.out" || wrong "ps $index does not listen: $(cat "$folder/ps-$index.err")"
    address[index]=$(sed -n 's/^listening //p' "$folder/ps-$index.out")
}
# begin_worker INDEX HOSTS ARGS...
begin_worker() {
    local index=$1 hosts=$2
    shift 2
    begin "worker-$index" "${fashion[@]}" --job-name worker --task-index "$index" --ps-hosts "$hosts" "${common[@]}" "$@"
}
# begin_job WORKERS ARGS...: two ps and workers, by hand
begin_job() {
    local workers=$1 i
    shift
    begin_ps 0 "$host:0,-:0" --workers "$workers" "$@"
    begin_ps 1 "${address[0]},$host:0" --workers "$workers" "$@"
    for ((i = 0; i < workers; i++)); do begin_worker $i "${address[0]},${address[1]}" --workers "$workers" "$@"; done
}
# trains NAME: waits until the output of worker 0, which is in that of NAME, has shown some steps
trains() {
    until_true $((20 * slowness)) grep -qsE 'step [0-9]{2,}/' "$folder/$1.out" || wrong "the job does not train: $(cat "$folder"/*.err)"
}
# ends NAME SECONDS: waits for it; sets $status and $ended
ends() {
    status="" ended=0
    if ! until_true "$2" test -e "$folder/$1.end"; then
        wrong "$1 has not ended after $2 s: $(cat "$folder/$1.err")"
        return 1
    fi
    read -r status ended <"$folder/$1.end"
}
# pid_of NAME
pid_of() { cat "$folder/$1.pid"; }
# lose_once NAME WORDS: kills it in mid-training of a job of its own; all others have to end, saying that WORDS is lost. False: not at once.
lose_once() {
    local victim=$1 words=$2 name said from first=0 last=0
    begin_job 3
    trains worker-0
    from=$(now)
    kill -KILL "$(pid_of "$victim")"
    for name in "${begun[@]}"; do
        ends "$name" 15 || continue
        if [ "$name" = "$victim" ]; then
            same "status of $name, which was killed" 137 "$status"
            continue
        fi
        same "status of $name after the end of $words" 75 "$status"
        said=$(tail -n 1 "$folder/$name.err")
        [[ "$said" =~ :\ $words(\ \([^\)]*\))?\ is\ lost ]] || wrong "$name does not say that $words is lost: $said"
        same "lines of $name" 1 "$(wc -l <"$folder/$name.err")"
        [ "$first" != 0 ] && [ "$first" -le "$ended" ] || first=$ended
        [ "$last" -ge "$ended" ] || last=$ended
    done
    echo "$words killed: the first process ended after $((first - from)) ms, the last after $((last - from)) ms"
    nobody_left "after the end of $words"
    end_job
    # liveness is 10 s; a ps gives a process that does not take its last words 1 s, which nobody needs here
    [ $((first - from)) -lt $((1000 * slowness)) ] && [ $((last - first)) -lt $((900 * slowness)) ]
}
# lose NAME WORDS: the same, and at once; a machine that is busy may hold that up, but not every time
lose() {
    lose_once "$@" || lose_once "$@" || lose_once "$@" || wrong "the end of $2 is noticed too late, or somebody waits"
}
