# Sourced by the scripts here: paths, progress, and steps that are skipped when they are done.
# shellcheck shell=bash

integration=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034  # for the scripts that source this
project=$(dirname "$integration")
cache=${MAITRED_CACHE:-$integration/.cache}
mkdir -p "$cache"

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Everything that mounts, chroots or installs needs root; the rest of `make` does not.
become_root() {
    [ "$(id -u)" = 0 ] && return
    command -v sudo >/dev/null || die "$0 needs root, and there is no sudo"
    exec sudo --preserve-env=MAITRED_CACHE,MAITRED_MIRROR,MAITRED_ACCEL,PATH "$0" "$@"
}

# step NAME FILE... -- COMMAND...: runs the command unless it has succeeded before with the same
# command line and the same contents of FILEs. The stamp is written last, so an interrupted step runs
# again.
step() {
    local name=$1 files=() key
    shift
    while [ "$1" != -- ]; do files+=("$1"); shift; done
    shift
    key=$({ printf '%s\n' "$*"; sha256sum /dev/null "${files[@]}"; } | sha256sum | cut -d' ' -f1)
    if [ "$(cat "$cache/$name.done" 2>/dev/null)" = "$key" ]; then
        say "$name: as it was"
        return
    fi
    say "$name …"
    local begin=$SECONDS
    rm -f "$cache/$name.done"
    "$@"
    printf '%s' "$key" >"$cache/$name.done"
    say "$name: $((SECONDS - begin)) s"
}

# The Debian mirror this machine itself uses where it is a Debian; else mmdebstrap's own default.
mirror() {
    local codename
    if [ -n "${MAITRED_MIRROR:-}" ]; then
        echo "$MAITRED_MIRROR"
        return
    fi
    # shellcheck source=/dev/null
    codename=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") || return 0
    # Other vendors name their suites so too, but have no component "main" there.
    # shellcheck disable=SC2016  # apt fills these in
    apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' |
        awk -v suite="$codename" '$1 == suite && $2 == "main" { sub("/$", "", $3); print $3; exit }'
}
