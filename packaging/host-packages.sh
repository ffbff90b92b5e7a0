#!/usr/bin/env bash
# Installs what building the packages needs on a Debian or Ubuntu host and finds missing.
set -euo pipefail
. "$(dirname "$0")/../integration/lib.sh"
become_root "$@"

missing=()
for pair in mmdebstrap:mmdebstrap cc:gcc gzip:gzip readelf:binutils python3:python3; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
done
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
[ ${#missing[@]} != 0 ] || exit 0
say "host packages: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}"
