# SPDX-License-Identifier: BSD-3-Clause
# direct -- runs a command on this machine's own RDMA device in place of a guest.

# direct_address DEVICE -- prints the first IPv4 address of the network device under an RDMA device
direct_address() {
    local netdev
    netdev=$(cat "/sys/class/infiniband/$1/ports/1/gid_attrs/ndevs/0" 2>/dev/null)
    # iWARP devices do not say it there.
    [ -n "$netdev" ] || netdev=$(rdma link show "$1/1" 2>/dev/null | sed -n 's/.* netdev \([^ ]*\).*/\1/p')
    [ -n "$netdev" ] || return 1
    ip -4 -o addr show dev "$netdev" 2>/dev/null | awk '{ sub("/.*", "", $4); print $4; exit }' | grep .
}

# direct_device ADDRESS -- prints the RDMA device that has this address, if the kernel tells
direct_device() {
    local folder
    for folder in /sys/class/infiniband/*; do
        [ "$(direct_address "${folder##*/}")" != "$1" ] || { echo "${folder##*/}"; return; }
    done
    return 1
}

# direct_run DEVICES SECONDS OUT COMMAND... -- runs the command; its exit status, 124 after SECONDS
direct_run() {
    local kind=$1 seconds=$2 out=$3 device=${STEPGATE_TEST_DEVICE:-} address=${STEPGATE_TEST_ADDRESS:-} job
    shift 3
    if [ -n "$device" ] && [ ! -e "/sys/class/infiniband/$device" ]; then
        say "STEPGATE_TEST_DEVICE names $device, and this machine has no such RDMA device: ibv_devices lists them"
        return 125
    fi
    [ -n "$address" ] || address=$(direct_address "$device") || {
        say "$device has no IPv4 address of its own: name one in STEPGATE_TEST_ADDRESS"
        return 125
    }
    [ -n "$device" ] || device=$(direct_device "$address") || device=unknown
    unset STEPGATE_GUEST STEPGATE_RXE_ADDRESS STEPGATE_SIW_ADDRESS STEPGATE_OUT
    export STEPGATE_VERBS_ADDRESS=$address STEPGATE_VERBS_DEVICES=$device=$address
    # A test that asks for one kind of device gets the one there is: what runs on both software devices runs on any.
    case $kind in rxe | both) export STEPGATE_RXE_ADDRESS=$address ;; esac
    case $kind in siw | both) export STEPGATE_SIW_ADDRESS=$address ;; esac
    [ -z "$out" ] || export STEPGATE_OUT=$out
    (ulimit -l unlimited) 2>/dev/null && ulimit -l unlimited
    "${bound[@]}" timeout -k 10 "$seconds" "$@" </dev/null &
    job=$!
    # timeout hands the signal on to all that the command started
    trap 'kill -TERM $job 2>/dev/null; wait $job; exit 130' INT
    trap 'kill -TERM $job 2>/dev/null; wait $job; exit 143' TERM HUP
    wait "$job"
}
