#!/bin/sh
# Lists what still leads to maitred on this node: hooks, runtime wrappers, a link among containerd's plugins, and containers
# behind the wrapper. While there is any, maitred must not be taken away: a hook or a BinaryName that leads to nothing keeps
# every container from starting, and a container whose runtime is gone can be neither entered nor stopped.
# in-use [ROOT]: prints a line for each and ends with 1, or prints nothing and ends with 0.

root=${1:-}
found=0

# A comment is not a use, nor is a file that only a package manager looks at.
uses() {
    case $1 in
    *.dpkg-* | *.rpmnew | *.rpmsave | *.bak | *.orig | *~) return 1 ;;
    esac
    [ -f "$1" ] && grep -v '^[[:space:]]*[#;]' -- "$1" 2>/dev/null | grep -q "$2"
}

report() {
    found=1
    printf '%s: %s\n' "$1" "$2"
}

# The binary, or the link that is the wrapper, as a program is named: at the end of a path or by itself.
name='["/ '"'"'=]maitred\(-runtime\)\{0,1\}["'"'"' ,]'
name_at_end='["/ '"'"'=]maitred\(-runtime\)\{0,1\}$'

look() {
    what=$1
    shift
    for file in "$@"; do
        if uses "$file" "$name" || uses "$file" "$name_at_end"; then report "$file" "$what"; fi
    done
}

look "a runtime of containerd, or one of its base specifications" \
    "$root"/etc/containerd/*.toml "$root"/etc/containerd/*.json \
    "$root"/etc/containerd/*/*.toml "$root"/etc/containerd/*/*.json \
    "$root"/var/lib/rancher/*/agent/etc/containerd/* \
    "$root"/var/lib/rancher/*/agent/etc/containerd/*/*.toml \
    "$root"/etc/k0s/*.toml "$root"/etc/k0s/*/*.toml
look "a hook" \
    "$root"/etc/containers/oci/hooks.d/*.json \
    "$root"/usr/share/containers/oci/hooks.d/*.json \
    "$root"/usr/libexec/oci/hooks.d/*.json
look "a runtime of podman" \
    "$root"/etc/containers/containers.conf "$root"/etc/containers/containers.conf.d/*.conf
look "a runtime of CRI-O" \
    "$root"/etc/crio/crio.conf "$root"/etc/crio/crio.conf.d/*
look "a runtime of Docker" "$root"/etc/docker/daemon.json

# containerd's shim keeps the runtime's path with each container, whatever the configuration says by now.
for tasks in run/containerd run/k3s/containerd run/docker/containerd/daemon; do
    # shellcheck disable=SC2046  # ids have no blanks
    look "a container behind the wrapper" \
        $(grep -ls maitred "$root/$tasks"/io.containerd.runtime.v2.task/*/*/runtime)
done
# So does podman's conmon, among its arguments.
# shellcheck disable=SC2013  # these paths have no blanks
for process in $(grep -lsz '\(^\|/\)maitred\(-runtime\)\{0,1\}$' "$root"/proc/[0-9]*/cmdline); do
    process=${process%/cmdline}
    if [ "$(cat "$process/comm" 2>/dev/null)" = conmon ]; then report "$process" "a container behind the wrapper"; fi
done

for plugin in "$root"/opt/nri/plugins/*; do
    [ -L "$plugin" ] || continue
    case $(readlink -- "$plugin") in
    */maitred | maitred) report "$plugin" "a plugin that containerd launches" ;;
    esac
done

exit $found
