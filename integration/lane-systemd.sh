#!/usr/bin/env bash
# The DEB of target/packages on a node with systemd: the guest boots Debian with systemd as process 1, containerd is
# Debian's own unit, and the package is installed, started, upgraded and taken away while containers run.
# lane-systemd.sh PAYLOAD
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/deb-lib.sh"

payload=$(realpath "$1")
shift
packages=${MAITRED_PACKAGES:-$project/target/packages}
deb=$(echo "$packages"/maitred_*_amd64.deb)
[ -f "$deb" ] || die "$packages holds no DEB for amd64: make packages"
for needed in root-older.done guest/root-older.img; do
    [ -e "$cache/$needed" ] || die "$cache/$needed is not there: integration/root.sh older && integration/guest-disk.sh older"
done

work=$(mktemp -d "${TMPDIR:-/tmp}/maitred-systemd.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The release build that is packed, and none with faults to inject.
cp "$payload"/{scenarios,libfake_nvml.so,images.tar} "$work"
cp "$deb" "$work/this.deb"
other_deb "$deb" 0.0.1 "$work/older.deb"
other_deb "$deb" 99.0.0 "$work/newer.deb"
MAITRED_GUEST=systemd "$integration/lane-guest.sh" "$work" --packages "$@"
