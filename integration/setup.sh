#!/usr/bin/env bash
# Everything the lanes need, from an empty machine; what is done already is left as it is.
# setup.sh older: the guest with containerd 1.7 besides, which `make test` does without.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
"$integration/host-packages.sh"
"$integration/root.sh"
"$integration/images.sh"
"$integration/guest-disk.sh"
"$integration/payload.sh"
if [ "${1:-}" = older ]; then
    "$integration/root.sh" older
    "$integration/guest-disk.sh" older
fi
