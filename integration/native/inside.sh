#!/usr/bin/env bash
# Process 1 of the native lane's namespaces: mounts what the chroot needs, then runs the scenarios.
# inside.sh ROOT PAYLOAD [OPTION of scenarios]...
set -euo pipefail
root=$1 payload=$2
shift 2

mount --make-rprivate /
# What the run writes is gone with it, and nothing of it is in the root that others use: also where it is killed.
over=/mnt
mount -t tmpfs -o mode=755 tmpfs "$over"
mkdir "$over"/{written,work,root}
mount -t overlay -o "lowerdir=$root,upperdir=$over/written,workdir=$over/work" overlay "$over/root"
cd "$over/root"
mount -t proc proc proc
mount --rbind /dev dev
mount -t sysfs sysfs sys

if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    # Controllers are handed down only by a cgroup that has no process itself.
    mkdir sys/fs/cgroup/lane
    echo $$ >sys/fs/cgroup/lane/cgroup.procs
else
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    while IFS=: read -r _ controllers _; do
        [ -n "$controllers" ] || continue
        mkdir "sys/fs/cgroup/${controllers#name=}"
        options=$controllers
        [ "$controllers" = "${controllers#name=}" ] || options=none,$controllers
        mount -t cgroup -o "$options" cgroup "sys/fs/cgroup/${controllers#name=}"
    done </proc/self/cgroup
fi

# Images, sockets and what is mounted from here must not lie on an overlay.
for directory in run tmp var/lib/containerd var/lib/kubelet var/log opt etc/maitred etc/containerd etc/nri etc/cdi; do
    mkdir -p "$directory"
    mount -t tmpfs -o mode=755 tmpfs "$directory"
done
mkdir -p opt/lane run/lock
mount --bind "$payload" opt/lane

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec chroot . /opt/lane/scenarios "$@"
