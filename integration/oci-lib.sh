# Sourced by what runs the wrapper and the hooks on this machine: a root to run in, the owner's configuration, checks.
# shellcheck shell=bash

# rootfs DIR: a container's root, with busybox alone.
rootfs() {
    local name
    mkdir -p "$1"/{bin,proc,sys,dev,etc,tmp,run}
    cp /bin/busybox "$1/bin/"
    for name in sh true sleep grep; do ln -s busybox "$1/bin/$name"; done
}

# owner_config FILE RUNTIME: maitred picks the CPUs, the first is the system's.
owner_config() {
    cat >"$1" <<END
version = 1
authority = "maitred"
[cpu]
reserved = "0"
[runtime]
path = "$2"
END
}

is() { [ "$2" = "$3" ] || { echo "$1: wanted '$2', found '$3'"; return 1; }; }

# until_ COMMAND: waits for it to succeed, ten seconds at most.
until_() {
    local _
    for _ in $(seq 200); do ! eval "$1" || return 0; sleep 0.05; done
    echo "never came: $1"
    return 1
}

passed=0 failed=0
# One more that passed or failed; without maitred each passes by failing.
counted() {
    local name=$1 status=$2 said=$3
    [ "${without:-}" != --without-maitred ] || status=$((! status))
    if [ "$status" = 0 ]; then
        passed=$((passed + 1))
        echo "ok    $name"
    else
        failed=$((failed + 1))
        printf 'FAIL  %s\n      %s\n' "$name" "$said"
        tail -n 5 "$MAITRED_HOOK_LOG" 2>/dev/null | sed 's/^/    hook.jsonl| /'
    fi
}

# check NAME FUNCTION: each in a shell of its own, so that its first failure ends it.
check() {
    local said status
    # Not behind an "||": there a shell goes on after a failure.
    set +e
    said=$(set -e; "$2" 2>&1)
    status=$?
    set -e
    counted "$1" "$status" "$said"
}
