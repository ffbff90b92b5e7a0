#!/usr/bin/env bash
# Runs the wrapper and the hooks on this very machine, with its own runc and podman: what a container then sees of
# itself is what counts. Needs no NUMA: CPU 0 is kept for the system, everything else is to be given.
# lane-oci.sh PAYLOAD [--without-maitred]: with the latter each check passes by failing.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/oci-lib.sh"
become_root "$@"

# A mount namespace of its own: what hooks/ names is put where those files say, and the host sees nothing of it.
if [ -z "${MAITRED_OCI_INSIDE:-}" ]; then
    export MAITRED_OCI_INSIDE=1
    exec unshare --mount --propagation private "$0" "$@"
fi

maitred=$(realpath "$1")/maitred
without=${2:-}
work=$(mktemp -d /tmp/maitred-oci.XXXXXX)

cpus=$(nproc --all)
[ "$cpus" -ge 2 ] || die "two CPUs are needed, this machine has $cpus"
whole=$((cpus - 1))
last=$whole

# What a test leaves is gone with it: containers first, they keep the directory busy.
clean_up() {
    local id
    for id in $(runc --root "$work/runc" list -q 2>/dev/null); do runc --root "$work/runc" delete --force "$id"; done
    podman_ rm --all --force --time 0 >/dev/null 2>&1 || true
    umount -R "$work"/podman/*/overlay /usr/bin /etc /run/maitred /var/log/maitred 2>/dev/null || true
    rmdir /run/maitred /var/log/maitred 2>/dev/null || true
    rmdir /sys/fs/cgroup{,/*}/maitred-oci-$$ 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT

mkdir -p "$work"/{bundles,hooks}
rootfs "$work/rootfs"
owner_config "$work/config.toml" "$(command -v runc)"
export MAITRED_CONFIG=$work/config.toml MAITRED_STORE=$work/store MAITRED_HOOK_LOG=$work/hook.jsonl
ln -s "$maitred" "$work/maitred-runtime"
wrapper=$work/maitred-runtime
[ "$without" != --without-maitred ] || wrapper=$(command -v runc)

# One hooks.d file a stage, as in hooks/containers, with the places of this test.
hook() {
    local directory=$1 stage
    shift
    mkdir -p "$directory"
    for stage in "$@"; do
        [ "$without" = --without-maitred ] || cat >"$directory/$stage.json" <<END
{ "version": "1.0.0", "when": { "always": true }, "stages": ["$stage"],
  "hook": { "path": "$maitred", "args": ["maitred", "hook", "$stage", "--config", "$MAITRED_CONFIG",
            "--store", "$MAITRED_STORE", "--log", "$MAITRED_HOOK_LOG"] } }
END
    done
}
hook "$work/hooks/precreate" precreate poststop
hook "$work/hooks/late" createRuntime poststop

# The places that hooks/ and the defaults name, over the host's own.
mkdir -p "$work"/over/{bin,etc/maitred} /run/maitred /var/log/maitred
cp "$maitred" "$work/over/bin/maitred"
cp "$work/config.toml" "$work/over/etc/maitred/"
mount -t overlay -o "lowerdir=$work/over/bin:/usr/bin" overlay /usr/bin
mount -t overlay -o "lowerdir=$work/over/etc:/etc" overlay /etc
mount -t tmpfs -o mode=700 tmpfs /run/maitred
mount -t tmpfs tmpfs /var/log/maitred

# bundle NAME CPUS [HOOKS.json] -- COMMAND...: a bundle of so many whole CPUs; 0 asks for next to nothing.
bundle() {
    local name=$1 count=$2 hooks=${3:-{\}} args
    shift 3
    args=$(printf '"%s",' "$@")
    mkdir -p "$work/bundles/$name"
    local resources='"cpu":{"shares":128}'
    [ "$count" = 0 ] || resources="\"cpu\":{\"quota\":$((count * 100000)),\"period\":100000},\"memory\":{\"limit\":67108864}"
    cat >"$work/bundles/$name/config.json" <<END
{"ociVersion":"1.0.2","root":{"path":"$work/rootfs","readonly":true},"hostname":"$name","hooks":$hooks,
 "process":{"user":{"uid":0,"gid":0},"args":[${args%,}],"env":["PATH=/bin"],"cwd":"/"},
 "mounts":[{"destination":"/proc","type":"proc","source":"proc"}],
 "linux":{"cgroupsPath":"/maitred-oci-$$/$name","resources":{$resources},
 "namespaces":[{"type":"pid"},{"type":"ipc"},{"type":"uts"},{"type":"mount"},{"type":"network"}]}}
END
}

show=(/bin/grep Cpus_allowed_list /proc/self/status)
run_() { "$1" --root "$work/runc" run --bundle "$work/bundles/$2" "$2"; }
# As on a host with a low limit on files and processes, with cgroups that podman makes itself.
podman_() {
    podman --root "$work/podman/root" --runroot "$work/podman/run" --tmpdir "$work/podman/tmp" \
        --cgroup-manager cgroupfs --events-backend none "$@"
}
asks=()
podman_run() {
    podman_ "$@" run --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --memory 64m \
        --cpus "$count" "${asks[@]}" --rootfs "$work/rootfs" "${command[@]}"
}

cpus_in() { sed -n 's/.*Cpus_allowed_list:[[:space:]]*//p'; }
says() { grep -q -- "$2" <<<"$1" || { echo "'$2' is not in: $1"; return 1; }; }
own() { [ "$whole" = 1 ] && echo "$last" || echo "1-$last"; }

wrapper_pins() {
    bundle one "$whole" '{}' "${show[@]}"
    is "CPUs within" "$(own)" "$(run_ "$wrapper" one | cpus_in)"
}

wrapper_refuses() {
    bundle large "$cpus" '{}' /bin/true
    local said status=0
    said=$(run_ "$wrapper" large 2>&1) || status=$?
    is "exit status" 1 "$status"
    says "$said" "TopologyAffinityError: container large: "
}

# The second finds nothing free while the first lives, and all of it afterwards; a shared one makes room.
wrapper_shares() {
    bundle shared 0 '{}' /bin/sleep 60
    bundle first "$whole" '{}' /bin/sleep 60
    bundle second "$whole" '{}' "${show[@]}"
    run_ "$wrapper" shared >/dev/null 2>&1 </dev/null &
    until_runs shared
    "$wrapper" --root "$work/runc" create --bundle "$work/bundles/first" first >/dev/null </dev/null 2>&1
    is "CPUs of the shared one" 0 "$(cpus_of shared)"
    says "$("$maitred" verify --store "$work/store" first 2>&1)" "^aligned .*/first *cpus $(own) "
    local status=0
    run_ "$wrapper" second >/dev/null 2>&1 || status=$?
    is "exit status of the second" 1 "$status"
    runc --root "$work/runc" kill first KILL
    until_ "[ \$(runc --root '$work/runc' list | awk '\$1 == \"first\" { print \$3 }') = stopped ]"
    "$wrapper" --root "$work/runc" delete first
    is "CPUs of the second" "$(own)" "$(run_ "$wrapper" second | cpus_in)"
    "$wrapper" --root "$work/runc" delete --force shared
}

# One is decided about, and its runtime takes its time; meanwhile another is given its CPUs.
wrapper_settles() {
    local runc_
    runc_=$(command -v runc)
    cat >"$work/slow" <<END
#!/bin/sh
case "\$*" in *late) while [ -e "$work/hold" ]; do sleep 0.05; done ;; esac
exec "$runc_" "\$@"
END
    chmod +x "$work/slow"
    sed "s|^path = .*|path = \"$work/slow\"|" "$work/config.toml" >"$work/slow.toml"
    bundle late 0 '{}' /bin/sleep 60
    bundle first "$whole" '{}' /bin/sleep 60
    touch "$work/hold"
    MAITRED_CONFIG=$work/slow.toml run_ "$wrapper" late >/dev/null 2>&1 </dev/null &
    [ "$without" = --without-maitred ] || until_ "[ -e '$work/store/allocations/late.late.json' ]"
    "$wrapper" --root "$work/runc" create --bundle "$work/bundles/first" first >/dev/null </dev/null 2>&1
    rm "$work/hold"
    until_runs late
    is "CPUs of the one that came late" 0 "$(cpus_of late)"
    says "$("$maitred" verify --store "$work/store" late 2>&1)" "^aligned .*/late *cpus shared"
}

