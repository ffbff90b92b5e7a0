#!/usr/bin/env bash
# Runs the stages of `make test` one after the other and adds up their tests.
# test.sh [all]: with `all`, also the proof that each scenario fails without maitred, and long random runs.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$project"

logs=$cache/test
mkdir -p "$logs"
passed=0 failed=0 broken=() table=()

# stage NAME COMMAND...: its tests are what its "N passed, N failed" lines say; a stage that ends
# badly is counted even where it said nothing.
stage() {
    local name=$1 log=$logs/${1// /-}.log begin=$SECONDS status=0 counts
    shift
    say "$name"
    "$@" 2>&1 | tee "$log" || status=$?
    counts=$(sed -nE 's/.*\b([0-9]+) passed[;,] ([0-9]+) failed.*/\1 \2/p' "$log" |
        awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }')
    passed=$((passed + ${counts% *}))
    failed=$((failed + ${counts#* }))
    if [ $status != 0 ]; then
        broken+=("$name")
        [ "${counts#* }" != 0 ] || failed=$((failed + 1))
    fi
    table+=("$(printf '%-34s %5d s   %6d passed %4d failed%s' "$name" $((SECONDS - begin)) \
        "${counts% *}" "${counts#* }" "$([ $status = 0 ] || echo "   exit $status")")")
}

# A snapshot that differs fails, and leaves no file behind for somebody to accept.
export INSTA_UPDATE=no
# A panic is part of some tests, and printing where it came from takes a second that its deadline does not have.
export RUST_BACKTRACE=0

# The short random runs are the same every time: a failure here is one's own change. New ground is the long run's,
# which says where it began.
export PROPTEST_RNG_SEED=20261130

begin=$SECONDS
stage "format" cargo fmt --check
stage "set-up" "$integration/setup.sh"
stage "clippy" cargo clippy --all-targets -- -D warnings
stage "unit tests and conformance" cargo test
stage "native containerd" "$integration/lane-native.sh" "$cache/payload"
stage "runc and podman" "$integration/lane-oci.sh" "$cache/payload"
stage "NUMA guest" "$integration/lane-guest.sh" "$cache/payload"
if [ "${1:-}" = all ]; then
    stage "Docker" "$integration/lane-docker.sh" "$cache/payload"
    stage "native, proof without maitred" "$integration/lane-native.sh" "$cache/payload" --without-maitred
    stage "runc and podman, proof without maitred" "$integration/lane-oci.sh" "$cache/payload" --without-maitred
    stage "guest, proof without maitred" "$integration/lane-guest.sh" "$cache/payload" --without-maitred
    stage "set-up, containerd 1.7" "$integration/setup.sh" older
    stage "NUMA guest, containerd 1.7" env MAITRED_GUEST=older "$integration/lane-guest.sh" "$cache/payload"
    stage "tools for packages" "$project/packaging/tools.sh"
    stage "licences, bans and sources" "$cache/tools/bin/cargo-deny" --offline --all-features \
        --config "$project/packaging/deny.toml" check bans licenses sources
    stage "building the packages" "$project/packaging/build.sh"
    stage "packages" "$integration/lane-packages.sh"
    stage "packages under systemd" "$integration/lane-systemd.sh" "$cache/payload"
    stage "fuzzing" "$project/tests/fuzz/run.sh"
    seed=$(date +%s)
    say "random numbers begin at --seed $seed and PROPTEST_RNG_SEED=$seed"
    stage "churn natively" "$integration/lane-native.sh" "$cache/payload" --only churn --seed "$seed" --steps 300
    stage "churn in the guest" "$integration/lane-guest.sh" "$cache/payload" --only churn --seed "$seed" --steps 60
    stage "long churn and properties" env PROPTEST_RNG_SEED="$seed" PROPTEST_CASES=20000 \
        CARGO_PROFILE_TEST_OPT_LEVEL=2 cargo test --test suite -- --nocapture churn engine fuzz nri::life
fi

printf '\n'
printf '%s\n' "${table[@]}"
printf 'in %d s\n' $((SECONDS - begin))
for name in "${broken[@]}"; do
    say "what $name said of its failures"
    grep -E -A 12 'panicked at|^(failed|FAILED|not ok|error|FAIL)' "$logs/${name// /-}.log" | head -n 120 || true
done
[ ${#broken[@]} = 0 ] || printf 'failed: %s\n' "$(IFS=,; echo "${broken[*]}")"
echo "$passed passed, $failed failed"
[ ${#broken[@]} = 0 ] && [ "$failed" = 0 ]
