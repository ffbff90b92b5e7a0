#!/usr/bin/env bash
# Installs, upgrades, downgrades, removes and purges the packages of target/packages in throw-away roots: the DEB by dpkg in
# a copy of the lanes' Debian, the RPM by rpm in a root of its own. There is no systemd in either; systemctl is a recorder.
# lane-packages.sh
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/deb-lib.sh"

for pair in rpm:rpm lintian:lintian rpmlint:rpmlint qemu-aarch64-static:qemu-user-static; do
    command -v "${pair%%:*}" >/dev/null || missing="${missing:-} ${pair#*:}"
done
if [ -n "${missing:-}" ]; then
    [ "$(id -u)" = 0 ] || become_root "$@"
    say "host packages: installing$missing"
    apt-get update -qq
    # shellcheck disable=SC2086  # words
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
fi
become_root "$@"

packages=$project/target/packages
deb=$(echo "$packages"/maitred_*_amd64.deb)
rpm=$(echo "$packages"/maitred-*.x86_64.rpm)
[ -d "$cache/root-older" ] || die "there is no $cache/root-older: integration/root.sh older"
if [ ! -f "$deb" ] || [ ! -f "$rpm" ]; then die "$packages holds no packages: make packages"; fi
work=$(mktemp -d /var/tmp/maitred-packages.XXXXXX)
trap 'rm -rf "$work"' EXIT
: >"$work/said"
passed=0 failed=0

# check NAME COMMAND...: what it said is shown if it failed, and lies in $work/before for the next.
check() {
    local name=$1
    shift
    mv "$work/said" "$work/before"
    if "$@" >"$work/said" 2>&1; then
        passed=$((passed + 1))
        printf 'ok      %s\n' "$name"
    else
        failed=$((failed + 1))
        printf 'FAILED  %s\n' "$name"
        sed 's/^/        /' "$work/said"
    fi
}
no() { ! "$@"; }

# A root with a systemd that only writes down what it is told, and says that the daemon runs where `runs` is there.
recorder() {
    local root=$1
    mkdir -p "$root/run/systemd/system" "$root/usr/bin"
    cat >"$root/usr/bin/systemctl" <<'END'
#!/bin/sh
echo "$*" >>/systemctl.log
case $* in
*is-active*) [ -e /runs ] ;;
*NeedDaemonReload*) echo yes ;;
esac
END
    chmod +x "$root/usr/bin/systemctl"
    : >"$root/systemctl.log"
}
told() { sort -u "$1/systemctl.log"; }
# Neither the runtimes nor systemd's own files were touched.
gentle() { [ -f "$1/systemctl.log" ] && no grep -E 'daemon-reload|rke2|k3s|containerd|crio' "$1/systemctl.log"; }

# The files every node gets, and none that acts by itself.
has_files() {
    local root=$1 file
    for file in usr/bin/maitred usr/bin/maitred-runtime usr/libexec/maitred/launcher usr/libexec/maitred/in-use \
        etc/maitred/config.toml usr/lib/systemd/system/maitred.service usr/share/maitred/hooks/containers/maitred.json \
        usr/share/maitred/hooks/containerd/runtime-class.toml usr/share/maitred/hooks/containerd/runtime-class-v2.toml \
        usr/share/man/man1/maitred.1.gz usr/share/selinux/packages/maitred.cil; do
        [ -e "$root/$file" ] || { echo "no $file"; return 1; }
    done
    no test -e "$root/opt/nri" && no test -e "$root/etc/containers" && no test -e "$root/etc/systemd/system/multi-user.target.wants/maitred.service"
}
works() {
    local root=$1
    chroot "$root" maitred version && chroot "$root" maitred plan /usr/share/doc/maitred/examples/vllm.yaml \
        --topology /usr/share/doc/maitred/examples/h100-server.json
}

