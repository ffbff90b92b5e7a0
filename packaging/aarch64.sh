#!/usr/bin/env bash
# Compiles for aarch64 in a chroot: Debian has a Rust library for it, which a single toolchain of rustup's has not. The
# crates are those of the lock file, fetched outside; the chroot itself reaches nothing.
# aarch64.sh GLIBC
set -euo pipefail
. "$(dirname "$0")/../integration/lib.sh"

glibc=$1
target=aarch64-unknown-linux-gnu
root=$cache/aarch64
tools=$cache/tools
home=${CARGO_HOME:-$HOME/.cargo}

build_root() {
    local uri
    uri=$(mirror)
    rm -rf "$root"
    mmdebstrap --mode=root --variant=minbase --architectures=amd64,arm64 \
        --include=cargo,rustc,libstd-rust-dev:arm64,gcc-aarch64-linux-gnu,libc6-dev,gcc \
        --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='APT::Install-Recommends "false"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        forky "$root" ${uri:+"$uri"} >&2
    mkdir -p "$root"/{maitred,cargo,tools}
}

# In a mount namespace of its own, which goes with it.
compile() {
    mount --bind "$project" "$root/maitred"
    mount --bind "$home" "$root/cargo"
    mount --bind "$tools" "$root/tools"
    mount -t proc proc "$root/proc"
    local zig
    zig=$(cd "$tools" && find . -path '*/ziglang/zig' | head -1)
    chroot "$root" env -i PATH=/usr/bin:/bin HOME=/tmp CARGO_HOME=/cargo CARGO_NET_OFFLINE=true \
        XDG_CACHE_HOME=/tmp/cache CARGO_ZIGBUILD_ZIG_PATH="/tools/$zig" \
        MAITRED_LAUNCHER_LINKER=aarch64-linux-gnu-gcc SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-0}" \
        RUSTC=/usr/bin/rustc \
        sh -c "cd /maitred && /tools/python/bin/cargo-zigbuild zigbuild --locked --profile dist --target $target.$glibc --bin maitred"
}

case ${2:-} in
inside)
    home=$3
    compile
    # Root made them, and whoever builds is not always root.
    chown -R --reference="$project" "$project/target/$target"
    ;;
'')
    (cd "$project" && cargo fetch --locked --quiet)
    "$0" "$glibc" root "$home"
    ;;
root)
    become_root "$@"
    step aarch64 "$0" -- build_root
    unshare --mount --propagation private "$0" "$glibc" inside "$3"
    ;;
esac
