#!/usr/bin/env bash
# Runs the native lane: the scenarios in a chroot on this machine, with a real containerd.
# lane-native.sh PAYLOAD [OPTION of scenarios]...
#
# Own mount, process, network, UTS and IPC namespaces and a cgroup of its own that it takes for the
# root: whatever happens inside, mounts and processes end with it and the host sees nothing of it.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
become_root "$@"

payload=$(realpath "$1")
shift
lane=maitred-lane-$$

# One new cgroup in each hierarchy, below our own (on v2 below the root: ours has processes).
cgroups=()
while IFS=: read -r _ controllers path; do
    if [ -n "$controllers" ]; then
        mounted=/sys/fs/cgroup/${controllers#name=}
    elif [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        mounted=/sys/fs/cgroup path=/
        for controller in cpuset cpu memory hugetlb pids; do
            echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
        done
    else
        continue
    fi
    [ -d "$mounted" ] && cgroups+=("${mounted%/}${path%/}/$lane")
done </proc/self/cgroup

# Killed processes leave their cgroups a moment later.
clean_up() {
    local directory
    for directory in "${cgroups[@]}"; do
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            [ -d "$directory" ] || break
            find "$directory" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
        done
    done
}
trap clean_up EXIT

# What a run that was killed outright has left.
for directory in "${cgroups[@]}"; do
    for stale in "${directory%-*}"-*; do
        [ ! -d "$stale" ] || [ -d "/proc/${stale##*-}" ] || find "$stale" -depth -type d -exec rmdir {} +
    done
done

for directory in "${cgroups[@]}"; do
    mkdir "$directory"
    # A new v1 cpuset is empty, and an empty cpuset takes no process.
    for file in cpuset.cpus cpuset.mems; do
        if [ -e "$directory/$file" ] && [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
            cat "$(dirname "$directory")/$file" >"$directory/$file"
        fi
    done
done

# All of it dies with this script, however that ends: unshare by its parent's death, the rest as the
# processes of its namespace.
# shellcheck disable=SC2016  # expanded by the inner shell
bash -c '
    cgroups=$1; shift
    for directory in $cgroups; do echo $$ >"$directory/cgroup.procs"; done
    exec setpriv --pdeathsig KILL \
        unshare --mount --pid --fork --kill-child --cgroup --net --uts --ipc "$@"
' lane "${cgroups[*]}" "$integration/native/inside.sh" "$cache/root" "$payload" --lane native "$@" </dev/null &
child=$!
trap 'kill -KILL $child' INT TERM
wait $child
