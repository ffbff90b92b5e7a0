#!/usr/bin/env bash
# Installs cargo-deb, cargo-generate-rpm, cargo-deny, cargo-zigbuild and zig into .cache/tools; some minutes, once. They are
# named with their versions: another may pack differently.
set -euo pipefail
. "$(dirname "$0")/../integration/lib.sh"
tools=$cache/tools

install_tools() {
    python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install --quiet --disable-pip-version-check ziglang==0.17.1 cargo-zigbuild==0.24.1
    local crate
    for crate in cargo-deb@3.8.0 cargo-generate-rpm@0.21.1 cargo-deny@0.20.2 cargo-fuzz@0.13.2; do
        say "tools: $crate"
        CARGO_TARGET_DIR=$tools/target cargo install --quiet --locked --root "$tools" "$crate"
    done
    rm -rf "$tools/target"
}

step tools "$0" -- install_tools
