# SPDX-License-Identifier: BSD-3-Clause
#
# training.sh -- for tests of whole trainings over shared memory, with 3 workers and few, small steps. What a training leaves is in
# $folder/NAME.json, .out and .err.
. "$(dirname "${BASH_SOURCE[0]}")/job.sh"
short=(--data "$folder" --images 66 --test-images 40 --batch 4 --epochs 2 --progress none) # 5 full steps and one of 6 images, twice
short_steps=12

# number NAME KEY: a number or word of the result
number() { sed -n "s/^ *\"$2\": *\"\\{0,1\\}\\([^\",]*\\)\"\\{0,1\\},\\{0,1\\}\$/\\1/p" "$folder/$1.json"; }
# numbers NAME KEY: an array of the result, on one line
numbers() { tr -d '\n' <"$folder/$1.json" | sed -n "s/.*\"$2\": *\\[\\([^]]*\\)\\].*/\\1/p" | tr -d ' ' | tr ',' ' '; }
# total NAME KEY: of such an array
total() {
    local sum=0 n
    for n in $(numbers "$1" "$2"); do sum=$((sum + n)); done
    echo $sum
}
# train NAME RUN-FLAGS -- FLAGS: a job that must end well
train() {
    local name=$1 flags=()
    shift
    while [ "$1" != -- ]; do flags+=("$1"); shift; done
    shift
    rm -f "$folder/$name.json"
    timeout 60 "$run" --workers 3 --transport shm --log warn "${flags[@]}" -- "$bin/stepgate-fashion" "${short[@]}" "$@" \
        --json "$folder/$name.json" >"$folder/$name.out" 2>"$folder/$name.err" ||
        wrong "$name (${flags[*]} -- $*): $(tail -n 3 "$folder/$name.err")"
}
# alone NAME FLAGS: one process that computes what 3 workers would
alone() {
    local name=$1
    shift
    rm -f "$folder/$name.json"
    timeout 60 "$bin/stepgate-fashion" --single --parts 3 "${short[@]}" "$@" --json "$folder/$name.json" \
        >"$folder/$name.out" 2>"$folder/$name.err" || wrong "$name ($*): $(tail -n 3 "$folder/$name.err")"
}
# matches RUN-FLAGS -- FLAGS: a job ends with the bits of one process; sets $digest
matches() {
    local flags=()
    while [ "$1" != -- ]; do flags+=("$1"); shift; done
    shift
    alone alone "$@" &
    local process=$!
    train job "${flags[@]}" -- "$@"
    wait $process
    digest=$(number alone params_sha256)
    [ -n "$digest" ] || wrong "$*: no digest"
    same "digest of ${flags[*]} -- $*" "$digest" "$(number job params_sha256)"
}
# differ WHAT: the digest is none that was seen before
seen=" "
differ() {
    [[ "$seen" != *" $digest "* ]] || wrong "$1 changes nothing"
    seen+="$digest "
}
# refused PART FLAGS: a job that must end with status 2, and say so; what it said is left in $said
refused() {
    local part=$1
    shift
    said=$(timeout 60 "$run" --workers 3 --transport shm --log warn -- "$bin/stepgate-fashion" "${short[@]}" "$@" 2>&1)
    same "status of $*" 2 $?
    has "$*" "$said" "$part"
}
