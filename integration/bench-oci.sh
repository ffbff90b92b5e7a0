#!/usr/bin/env bash
# What `runc run` of a trivial container costs on this machine: alone, pinned by hand (the runtime and the kernel have
# work with a cpuset, whoever wrote it), with a hook that does nothing, with maitred's hooks, and behind the wrapper. One
# side after the other and again, each first as often as the others, so that what else the machine does weighs on all
# alike; the ratio is that within one round. CPU time, of the runtime and all it starts, is told as well: it is the same on
# a busy machine.
# bench-oci.sh PAYLOAD ROUNDS [RUNTIME]
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/oci-lib.sh"
become_root "$@"

maitred=$(realpath "$1")/maitred
rounds=$2
runtime=$(command -v "${3:-runc}")
work=$(mktemp -d /tmp/maitred-bench.XXXXXX)
trap 'rmdir /sys/fs/cgroup{,/*}/maitred-bench-$$ 2>/dev/null; rm -rf "$work"' EXIT

rootfs "$work/rootfs"
owner_config "$work/config.toml" "$runtime"
export MAITRED_CONFIG=$work/config.toml MAITRED_STORE=$work/store MAITRED_HOOK_LOG=$work/hook.jsonl
ln -s "$maitred" "$work/maitred-runtime"

# One whole CPU and memory: the whole way, exclusive CPUs included.
bundle() {
    mkdir -p "$work/$1"
    cat >"$work/$1/config.json" <<END
{"ociVersion":"1.0.2","root":{"path":"$work/rootfs","readonly":true},"hooks":$2,
 "process":{"user":{"uid":0,"gid":0},"args":["/bin/true"],"env":["PATH=/bin"],"cwd":"/"},
 "mounts":[{"destination":"/proc","type":"proc","source":"proc"}],
 "linux":{"cgroupsPath":"/maitred-bench-$$/$1","resources":{"cpu":{${3:-}"quota":100000,"period":100000},"memory":{"limit":67108864}},
 "namespaces":[{"type":"pid"},{"type":"ipc"},{"type":"uts"},{"type":"mount"},{"type":"network"}]}}
END
}
places="\"--config\",\"$MAITRED_CONFIG\",\"--store\",\"$MAITRED_STORE\",\"--log\",\"$MAITRED_HOOK_LOG\""
ours() { echo "{\"path\":\"$maitred\",\"args\":[\"maitred\",\"hook\",\"$1\",$places]}"; }
idle='{"path":"/bin/true","args":["true"]}'
bundle alone '{}'
bundle pinned '{}' '"cpus":"1","mems":"0",'
bundle idle "{\"createRuntime\":[$idle],\"poststop\":[$idle]}"
bundle hook "{\"createRuntime\":[$(ours createRuntime)],\"poststop\":[$(ours poststop)]}"
bundle wrapper '{}'

sides=(alone pinned idle hook wrapper)
run() {
    local command=$runtime begin=$EPOCHREALTIME end
    [ "$1" != wrapper ] || command=$work/maitred-runtime
    { time "$command" --root "$work/runc" run --bundle "$work/$1" "$1" </dev/null >"$work/said" 2>&1; } 2>"$work/cpu" ||
        die "$1 does not run: $(cat "$work/said")"
    end=$EPOCHREALTIME
    took=$((${end/./} - ${begin/./}))
    read -r user system <"$work/cpu"
    cpu=$((10#${user/./} + 10#${system/./}))
}
TIMEFORMAT='%3U %3S'

for round in $(seq -2 "$((rounds - 1))"); do
    for turn in 0 1 2 3 4; do
        side=${sides[$(((turn + round + 5) % 5))]}
        run "$side"
        # The first rounds warm the caches of all sides.
        [ "$round" -lt 0 ] || printf '%s %s %s %s\n' "$round" "$side" "$took" "$cpu"
    done
done >"$work/times"

"$runtime" --version | head -1
awk -v rounds="$rounds" '
    { took["wall", $2, $1] = $3 / 1000; took["cpu", $2, $1] = $4 }
    function median(kind, side, over,    n, i, j, x, v) {
        n = 0
        for (i = 0; i < rounds; i++) v[n++] = took[kind, side, i] / (over == "" ? 1 : took[kind, over, i])
        for (i = 1; i < n; i++) { x = v[i]; for (j = i - 1; j >= 0 && v[j] > x; j--) v[j + 1] = v[j]; v[j + 1] = x }
        return n % 2 ? v[(n - 1) / 2] : (v[n / 2 - 1] + v[n / 2]) / 2
    }
    END {
        printf "run of /bin/true, %d rounds, medians\n", rounds
        split("alone pinned idle hook wrapper", sides); split("alone|pinned by hand|hooks that do nothing|maitred hooks (createRuntime, poststop)|maitred wrapper", names, "|")
        split("wall cpu", kinds)
        for (k = 1; k <= 2; k++)
            for (i = 1; i <= 5; i++)
                printf "  %-40s %-4s %7.2f ms   %+5.1f %% over alone   %+5.1f %% over pinned   %+5.1f %% over idle hooks\n", names[i], kinds[k],
                    median(kinds[k], sides[i], ""), (median(kinds[k], sides[i], "alone") - 1) * 100,
                    (median(kinds[k], sides[i], "pinned") - 1) * 100, (median(kinds[k], sides[i], "idle") - 1) * 100
    }' "$work/times"

# What the launcher adds to the start of a program that does nothing. The precreate hook is who puts it there.
starts=200
"$maitred" hook precreate --config "$MAITRED_CONFIG" --store "$MAITRED_STORE" --log "$MAITRED_HOOK_LOG" \
    <"$work/alone/config.json" >/dev/null
launcher=$MAITRED_STORE/launcher
each() {
    local _ user system
    { time for _ in $(seq "$starts"); do "$@"; done; } 2>"$work/cpu"
    read -r user system <"$work/cpu"
    cpu=$((10#${user/./} + 10#${system/./}))
}
each "$work/rootfs/bin/true"
without=$cpu
each "$launcher" bind:0 -- "$work/rootfs/bin/true"
awk -v size="$(stat -c %s "$launcher")" -v with="$cpu" -v without="$without" -v starts="$starts" 'BEGIN {
    printf "launcher, %d bytes: a program starts in %.2f ms of CPU time without it, %.2f ms with it\n",
        size, without / starts, with / starts }'