say "the DEB"
root=$work/debian
cp -a "$cache/root" "$root"
# The lanes have no use for man pages; a node has.
rm -f "$root"/etc/dpkg/dpkg.cfg.d/*
recorder "$root"
dpkg_() { chroot "$root" dpkg "$@"; }
into() { cp "$1" "$root/tmp/" && dpkg_ --install --force-confdef --force-confold "/tmp/${1##*/}"; }
for other in 0.0.1 99.0.0; do other_deb "$deb" "$other" "$work/maitred_$other.deb"; done
# shellcheck disable=SC2016  # dpkg-query fills these in
is_at() { [ "$(chroot "$root" dpkg-query -W -f '${Version} ${db:Status-Status}' maitred)" = "$1 installed" ]; }
version=$(dpkg-deb -f "$deb" Version)

check "an older version installs" into "$work/maitred_0.0.1.deb"
check "its files are there, and none that acts by itself" has_files "$root"
check "it is neither started nor enabled" no grep -E '^(start|enable|restart)' "$root/systemctl.log"
printf 'version = 1\nmode = "enforce"\n' >"$root/etc/maitred/config.toml"
touch "$root/runs"
check "it upgrades to this one" into "$deb"
check "the owner's configuration is kept" grep -qx 'mode = "enforce"' "$root/etc/maitred/config.toml"
check "the daemon that runs is restarted" grep -qx 'restart maitred.service' "$root/systemctl.log"
check "and nothing else is touched" gentle "$root"
check "the binary runs" works "$root"
check "it upgrades to a newer one" into "$work/maitred_99.0.0.deb"
check "and goes back" into "$deb"
check "this version is installed" is_at "$version"
# What dpkg says of a file that is not as it was packed, but for the owner's configuration.
# shellcheck disable=SC2317  # by name
as_packed() { no grep -v ' c /etc/maitred/config.toml$' <<<"$(dpkg_ --verify maitred)"; }
check "its files are as packed" as_packed
mkdir -p "$root/etc/containers/oci/hooks.d"
cp "$project/hooks/containers/maitred.json" "$root/etc/containers/oci/hooks.d/"
check "it is not removed while a hook leads to it" no dpkg_ --remove maitred
check "and says where that hook is" grep -q '/etc/containers/oci/hooks.d/maitred.json' "$work/before"
check "and is whole" is_at "$version"
check "with all its files" as_packed
rm "$root/etc/containers/oci/hooks.d/maitred.json"
: >"$root/systemctl.log"
check "it is removed" dpkg_ --remove maitred
check "stopped first" grep -qx 'stop maitred.service' "$root/systemctl.log"
check "with nothing else touched" gentle "$root"
check "the configuration stays" test -e "$root/etc/maitred/config.toml"
mkdir -p "$root/var/log/maitred" "$root/run/maitred"
check "it is purged" dpkg_ --purge maitred
# shellcheck disable=SC2317  # by name
left() { find "$root" -xdev -name '*maitred*' -not -path '*/tmp/*' -not -path '*/lib/dpkg/*' -print | grep .; }
check "and leaves nothing" no left

