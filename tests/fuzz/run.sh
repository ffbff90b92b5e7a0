#!/usr/bin/env bash
# Runs every fuzzing target with cargo-fuzz on the stable toolchain (no sanitizer but the coverage that guides it:
# the code under test has no unsafe), as many at once as there are CPUs.
# run.sh [EXECUTIONS [TARGET]...]: how many in all, ten million unless told; a target that writes files takes a quarter of
# another's share.
# run.sh keep: packs the smallest inputs that reach all that is known to be reached into tests/fuzz/corpus.tar.gz.
# A finding is a file in tests/fuzz/artifacts, and its like belongs into tests/fuzz/corpus, where the seeds are. What else
# reaches new code lies in .cache/corpus, which begins as what was kept.
set -euo pipefail
. "$(dirname "$0")/../../integration/lib.sh"
cd "$project/tests/fuzz"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/fuzz-target}
fuzz=("$cache/tools/bin/cargo-fuzz" fuzz)
known=$cache/corpus
kept=corpus.tar.gz
# Larger inputs are fuzzed, and not kept: the archive is for a repository.
largest_kept=1024

[ -x "${fuzz[0]}" ] || "$project/packaging/tools.sh"
mapfile -t targets < <(sed -nE 's/^    \("([a-z_]+)", [a-z_]+\),$/\1/p' targets.rs)
[ ${#targets[@]} != 0 ] || die "targets.rs names no target as this script reads it"
say "building the targets"
"${fuzz[@]}" build --fuzz-dir . --sanitizer none
if [ ! -d "$known" ]; then
    mkdir -p "$known"
    [ ! -f $kept ] || tar -C "$known" -xzf $kept
fi
for target in "${targets[@]}"; do mkdir -p "$known/$target" "artifacts/$target"; done

libfuzzer() {
    local target=$1
    shift
    "${fuzz[@]}" run --fuzz-dir . --sanitizer none "$target" "$@"
}

keep() {
    local work target
    work=$(mktemp -d)
    for target in "${targets[@]}"; do
        mkdir -p "$work/small" "$work/kept/$target"
        find "$known/$target" -type f -size "-$((largest_kept + 1))c" -exec cp -t "$work/small" {} +
        # The seeds come first: what they reach is not kept again.
        mkdir "$work/merged"
        libfuzzer "$target" "$work/merged" "corpus/$target" "$work/small" -- -merge=1 -max_len=$largest_kept \
            >"$cache/fuzz-$target.log" 2>&1 || die "$target: see $cache/fuzz-$target.log"
        find "corpus/$target" -type f -exec sh -c 'for seed; do rm -f "$0/$(sha1sum <"$seed" | cut -c1-40)"; done' "$work/merged" {} +
        mv -t "$work/kept/$target" "$work"/merged/* 2>/dev/null || true
        say "$target: $(find "$work/kept/$target" -type f | wc -l) inputs kept"
        rm -rf "$work/small" "$work/merged"
    done
    tar -C "$work/kept" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c . | gzip -9n >$kept
    rm -rf "$work"
    say "$kept: $(stat -c %s $kept) bytes"
}

# one TARGET EXECUTIONS: one process for each target; -malloc_limit_mb is for one allocation, -rss_limit_mb for all.
one() {
    local target=$1 log=$cache/fuzz-$1.log
    libfuzzer "$target" "$known/$target" "corpus/$target" -- \
        -runs="$2" -max_len=65536 -len_control=0 -malloc_limit_mb=64 -rss_limit_mb=512 -timeout=10 \
        -artifact_prefix="artifacts/$target/" -print_final_stats=1 >"$log" 2>&1 || true
    if ! grep -q '^Done ' "$log"; then
        grep -E -m3 'ERROR|panicked' "$log" || true
        printf 'FAILED  %s: see %s and tests/fuzz/artifacts/%s\n' "$target" "$log" "$target"
        return
    fi
    printf 'ok      %-18s %9d executions, %s MB, %s\n' "$target" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")" \
        "$(sed -n 's/^Done .* in \(.*\)/\1/p' "$log")"
}

weight() { case $1 in tree | cdi) echo 1 ;; *) echo 4 ;; esac; }

if [ "${1:-}" = keep ]; then
    keep
    exit
fi
executions=${1:-10000000}
[ $# -lt 2 ] || targets=("${@:2}")
sum=0
for target in "${targets[@]}"; do sum=$((sum + $(weight "$target"))); done
say "$executions executions"
results=$(mktemp)
trap 'rm -f "$results"' EXIT
for target in "${targets[@]}"; do
    while [ "$(jobs -pr | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
    one "$target" $(((executions * $(weight "$target") + sum - 1) / sum)) | tee -a "$results" &
done
wait
total=$(awk '$1 == "ok" { sum += $3 } END { print sum + 0 }' "$results")
passed=$(grep -c '^ok ' "$results" || true)
say "$total executions"
[ "$total" -ge "$executions" ] || say "expected $executions: a target has ended early"
echo "$passed passed, $((${#targets[@]} - passed)) failed"
[ "$passed" = ${#targets[@]} ] && [ "$total" -ge "$executions" ]
