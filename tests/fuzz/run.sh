#!/usr/bin/env bash
# Runs every fuzzing target with cargo-fuzz on the stable toolchain (no sanitizer but the coverage that guides it:
# the code under test has no unsafe). run.sh [EXECUTIONS]: how many in all, ten million unless told; run.sh N TARGET
# runs one. A finding is a file in tests/fuzz/artifacts, and its like belongs into tests/fuzz/corpus, where the seeds are.
# What else reaches new code stays in .cache/corpus for the next run.
set -euo pipefail
. "$(dirname "$0")/../../integration/lib.sh"
cd "$project/tests/fuzz"
executions=${1:-10000000}
mapfile -t targets < <(sed -nE 's/^    \("([a-z_]+)", [a-z_]+\),$/\1/p' targets.rs)
each=$((executions / ${#targets[@]}))
[ $# -lt 2 ] || { targets=("$2"); each=$executions; }
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/fuzz-target}
fuzz=("$cache/tools/bin/cargo-fuzz" fuzz)
[ -x "${fuzz[0]}" ] || "$project/packaging/tools.sh"

say "building the targets"
"${fuzz[@]}" build --fuzz-dir . --sanitizer none
passed=0
for target in "${targets[@]}"; do
    mkdir -p "$cache/corpus/$target" "artifacts/$target"
    say "$target: $each executions"
    # One process for each target: -malloc_limit_mb is for one allocation, -rss_limit_mb for all.
    "${fuzz[@]}" run --fuzz-dir . --sanitizer none "$target" "$cache/corpus/$target" "corpus/$target" -- \
        -runs="$each" -max_len=65536 -len_control=0 -malloc_limit_mb=64 -rss_limit_mb=512 -timeout=10 \
        -artifact_prefix="artifacts/$target/" -print_final_stats=1 2>&1 |
        tee "$cache/fuzz-$target.log" | grep -E 'DONE|ERROR|panicked|stat::(number_of_executed|peak_rss)' || true
    grep -q '^Done ' "$cache/fuzz-$target.log" || die "$target: see $cache/fuzz-$target.log and tests/fuzz/artifacts/$target"
    passed=$((passed + 1))
done
echo "$passed passed, 0 failed"
