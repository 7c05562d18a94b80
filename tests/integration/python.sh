# SPDX-License-Identifier: BSD-3-Clause
#
# python.sh -- for tests of the Python binding: workers are Python programs of worker/python/tests, run with Debian's Python, which has numpy and PyTorch.
. "$(dirname "${BASH_SOURCE[0]}")/job.sh"
export PYTHONPATH=$PWD/worker/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
STEPGATE_LIBRARY=$(cd "$bin/../lib" && pwd)/libstepgate.so.0
export STEPGATE_LIBRARY
python=/usr/bin/python3 programs=worker/python/tests

# job NAME WORKERS PROGRAM ARGS...: a whole job with one ps (or $servers of them) and the flags in the array job_flags; leaves NAME.out, NAME.err, and its status in $status
servers=1 job_flags=()
job() {
    local name=$1 workers=$2
    shift 2
    timeout 60 "$run" --ps "$servers" --workers "$workers" --transport shm --log warn "${job_flags[@]}" -- "$python" "$@" >"$folder/$name.out" 2>"$folder/$name.err"
    status=$?
}
# does_well NAME WORKERS PROGRAM ARGS...
does_well() {
    job "$@"
    [ "$status" = 0 ] || wrong "$1: status $status: $(tail -n 30 "$folder/$1.err")"
}
