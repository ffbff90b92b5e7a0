# Sourced by the lanes that install the DEB.
# shellcheck shell=bash

# other_deb DEB VERSION OUT: the package as another version. What a version changes is changed: the binary (bytes after its
# end, which nothing reads), the unit and the configuration that comes with it. Version 0 was built a day before, others a day
# after: systemd sees that a unit has changed by its time.
other_deb() {
    local deb=$1 version=$2 out=$3 tree day=+1
    [ "${version%%.*}" != 0 ] || day=-1
    tree=$(mktemp -d "${TMPDIR:-/tmp}/maitred-deb.XXXXXX")
    dpkg-deb -R "$deb" "$tree"
    sed -i "s/^Version: .*/Version: $version/" "$tree/DEBIAN/control"
    printf '# from %s\n' "$version" | tee -a "$tree/etc/maitred/config.toml" >>"$tree/usr/lib/systemd/system/maitred.service"
    touch -d "$(stat -c %y "$tree/usr/libexec/maitred/in-use") $day day" "$tree/usr/lib/systemd/system/maitred.service"
    printf 'maitred-version=%s\n' "$version" >>"$tree/usr/bin/maitred"
    (cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | xargs -0 md5sum >DEBIAN/md5sums)
    dpkg-deb -b "$tree" "$out" >/dev/null
    rm -rf "$tree"
}
