# SPDX-License-Identifier: BSD-3-Clause
# machine -- what guest and pair share: booting one machine in the background and reading its console.

testbed=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$testbed/../.." && pwd)
cache=${STEPGATE_TESTBED_CACHE:-$top/build/testbed}

# machine_share FOLDER DEVICE COMMAND...: fills the folder that host and guest share
machine_share() {
    local share=$1 device=$2
    shift 2
    mkdir -p "$share/out"
    cp "$testbed/inside" "$share/inside"
    printf '%s\n' "$1" >"$share/command"
    {
        printf 'TESTBED_DEVICE=%q\n' "$device"
        printf 'TESTBED_FOLDER=%q\n' "$PWD"
    } >"$share/job"
}

# machine_boot SHARE MEMORY APPEND QEMU-ARGUMENT...: replaces this shell by QEMU, its console on stdout
machine_boot() {
    local share=$1 memory=$2 append=$3
    shift 3
    exec qemu-system-x86_64 -accel "${STEPGATE_TESTBED_ACCEL:-tcg,thread=multi}" -cpu max -smp 2 -m "$memory" -M q35 \
        -display none -serial stdio -monitor none -no-reboot -nodefaults \
        -kernel "$cache/vmlinuz" -initrd "$cache/initramfs.gz" \
        -append "console=ttyS0 panic=-1 quiet loglevel=3 random.trust_cpu=on mitigations=off $append" \
        -virtfs "local,path=/,mount_tag=hostroot,security_model=none,readonly=on,multidevs=remap" \
        -virtfs "local,path=$share,mount_tag=share,security_model=none,multidevs=remap" "$@" </dev/null 2>&1
}

# machine_console STATUS-FILE [PREFIX]: passes on what the command printed, keeps its exit status
machine_console() {
    local line started=0
    while IFS= read -r line || [ -n "$line" ]; do
        line=${line%$'\r'}
        printf '%s\n' "$line" >>"$1.console"
        case $line in
        *TESTBED-READY*) started=1 ;;
        *TESTBED-EXIT\ *) echo "${line##*TESTBED-EXIT }" >"$1" ; started=0 ;;
        *) [ "$started" = 0 ] || [[ $line == "["*"] "* && $line =~ ^\[\ *[0-9]+\.[0-9]+\] ]] || printf '%s%s\n' "${2:-}" "$line" ;;
        esac
    done
}

# machine_status STATUS-FILE: the command's exit status; 125 with the console's end if the guest did not get that far
machine_status() {
    if [ -s "$1" ]; then
        cat "$1"
    else
        { echo "the guest did not end its command; the end of its console:"; tail -n 15 "$1.console" 2>/dev/null; } >&2
        echo 125
    fi
}
