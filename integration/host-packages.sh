#!/usr/bin/env bash
# Installs what the lanes need on a Debian or Ubuntu host and finds missing; nothing else.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
become_root "$@"

# command or file that shows it is there, and the package that brings it
needed=(
    mmdebstrap:mmdebstrap
    qemu-system-x86_64:qemu-system-x86
    cpio:cpio
    mke2fs:e2fsprogs
    /bin/busybox:busybox-static
    unshare:util-linux
    xz:xz-utils
    runc:runc
    podman:podman
    cc:gcc
    /usr/lib/x86_64-linux-gnu/libc.a:libc6-dev
    /usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring
)

missing=()
for pair in "${needed[@]}"; do
    what=${pair%%:*}
    case $what in
        # A dynamic busybox is of no use in the initramfs.
        /bin/busybox) [ -e "$what" ] && ! ldd "$what" >/dev/null 2>&1 && continue ;;
        /*) [ -e "$what" ] && continue ;;
        *) command -v "$what" >/dev/null && continue ;;
    esac
    missing+=("${pair#*:}")
done

if [ ${#missing[@]} = 0 ]; then
    say "host packages: all there"
    exit
fi
say "host packages: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}"