hooks_place_and_release() {
    local hooks command="\"path\":\"$maitred\"" places="\"--config\",\"$MAITRED_CONFIG\",\"--store\",\"$MAITRED_STORE\",\"--log\",\"$MAITRED_HOOK_LOG\""
    hooks="{\"createRuntime\":[{$command,\"args\":[\"maitred\",\"hook\",\"createRuntime\",$places]}],\"poststop\":[{$command,\"args\":[\"maitred\",\"hook\",\"poststop\",$places]}]}"
    [ "$without" != --without-maitred ] || hooks='{}'
    bundle hooked "$whole" "$hooks" "${show[@]}"
    is "CPUs within" "$(own)" "$(run_ runc hooked | cpus_in)"
    is "allocations after it" 0 "$(find "$work/store/allocations" -name 'hooked.*' | wc -l)"
    bundle refused "$cpus" "$hooks" /bin/true
    local status=0
    run_ runc refused >/dev/null 2>&1 || status=$?
    is "started, though it was to be refused" 1 "$status"
}

podman_precreate() {
    local count=$whole command=("${show[@]}") said
    is "CPUs within" "$(own)" "$(podman_run --runtime runc --hooks-dir "$work/hooks/precreate" | cpus_in)"
    count=$cpus
    ! said=$(podman_run --runtime runc --hooks-dir "$work/hooks/precreate" 2>&1) || { echo "started: $said"; return 1; }
}

