#!/usr/bin/env bash
# Builds .cache/root: a small Debian with containerd 2.1, runc and crun, entered with chroot by the
# native lane and put on the guest's disk, with the newest runc there is (1.4 knows memory policies)
# below /opt/runc-next; and .cache/kernel: the guest's kernel, unpacked.
# root.sh older: .cache/root-older, the same of the suite before, with containerd 1.7, systemd and a SELinux policy that
# knows containers.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
become_root "$@"

suite=forky          # the suite that has containerd 2.1
older_suite=trixie   # containerd 1.7, and 6.12: the kernel these lanes were measured with
kernel=linux-image-cloud-amd64
packages=containerd,runc,crun,kmod,numactl
older_packages=$packages,systemd-sysv,selinux-policy-default,policycoreutils,selinux-utils

# debian NAME SUITE PACKAGES [OPTION of mmdebstrap]...
debian() {
    local name=$1 root=$cache/$1.new of=$2 include=$3 uri
    shift 3
    uri=$(mirror)
    say "suite $of from ${uri:-the default mirror}"
    rm -rf "$root" "${cache:?}/$name"
    # The pins keep everything but the one newer runc from the suites it is looked for in.
    mmdebstrap --mode=root --variant=minbase --include="$include" \
        --aptopt='Acquire::Check-Valid-Until "false"' \
        --aptopt='APT::Install-Recommends "false"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        "$@" \
        --setup-hook="for suite in unstable experimental; do sed \"s/ $of / \$suite /\" \"\$1/etc/apt/sources.list\"; done >\"\$1/etc/apt/sources.list.d/next.list\"" \
        --setup-hook="printf 'Package: *\nPin: release n=sid\nPin-Priority: -1\n\nPackage: *\nPin: release a=experimental\nPin-Priority: -1\n' >\"\$1/etc/apt/preferences.d/next\"" \
        --customize-hook="chroot \"\$1\" sh -c 'cd /tmp && apt-get download runc=\$(apt-cache madison runc | cut -d\"|\" -f2 | tr -d \" \" | sort -V | tail -1)'" \
        --customize-hook="dpkg-deb -x \"\$1\"/tmp/runc_*.deb \"\$1/opt/runc-next\" && rm -f \"\$1\"/tmp/*.deb" \
        "$of" "$root" ${uri:+"$uri"} >&2
    rm -f "$root/etc/resolv.conf"
    : >"$root/etc/resolv.conf"
    printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
    mv "$root" "$cache/$name"
}

# The older suite serves the kernel alone: the pin keeps everything else from it.
newest() {
    rm -rf "$cache/kernel"
    debian root "$suite" "$packages" \
        --setup-hook="sed 's/ $suite / $older_suite /' \"\$1/etc/apt/sources.list\" >\"\$1/etc/apt/sources.list.d/kernel.list\"" \
        --setup-hook="printf 'Package: *\nPin: release n=$older_suite\nPin-Priority: -1\n\nPackage: linux-image-*\nPin: release n=$older_suite\nPin-Priority: 990\n' >\"\$1/etc/apt/preferences.d/kernel\"" \
        --customize-hook="cd \"\$1/tmp\" && chroot \"\$1\" sh -c 'cd /tmp && apt-get download \$(apt-cache depends $kernel | sed -n \"s/.*Depends: \\(linux-image-[0-9].*\\)/\\1/p\")'" \
        --customize-hook="mkdir -p '$cache/kernel' && dpkg-deb -x \"\$1\"/tmp/linux-image-*.deb '$cache/kernel' && rm -f \"\$1\"/tmp/*.deb"
}

case ${1:-} in
older) step root-older "$0" -- debian root-older "$older_suite" "$older_packages" ;;
*) step root "$0" -- newest ;;
esac
