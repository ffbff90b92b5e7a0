#!/bin/sh
# Lists what leads to maitred on this node: hooks, runtime wrappers, a link among containerd's plugins, and containers behind
# the wrapper. While there is any, maitred must not be taken away: a hook or a BinaryName that leads to nothing keeps every
# container from starting, and a container whose runtime is gone can be neither entered nor stopped. Looked at is where the
# runtimes look by themselves, and what their files name.
# in-use [ROOT]: prints a line for each and ends with 1, or prints nothing and ends with 0.

root=${1:-}
found=0

# The binary, or the link that is the wrapper, as a program is named: at the end of a path or by itself.
name='["/ '"'"'=]maitred\(-runtime\)\{0,1\}\(["'"'"' ,]\|$\)'

# A comment is not a use.
without_comments() { sed 's/^[[:space:]]*[#;].*//; s/[[:space:]]#.*//' -- "$1" 2>/dev/null; }
uses() { [ -f "$1" ] && without_comments "$1" | grep -q "$name"; }

report() {
    found=1
    printf '%s: %s\n' "$1" "$2"
}

look() {
    what=$1
    shift
    for file in "$@"; do
        if uses "$file"; then report "$file" "$what"; fi
    done
}

# Nor is a file that only a package manager looks at; what is read by whatever name it has is not asked this.
kept() {
    case $1 in
    *.dpkg-* | *.rpmnew | *.rpmsave | *.bak | *.orig | *~) return 1 ;;
    esac
}

# What a line `KEY: VALUE` or `KEY = "VALUE"` of these files says.
said() {
    key=$1
    shift
    for file in "$@"; do
        [ -f "$file" ] && without_comments "$file" |
            sed -n "s/^[[:space:]]*[\"']\{0,1\}${key}[\"']\{0,1\}[[:space:]]*[:=][[:space:]]*[\"']\{0,1\}\([^\"']*[^\"'[:space:]]\).*/\1/p"
    done
}

# Of RKE2 and k3s, which write containerd's configuration below a directory that the owner may choose.
distributions=$(
    echo /var/lib/rancher/rke2
    echo /var/lib/rancher/k3s
    said data-dir "$root"/etc/rancher/*/config.yaml "$root"/etc/rancher/*/config.yaml.d/*.yaml
)
# containerd's files, then those that they name, such as imports and base specifications.
containerd=$(
    set -- "$root"/etc/containerd/*.toml "$root"/etc/containerd/*.json "$root"/etc/containerd/*/*.toml \
        "$root"/etc/containerd/*/*.json "$root"/etc/k0s/*.toml "$root"/etc/k0s/*/*.toml
    for directory in $distributions; do
        set -- "$@" "$root$directory"/agent/etc/containerd/* "$root$directory"/agent/etc/containerd/*/*.toml
    done
    for file; do
        if [ -f "$file" ] && kept "$file"; then echo "$file"; fi
    done
)
for _ in 1 2; do
    named=$(for file in $containerd; do
        without_comments "$file" | grep -o "[\"']/[^\"']*\.\(toml\|json\)[\"']" | tr -d "\"'"
    done)
    for pattern in $named; do
        # shellcheck disable=SC2231  # an import may be a pattern
        for file in "$root"$pattern; do
            if [ -f "$file" ]; then containerd="$containerd
$file"; fi
        done
    done
    containerd=$(printf '%s\n' "$containerd" | sort -u)
done

# shellcheck disable=SC2086  # paths without blanks, a line each
look "a runtime of containerd, or one of its base specifications" $containerd
for directory in etc/containers usr/share/containers usr/libexec; do
    look "a hook" "$root/$directory"/oci/hooks.d/*.json
done
look "a runtime of podman" \
    "$root"/etc/containers/containers.conf "$root"/etc/containers/containers.conf.d/*.conf
# CRI-O reads every file there.
look "a runtime of CRI-O" "$root"/etc/crio/crio.conf "$root"/etc/crio/crio.conf.d/*
look "a runtime of Docker" "$root"/etc/docker/daemon.json

# containerd's shim keeps the runtime's path with each container, whatever the configuration says by now.
for tasks in run/containerd run/k3s/containerd run/docker/containerd/daemon; do
    # shellcheck disable=SC2044  # ids have no blanks
    for file in $(find "$root/$tasks"/io.containerd.runtime.v2.task -mindepth 3 -maxdepth 3 -name runtime \
        -exec grep -ls maitred {} + 2>/dev/null); do
        look "a container behind the wrapper" "$file"
    done
done
# So does podman's conmon, among its arguments. What runs in a container may call itself so as well: it has another PID
# namespace, or the pods' cgroup.
# shellcheck disable=SC2044  # these paths have no blanks
for process in $(find "$root"/proc -maxdepth 2 -path '*/[0-9]*/cmdline' \
    -exec grep -lsz '\(^\|/\)maitred\(-runtime\)\{0,1\}$' {} + 2>/dev/null); do
    process=${process%/cmdline}
    if [ "$(cat "$process/comm" 2>/dev/null)" = conmon ] &&
        [ "$(readlink "$process/ns/pid")" = "$(readlink "$root/proc/self/ns/pid")" ] &&
        ! grep -q kubepods "$process/cgroup"; then
        report "$process" "a container behind the wrapper"
    fi
done

# shellcheck disable=SC2046,SC2086  # paths without blanks
for directory in /opt/nri/plugins $(said plugin_path $containerd); do
    for plugin in "$root$directory"/*; do
        [ -L "$plugin" ] || continue
        case "$(readlink -- "$plugin") $(readlink -f -- "$plugin")" in
        maitred\ * | */maitred\ * | maitred-runtime\ * | */maitred-runtime\ * | *\ */maitred | *\ */maitred-runtime)
            report "$plugin" "a plugin that containerd launches"
            ;;
        esac
    done
done

exit $found
