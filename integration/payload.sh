#!/usr/bin/env bash
# Compiles maitred, the scenarios and the stand-in NVML, and lays them with the images into
# .cache/payload: what both lanes find as /opt/lane. Needs no root.
# payload.sh [release]: with `release`, optimised, into .cache/payload-release.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# The profile of `cargo test`, so that everything compiles once. It has debug assertions, and with
# them the faults that scenarios inject.
profile=test directory=debug payload=$cache/payload
[ "${1:-}" != release ] || { profile=release directory=release payload=$cache/payload-release; }
say "compiling, profile $profile"
cargo build --manifest-path "$project/Cargo.toml" --profile "$profile" --bin maitred --example scenarios --example fake_nvml
built=${CARGO_TARGET_DIR:-$project/target}/$directory
mkdir -p "$payload"
install "$built/maitred" "$built/examples/scenarios" "$built/examples/libfake_nvml.so" "$payload"
cp "$cache/images.tar" "$payload"
