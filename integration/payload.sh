#!/usr/bin/env bash
# Compiles maitred, the scenarios and the stand-in NVML, and lays them with the images into
# .cache/payload: what both lanes find as /opt/lane. Needs no root.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# The profile of `cargo test`, so that everything compiles once. It has debug assertions, and with
# them the faults that scenarios inject.
say "compiling"
cargo build --manifest-path "$project/Cargo.toml" --profile test --bin maitred --example scenarios --example fake_nvml
built=${CARGO_TARGET_DIR:-$project/target}/debug
payload=$cache/payload
mkdir -p "$payload"
install "$built/maitred" "$built/examples/scenarios" "$built/examples/libfake_nvml.so" "$payload"
cp "$cache/images.tar" "$payload"
