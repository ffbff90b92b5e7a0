if [ "$1" = 0 ]; then
    if command -v semodule >/dev/null 2>&1 && command -v selinuxenabled >/dev/null 2>&1 && selinuxenabled; then
        semodule -r maitred || :
    fi
    rm -f /usr/bin/maitred-runtime
    rm -rf /run/maitred
fi
exit 0