say "the RPM"
root=$work/rpm
mkdir -p "$root"/{dev,usr/bin,usr/lib,usr/lib64,tmp,run,etc,var}
# What the scriptlets need: a shell and the tools they call.
cp -a "$cache/root"/{usr,bin,lib,lib64,sbin} "$root/" 2>/dev/null || true
recorder "$root"
rpm_() { rpm --root "$root" --dbpath /var/lib/rpm "$@"; }
other_rpm() {
    (cd "$project" && "$cache/tools/bin/cargo-generate-rpm" --profile dist --target x86_64-unknown-linux-gnu \
        --output "$work/maitred-$1.rpm" -s "version = \"$1\"" >/dev/null)
}
other_rpm 0.0.1
rpm_ --initdb
# The root's libc is no package there.
check "an older version installs" rpm_ --install --nodeps "$work/maitred-0.0.1.rpm"
check "its files are there, and none that acts by itself" has_files "$root"
check "it is neither started nor enabled" no grep -E '^(start|enable|restart)' "$root/systemctl.log"
check "its files are as packed" rpm_ --verify --nodeps maitred
printf 'version = 1\nmode = "enforce"\n' >"$root/etc/maitred/config.toml"
touch "$root/runs"
check "it upgrades to this one" rpm_ --upgrade --nodeps "$rpm"
check "the owner's configuration is kept" grep -qx 'mode = "enforce"' "$root/etc/maitred/config.toml"
check "the daemon that runs is restarted" grep -qx 'restart maitred.service' "$root/systemctl.log"
check "the wrapper's link is there after the upgrade" test -x "$root/usr/bin/maitred-runtime"
check "and nothing else is touched" gentle "$root"
check "the binary runs" works "$root"
check "it goes back" rpm_ --upgrade --oldpackage --nodeps "$work/maitred-0.0.1.rpm"
check "and forth" rpm_ --upgrade --nodeps "$rpm"
mkdir -p "$root/etc/containerd"
cp "$project/hooks/containerd/runtime-class.toml" "$root/etc/containerd/config.toml"
check "it is not removed while a runtime class leads to it" no rpm_ --erase maitred
check "and says where that is" grep -q '/etc/containerd/config.toml' "$work/before"
# shellcheck disable=SC2317  # by name
as_packed() { no grep -v ' c /etc/maitred/config.toml$' <<<"$(rpm_ --verify --nodeps maitred)"; }
check "and is whole" as_packed
rm "$root/etc/containerd/config.toml"
mkdir -p "$root"/{run,var/lib,var/log}/maitred
touch "$root/var/log/maitred/hook.jsonl"
check "it is removed" rpm_ --erase maitred
check "stopped first" grep -qx 'stop maitred.service' "$root/systemctl.log"
check "with nothing else touched" gentle "$root"
# shellcheck disable=SC2317  # by name
left() { find "$root" -xdev -name '*maitred*' -not -path '*/lib/rpm/*' -not -name '*.rpmsave' -print | grep .; }
# shellcheck disable=SC2317  # by name
only_the_owners() {
    local found
    found=$(left | sort | sed "s|^$root/||")
    [ "$found" = "$(printf '%s\n' etc/maitred var/lib/maitred var/log/maitred)" ] || { printf 'left: %s\n' "$found"; return 1; }
}
check "and leaves only the owner's configuration and what was logged" only_the_owners
check "which is the owner's" grep -qx 'mode = "enforce"' "$root/etc/maitred/config.toml.rpmsave"

say "SELinux: the file contexts in Debian's policy, loaded nowhere"
root=$work/selinux
cp -a "$cache/root-older" "$root"
dpkg-deb -x "$deb" "$work/unpacked"
cp "$work/unpacked/usr/share/selinux/packages/maitred.cil" "$root/tmp/"
modules() { chroot "$root" semodule -n "$@"; }
is_labelled() { chroot "$root" matchpathcon -m file -n "/$1" | grep -qx "system_u:object_r:$2:s0"; }
check "they become part of a policy that has containers" modules -i /tmp/maitred.cil
check "the binary is a program like others" is_labelled usr/bin/maitred bin_t
check "so is what a package's scriptlets call" is_labelled usr/libexec/maitred/in-use bin_t
for path in usr/libexec/maitred/launcher run/maitred/launcher var/lib/maitred/launcher; do
    check "a container may run /$path" is_labelled "$path" container_ro_file_t
done
# Everything else there that is about containers goes with them.
check "and of one that has none" modules -d container -d kubernetes -d crio -d docker -d podman
check "where the launcher is a program like others" is_labelled usr/libexec/maitred/launcher bin_t

say "what the distributions' checkers say"
check "lintian" lintian --fail-on error,warning --suppress-tags-from-file "$project/packaging/deb/lintian-tags" "$deb"
check "rpmlint" rpmlint --config "$project/packaging/rpm/rpmlint.toml" "$rpm"

say "aarch64"
arm=$(echo "$packages"/maitred_*_arm64.deb)
if [ -f "$arm" ]; then
    dpkg-deb -x "$arm" "$work/arm"
    emulated() { qemu-aarch64-static -L "$cache/aarch64" "$work/arm/usr/$1" "${@:2}"; }
    check "it starts" emulated bin/maitred version
    check "it seats a pod" emulated bin/maitred plan "$project/packaging/examples/vllm.yaml" \
        --topology "$project/packaging/examples/h100-server.json"
    # The emulator has no memory policies: that is what the launcher then says.
    refused() { emulated libexec/maitred/launcher bind:0 -- /bin/true; [ $? = 121 ]; }
    check "its launcher starts" refused
else
    say "not built, and so not tried"
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
