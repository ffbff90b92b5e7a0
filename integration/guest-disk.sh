#!/usr/bin/env bash
# Builds the guest: .cache/guest/{vmlinuz,initramfs,root.img} from .cache/root and .cache/kernel.
# guest-disk.sh older: .cache/guest/root-older.img from .cache/root-older alone.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
become_root "$@"
guest=$cache/guest

initramfs() {
    local tree=$guest/initramfs.d modules name file
    rm -rf "$tree"
    mkdir -p "$tree"/{bin,dev,root,modules}
    install /bin/busybox "$tree/bin/busybox"
    install "$integration/guest/initramfs-init" "$tree/init"
    modules=$(echo "$cache"/kernel/{usr/,}lib/modules/*/kernel | tr ' ' '\n' | grep -v '[*]' | head -1)
    # The number keeps the order: virtio_blk before anything that might want a disk.
    for name in 1:virtio_blk 2:overlay; do
        file=$(find "$modules" -name "${name#*:}.ko*")
        case $file in
            *.xz) xz -dc "$file" ;;
            *.zst) zstd -dc "$file" ;;
            *) cat "$file" ;;
        esac >"$tree/modules/${name/:/-}.ko"
    done
    (cd "$tree" && find . | cpio --quiet -o -H newc) >"$guest/initramfs"
    rm -rf "$tree"
}

# disk NAME: the guest's disk NAME.img from the tree NAME.
disk() {
    local root=$cache/$1 image=$guest/$1.img
    install "$integration"/guest/lane-{init,run} "$root/sbin/"
    if [ -x "$root/lib/systemd/systemd" ]; then
        install -m 644 "$integration/guest/lane.service" "$root/etc/systemd/system/"
        mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
        ln -sf ../lane.service "$root/etc/systemd/system/multi-user.target.wants/"
    fi
    rm -f "$image"
    truncate -s 1500M "$image"
    mke2fs -qF -t ext4 -O ^has_journal -E lazy_itable_init=1 -d "$root" "$image"
}

build() {
    mkdir -p "$guest"
    cp "$cache"/kernel/boot/vmlinuz-* "$guest/vmlinuz"
    initramfs
    disk root
}

case ${1:-} in
older) step guest-older "$0" "$integration"/guest/* "$cache/root-older.done" -- disk root-older ;;
*) step guest "$0" "$integration"/guest/* "$cache/root.done" -- build ;;
esac
