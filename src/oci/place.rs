//! Which cgroup a container will get, before it has one.

/// The cgroups `cgroups_path` can come to mean; the surest first. A missing or relative path is taken from the
/// runtime's own cgroup by runc, from the root by crun.
pub(super) fn candidates(
    cgroups_path: Option<&str>,
    id: &str,
    systemd: bool,
    own: Option<&str>,
) -> Vec<String> {
    let path = match cgroups_path {
        Some(path) if path.starts_with('/') || path.contains(':') => return vec![path.to_owned()],
        None if systemd => return vec![format!(":runc:{id}")],
        path => path.unwrap_or(id),
    };
    let own = own.map(|own| format!("{}/{path}", own.trim_end_matches('/')));
    let mut all: Vec<String> = own.into_iter().collect();
    let from_root = format!("/{path}");
    if !all.contains(&from_root) {
        all.push(from_root);
    }
    all
}

/// The container's id, where only its cgroup tells it: podman's is `libpod-ID`.
pub(super) fn id_of(cgroups_path: &str) -> Option<&str> {
    let last = cgroups_path.trim_end_matches('/').rsplit(['/', ':']).next()?;
    let last = last.strip_suffix(".scope").unwrap_or(last);
    Some(last.strip_prefix("libpod-").unwrap_or(last)).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_says_all_is_the_only_one() {
        assert_eq!(candidates(Some("/a/c1"), "c1", false, Some("/own")), ["/a/c1"]);
        assert_eq!(candidates(Some("a.slice:x:c1"), "c1", true, None), ["a.slice:x:c1"]);
        assert_eq!(candidates(None, "c1", true, Some("/own")), [":runc:c1"]);
    }

    #[test]
    fn what_runtimes_read_differently_is_kept_in_each_reading() {
        assert_eq!(candidates(None, "c1", false, Some("/own")), ["/own/c1", "/c1"]);
        assert_eq!(candidates(Some("x/c1"), "c1", false, Some("/own/")), ["/own/x/c1", "/x/c1"]);
        assert_eq!(candidates(None, "c1", false, Some("/")), ["/c1"]);
    }

    #[test]
    fn a_cgroup_names_its_container() {
        assert_eq!(id_of("/libpod_parent/libpod-abc"), Some("abc"));
        assert_eq!(id_of("machine.slice:libpod:abc"), Some("abc"));
        assert_eq!(id_of("/kubepods/pod1/abc/"), Some("abc"));
        assert_eq!(id_of("/"), None);
    }
}
