# Reaches no network, restarts neither RKE2 nor containerd, and changes none of their files.
# The wrapper by its name; the tool that packs knows no links.
ln -sf maitred /usr/bin/maitred-runtime
if command -v semodule >/dev/null 2>&1 && command -v selinuxenabled >/dev/null 2>&1 && selinuxenabled; then
    semodule -i /usr/share/selinux/packages/maitred.cil || echo "maitred: its SELinux contexts could not be installed" >&2
    restorecon -RF /usr/bin/maitred /usr/libexec/maitred /run/maitred /var/lib/maitred /var/log/maitred >/dev/null 2>&1 || :
fi
if [ -d /run/systemd/system ] && systemctl --quiet is-active maitred.service; then
    # The new binary; containers go on as they are, and those made in between are pinned at the registration.
    systemctl restart maitred.service || echo "maitred: not restarted, see: systemctl status maitred" >&2
    # Left to the owner: with the systemd cgroup driver a reload can cost running GPU containers of NVIDIA's legacy mode
    # their devices.
    if [ "$(systemctl show --property=NeedDaemonReload --value maitred.service)" = yes ]; then
        echo "maitred: what has changed of its unit counts after: systemctl daemon-reload" >&2
        echo "maitred: (not while GPU containers of NVIDIA's legacy mode run with the systemd cgroup driver)" >&2
    fi
elif [ "$1" != 1 ]; then
    # Not ours to start anew: a plugin of containerd's.
    case $(readlink "/proc/$(cat /run/maitred/daemon.lock 2>/dev/null)/exe") in
    *"/maitred (deleted)") echo "maitred: the one that containerd launched is still the old version, until containerd is started anew" >&2 ;;
    esac
else
    echo "maitred: installed in audit mode and not started; see /etc/maitred/config.toml, then:" >&2
    echo "maitred:   systemctl enable --no-reload maitred && systemctl start maitred" >&2
fi
exit 0
