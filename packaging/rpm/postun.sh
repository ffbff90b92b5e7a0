if [ "$1" = 0 ]; then
    if command -v semodule >/dev/null 2>&1 && command -v selinuxenabled >/dev/null 2>&1 && selinuxenabled; then
        semodule -r maitred || :
    fi
    rm -f /usr/bin/maitred-runtime
    rm -rf /run/maitred
    # The tool that packs knows no directories, so rpm takes none away.
    rmdir /usr/share/maitred/hooks/* /usr/share/maitred/hooks /usr/share/maitred /usr/share/doc/maitred/examples \
        /usr/share/doc/maitred /usr/share/licenses/maitred /usr/libexec/maitred 2>/dev/null || :
fi
exit 0