podman_late_hook() {
    local count=$whole command=("${show[@]}")
    is "CPUs within" "$(own)" "$(podman_run --runtime runc --hooks-dir "$work/hooks/late" | cpus_in)"
}

# Those of hooks/ as they stand, with every default: by annotation, and for everybody.
podman_files() {
    local count=$whole command=("${show[@]}") hooks=$project/hooks said
    [ "$without" != --without-maitred ] || hooks=$work/no-hooks
    mkdir -p "$work"/no-hooks/containers{,-always}
    is "CPUs by annotation" "$(own)" "$(asks=(--annotation maitred/hook=true); podman_run --runtime runc --hooks-dir "$hooks/containers" | cpus_in)"
    is "allocations after it" 0 "$(find /run/maitred/allocations -name '*.json' | wc -l)"
    is "CPUs of one that does not ask" "0-$last" "$(podman_run --runtime runc --hooks-dir "$hooks/containers" | cpus_in)"
    is "CPUs of anybody" "$(own)" "$(podman_run --runtime runc --hooks-dir "$hooks/containers-always" | cpus_in)"
    count=$cpus
    ! said=$(podman_run --runtime runc --hooks-dir "$hooks/containers-always" 2>&1) || { echo "started: $said"; return 1; }
    says "$(cat /var/log/maitred/hook.jsonl)" '"decision":"rejected"'
}

podman_wrapper() {
    local count=$whole command=("${show[@]}") said
    is "CPUs within" "$(own)" "$(podman_run --runtime "$wrapper" | cpus_in)"
    count=$cpus
    ! said=$(podman_run --runtime "$wrapper" 2>&1) || { echo "started: $said"; return 1; }
    says "$said" "TopologyAffinityError"
}

until_runs() { until_ "runc --root '$work/runc' state '$1' 2>/dev/null | grep -q '\"status\": \"running\"'"; }
cpus_of() {
    local pid
    pid=$(runc --root "$work/runc" state "$1" | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
    cpus_in <"/proc/$pid/status"
}

# What one leaves is not the next one's.
alone() {
    local id
    check "$@"
    for id in $(runc --root "$work/runc" list -q 2>/dev/null); do runc --root "$work/runc" delete --force "$id"; done
    rm -rf "$work/store" /run/maitred/allocations
}

alone "runc behind the wrapper is pinned" wrapper_pins
alone "runc behind the wrapper is refused what does not fit" wrapper_refuses
alone "two behind the wrapper share nothing, a third makes room" wrapper_shares
alone "a shared one in the making loses what is given away meanwhile" wrapper_settles
alone "hooks of runc place, refuse and release" hooks_place_and_release
alone "podman's precreate hook pins and refuses" podman_precreate
alone "podman's createRuntime hook pins" podman_late_hook
alone "podman with the files of hooks/ pins those who ask, and all" podman_files
alone "podman behind the wrapper is pinned and refused" podman_wrapper
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
