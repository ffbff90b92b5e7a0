# Refuses to take away what containers start through; an upgrade takes nothing away.
if [ "$1" = 0 ]; then
    if ! uses=$(/usr/libexec/maitred/in-use); then
        echo "maitred: still in use, and no container would start without it:" >&2
        echo "$uses" | sed 's/^/maitred:   /' >&2
        echo "maitred: take these out first (maitred off is enough to have it do nothing)" >&2
        exit 1
    fi
    if [ -d /run/systemd/system ]; then
        systemctl stop maitred.service || :
        systemctl --quiet --no-reload disable maitred.service || :
    fi
fi
exit 0
