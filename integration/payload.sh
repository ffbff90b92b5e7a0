#!/usr/bin/env bash
# Compiles maitred, the scenarios and the stand-in NVML, and lays them with the images into
# .cache/payload: what both lanes find as /opt/lane. Needs no root.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

profile=${MAITRED_PROFILE:-dev}
built=$project/target/${profile/#dev/debug}
say "compiling"
cargo build --manifest-path "$project/Cargo.toml" --profile "$profile" --bin maitred --example scenarios --example fake_nvml
payload=$cache/payload
mkdir -p "$payload"
install "$built/maitred" "$built/examples/scenarios" "$built/examples/libfake_nvml.so" "$payload"
cp "$cache/images.tar" "$payload"
