#!/usr/bin/env bash
# Runs the wrapper as a runtime of Docker on this machine: Debian's docker.io, unpacked below .cache and not installed,
# with a daemon of its own that has no network and touches no firewall.
# lane-docker.sh PAYLOAD
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/oci-lib.sh"
become_root "$@"

maitred=$(realpath "$1")/maitred
docker=$cache/docker
work=$(mktemp -d /tmp/maitred-docker.XXXXXX)
MAITRED_HOOK_LOG=$work/hook.jsonl

cpus=$(nproc --all)
[ "$cpus" -ge 2 ] || die "two CPUs are needed, this machine has $cpus"

unpack_docker() {
    rm -rf "$docker"
    mkdir -p "$docker/root"
    (cd "$docker" && apt-get -qq -o APT::Sandbox::User=root download docker.io containerd tini libdevmapper1.02.1)
    for package in "$docker"/*.deb; do dpkg-deb -x "$package" "$docker/root"; done
}
step docker "$0" -- unpack_docker
export PATH=$docker/root/usr/bin:$docker/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(find "$docker/root" -name '*-linux-gnu' -type d -printf '%p:' | sed 's/:$//')
export LD_LIBRARY_PATH

clean_up() {
    local id
    for id in $(docker_ ps -aq 2>/dev/null); do docker_ rm -f "$id" >/dev/null 2>&1 || true; done
    [ ! -e "$work/pid" ] || kill "$(cat "$work/pid")" 2>/dev/null || true
    until_ "! pgrep -f '$work/socket'" >/dev/null || true
    umount -R "$work"/* 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT

docker_() { docker -H "unix://$work/socket" "$@"; }
run() { docker_ run --network=none --runtime=maitred "$@"; }

owner_config "$work/config.toml" "$(command -v runc)"
# Docker hands its runtimes no environment of ours.
cat >"$work/maitred-runtime" <<END
#!/bin/sh
export MAITRED_CONFIG=$work/config.toml MAITRED_STORE=$work/store MAITRED_HOOK_LOG=$MAITRED_HOOK_LOG
exec $maitred runtime "\$@"
END
chmod +x "$work/maitred-runtime"
dockerd --data-root "$work/data" --exec-root "$work/exec" -H "unix://$work/socket" -p "$work/pid" \
    --bridge=none --iptables=false --ip-masq=false --storage-driver=vfs \
    --add-runtime "maitred=$work/maitred-runtime" >"$work/dockerd.log" 2>&1 &
until_ "docker_ version >/dev/null 2>&1" || die "dockerd does not come up: $(tail -n 3 "$work/dockerd.log")"
rootfs "$work/image"
tar -C "$work/image" -c . | docker_ import - maitred:1 >/dev/null

allowed() { docker_ exec "$1" grep Cpus_allowed_list /proc/1/status | cut -f2; }

own=$([ "$cpus" = 2 ] && echo 1 || echo "1-$((cpus - 1))")

pinned() {
    run -d --name shared maitred:1 sleep 600 >/dev/null
    run -d --name own --cpus "$((cpus - 1))" --memory 64m maitred:1 sleep 600 >/dev/null
    is "its own CPUs" "$own" "$(allowed own)"
    is "what is left to the others" 0 "$(allowed shared)"
}
refused() {
    local said
    ! said=$(run --rm --cpus 1 --memory 64m maitred:1 true 2>&1) || { echo "it started"; return 1; }
    grep -q 'TopologyAffinityError: container .* has no CPU free' <<<"$said" || { echo "it says: $said"; return 1; }
}
kept() {
    docker_ restart -t 0 own >/dev/null
    is "its CPUs after a restart" "$own" "$(allowed own)"
    docker_ update --memory 128m --memory-swap 128m own >/dev/null
    is "its CPUs after an update" "$own" "$(allowed own)"
}
released() {
    docker_ rm -f own >/dev/null
    run --rm --cpus 1 --memory 64m maitred:1 true
}

check "Docker's container is pinned, others make room" pinned
check "Docker tells why one was refused" refused
check "a restart and an update change nothing" kept
check "what was removed is free" released
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
