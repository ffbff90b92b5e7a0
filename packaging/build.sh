#!/usr/bin/env bash
# Builds the DEB and the RPM into target/packages: for x86-64 here, for aarch64 in a chroot whose Debian has a Rust library
# for it. Linked by zig for glibc 2.28, whatever this machine has.
# build.sh [x86_64|aarch64]...: both unless named.
set -euo pipefail
. "$(dirname "$0")/../integration/lib.sh"
cd "$project"

glibc=2.28
tools=$cache/tools
packages=$project/target/packages
package=$project/target/package
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}

# No path of this machine gets into the binary: cargo's own directory, the project's, the generated code's.
remapped() {
    printf -- '--remap-path-prefix=%s=/maitred --remap-path-prefix=%s=/cargo' "$project" "${CARGO_HOME:-$HOME/.cargo}"
}

compile_x86_64() {
    PATH=$tools/python/bin:$PATH MAITRED_LAUNCHER_LINKER=cc RUSTFLAGS=$(remapped) \
        cargo zigbuild --locked --profile dist --target "x86_64-unknown-linux-gnu.$glibc" --bin maitred
}

compile_aarch64() {
    "$project/packaging/aarch64.sh" "$glibc"
}

# lay_out TARGET: what is packed beside the binary and is not in the tree as it is packed.
lay_out() {
    local out
    rm -rf "$package"
    mkdir -p "$package/man"
    # The newest: an older build of other features may lie beside it.
    out=$(find "target/$1/dist/build" -path '*/maitred-*/out/launcher' -printf '%T@ %p\n' | sort -n | tail -1 | cut -d' ' -f2-)
    install -m 755 "$out" "$package/launcher"
    local page
    for page in packaging/man/*; do gzip -9nc "$page" >"$package/man/${page##*/}.gz"; done
    gzip -9nc CHANGELOG.md >"$package/CHANGELOG.md.gz"
    python3 packaging/licences.py "$1" | gzip -9n >"$package/licences.txt.gz"
}

# The tools look below target/release where the lists in Cargo.toml say so, and know which profile is meant.
pack() {
    local target=$1-unknown-linux-gnu
    lay_out "$target"
    mkdir -p "$packages"
    "$tools/bin/cargo-deb" --no-build --no-strip --profile dist --target "$target" --output "$packages/" >/dev/null
    "$tools/bin/cargo-generate-rpm" --profile dist --target "$target" --output "$packages/" >/dev/null
}

# The oldest libc the binary runs on is that of its newest symbol.
check() {
    local binary=target/$1-unknown-linux-gnu/dist/maitred newest
    newest=$(readelf -W --dyn-syms "$binary" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
    [ "$(printf '%s\n' "GLIBC_$glibc" "$newest" | sort -V | tail -1)" = "GLIBC_$glibc" ] ||
        die "$binary needs $newest, expected nothing after GLIBC_$glibc"
    say "$1: $(stat -c %s "$binary") bytes, newest symbol $newest"
}

"$project/packaging/host-packages.sh"
"$project/packaging/tools.sh"
rm -rf "$packages"
[ $# != 0 ] || set -- x86_64 aarch64
for architecture; do
    say "compiling for $architecture"
    "compile_$architecture"
    check "$architecture"
    pack "$architecture"
done
(cd "$packages" && sha256sum -- *)
