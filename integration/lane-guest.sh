#!/usr/bin/env bash
# Boots the NUMA guest and runs the scenarios in it: two sockets, four nodes, SMT, 16 CPUs, and PCI
# devices on NUMA-bound bridges in the place of GPUs.
# lane-guest.sh PAYLOAD [OPTION of scenarios]...
# MAITRED_GUEST=older takes the Debian with containerd 1.7, =systemd the same with systemd as process 1.
# MAITRED_ACCEL=kvm uses KVM; emulation is the default, because a /dev/kvm that is there may not work.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

payload=$(realpath "$1")
shift
guest=$cache/guest disk=root init=
case ${MAITRED_GUEST:-} in
    "") ;;
    older) disk=root-older ;;
    systemd) disk=root-older init=lane.systemd ;;
    *) die "MAITRED_GUEST=$MAITRED_GUEST: expected older, systemd or nothing" ;;
esac
work=$(mktemp -d "${TMPDIR:-/tmp}/maitred-guest.XXXXXX")
limit=${MAITRED_GUEST_LIMIT:-1800}
boots=3
console=$cache/guest-console${MAITRED_GUEST:+-$MAITRED_GUEST}.log
trap 'rm -rf "$work"' EXIT
rm -f "$console".panic-*

truncate -s 256M "$work/payload.img"
mke2fs -qF -t ext4 -O ^has_journal -d "$payload" "$work/payload.img"

# One emulating thread: with several the kernel's patching of its own code is seen half done by other CPUs
# ("Oops: int3"), and the guest is no faster on two cores.
# shellcheck disable=SC2054  # QEMU's options have commas
machine=(-machine q35 -accel "${MAITRED_ACCEL:-tcg,thread=single}" -cpu max -m 4G
    -smp 16,sockets=2,dies=2,cores=2,threads=2)
for node in 0 1 2 3; do
    machine+=(-object "memory-backend-ram,size=1G,id=mem$node"
        -numa "node,nodeid=$node,memdev=mem$node,cpus=$((4 * node))-$((4 * node + 3))")
done
distance() { machine+=(-numa "dist,src=$1,dst=$2,val=$3" -numa "dist,src=$2,dst=$1,val=$3"); }
distance 0 1 12; distance 2 3 12
for left in 0 1; do for right in 2 3; do distance $left $right 32; done; done

# pxb NODE COUNT: a host bridge on NODE with COUNT stand-ins for GPUs, each on a port of its own.
bus=32 port=0
pxb() {
    machine+=(-device "pxb-pcie,id=pxb$1,bus_nr=$bus,bus=pcie.0,numa_node=$1")
    local _
    for _ in $(seq "$2"); do
        machine+=(-device "pcie-root-port,id=port$port,bus=pxb$1,chassis=$((port + 1)),slot=$port"
            -device "pci-testdev,bus=port$port")
        port=$((port + 1))
    done
    bus=$((bus + 32))
}
# Node 0 keeps the system's CPUs, so four CPUs beside a GPU are found on nodes 1 and 2 alone.
pxb 0 1; pxb 1 2; pxb 2 2

# One CPU until the kernel has rewritten itself for this machine: QEMU's threads now and then let a CPU
# run the very instruction that another is rewriting, and the kernel dies of it ("Oops: int3"). lane-init
# starts the others.
parameters="console=ttyS0 quiet panic=-1 maxcpus=1 random.trust_cpu=on mitigations=off tsc=reliable clocksource=tsc lpj=4000000"
# The emulated counter is the host's; measured against an emulated clock on a busy host, its frequency
# comes out wrong by up to a factor of twenty, and every timeout in the guest with it.
if [ "${MAITRED_ACCEL:-tcg}" != kvm ]; then
    mhz=$(sed -n 's/^cpu MHz[^:]*: \([0-9]*\).*/\1/p' /proc/cpuinfo | head -1)
    [ -z "$mhz" ] || parameters+=" tsc_early_khz=${mhz}000"
fi
# Each option in hexadecimal digits: a word of the kernel's command line ends at a blank, and cannot be quoted.
options=$(for word in "$@"; do printf %s "$word" | od -An -v -tx1 | tr -d ' \n'; printf ,; done)
# shellcheck disable=SC2054  # again
machine+=(-kernel "$guest/vmlinuz" -initrd "$guest/initramfs"
    -append "$parameters $init lane=$options"
    -drive "if=none,id=root,file=$guest/$disk.img,format=raw,snapshot=on" -device virtio-blk-pci,bus=pcie.0,drive=root
    -drive "if=none,id=payload,file=$work/payload.img,format=raw,snapshot=on" -device virtio-blk-pci,bus=pcie.0,drive=payload
    -nographic -nodefaults -no-reboot -serial stdio -nic none)

# boot: one run of the guest, its whole console in a file; the reader gets what its own programs say.
boot() {
    local begin=$SECONDS
    say "guest: booting under ${MAITRED_ACCEL:-emulation}"
    timeout --kill-after=10 "$limit" qemu-system-x86_64 "${machine[@]}" </dev/null 2>&1 | stdbuf -o0 tr -d '\r' | tee "$console" |
        sed -un 's/.*\(guest: up\)/\1/; /^guest: exit/d; /^guest: up/,/sysrq: Power/ { /^\[ *[0-9.]*\] /!p }' || true
    say "guest: $((SECONDS - begin)) s from power-on to power-off"
}

# The kernel rewrites itself later too, so it can still die of emulation. That says nothing about
# maitred; a scenario that had failed by then does.
for attempt in $(seq "$boots"); do
    boot
    status=$(sed -n 's/^guest: exit status \([0-9]*\)$/\1/p' "$console")
    [ -z "$status" ] || exit "$status"
    panic=$(grep -aom1 'Kernel panic.*' "$console") ||
        die "the guest ended without a verdict; its console is in $console"
    cp "$console" "$console.panic-$attempt"
    ! grep -aq '^FAIL ' "$console" || die "the guest's kernel panicked after a scenario had failed: $console"
    say "guest: boot $attempt of $boots ended in a kernel panic, no fault of the scenarios: $(
        grep -aom1 'Oops.*' "$console" || echo "$panic")"
done
die "the guest's kernel panicked in $boots boots of $boots; their consoles are in $console.panic-*"
