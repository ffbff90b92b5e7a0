#!/usr/bin/env bash
# Everything the lanes need, from an empty machine; what is done already is left as it is.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
"$integration/host-packages.sh"
"$integration/root.sh"
"$integration/images.sh"
"$integration/guest-disk.sh"
"$integration/payload.sh"
