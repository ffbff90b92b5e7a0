//! Which cgroup a container will get, before it has one.

use super::OciError;
use crate::host::Cgroups;
use std::path::{Component, Path};

/// The cgroups `cgroups_path` can come to mean; the surest first. `own` is where the runtime is started.
pub(super) fn candidates(
    cgroups_path: Option<&str>,
    id: &str,
    systemd: bool,
    own: Option<&str>,
) -> Vec<String> {
    match cgroups_path {
        Some(path) if path.starts_with('/') => vec![cleaned(path)],
        // crun reads `SLICE:NAME` as well.
        Some(path) if systemd => match path.split_once(':') {
            Some((slice, name)) if !name.contains(':') => vec![format!("{slice}::{name}")],
            _ => vec![path.to_owned()],
        },
        None if systemd => vec![format!(":runc:{id}"), format!(":crun:{id}")],
        path => relative(path.unwrap_or(id), own),
    }
}

/// A missing or relative path is taken by runc from its own cgroup (v1) or the one above that (v2), by crun and youki
/// from the root.
fn relative(path: &str, own: Option<&str>) -> Vec<String> {
    let above = own.map(|own| format!("{own}/.."));
    let mut all: Vec<String> = Vec::new();
    for base in [own, above.as_deref(), Some("")].into_iter().flatten() {
        // Not from where it starts does `..` lead out.
        let candidate = cleaned(&format!("{}{}", cleaned(base), cleaned(&format!("/{path}"))));
        if !all.contains(&candidate) {
            all.push(candidate);
        }
    }
    all
}

/// An absolute path without `.`, `..` and doubled slashes, as runc cleans it and the kernel walks it.
fn cleaned(path: &str) -> String {
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_string_lossy()),
            Component::ParentDir => drop(parts.pop()),
            _ => {}
        }
    }
    parts.iter().map(|part| format!("/{part}")).collect()
}

/// Those of them that a container to be made can get. Where there are several they are guesses, and one in which
/// something runs already is somebody else's.
///
/// # Errors
/// None is left: a container whose cgroup nobody knows could not be told from one that has ended.
pub(super) fn to_be_had(candidates: Vec<String>, id: &str, there: &Cgroups) -> Result<Vec<String>, OciError> {
    let (mut fit, mut problem) = (Vec::new(), None);
    let guessed = candidates.len() > 1;
    for cgroup in candidates {
        match there.is_populated(&cgroup) {
            Ok(true) if guessed => problem = Some(OciError::Inhabited { cgroup, id: id.to_owned() }),
            Ok(_) => fit.push(cgroup),
            Err(error) => problem = Some(error.into()),
        }
    }
    match problem.filter(|_| fit.is_empty()) {
        Some(problem) => Err(problem),
        None => Ok(fit),
    }
}

/// Whether a cgroup is the container's by its name: the one that its configuration asks for, one below that, or one
/// called after it.
pub(super) fn is_of(cgroup: &str, id: &str, cgroups_path: Option<&str>, there: &Cgroups) -> bool {
    let systemd = cgroups_path.is_some_and(|path| path.contains(':'));
    let asked = candidates(cgroups_path, id, systemd, None).into_iter().filter_map(|one| there.path_of(&one));
    let cgroup = Path::new(cgroup);
    asked.into_iter().any(|asked| cgroup.starts_with(asked))
        || cgroup.file_name().is_some_and(|name| name == id)
}

/// The container's id, where only its cgroup tells it: podman's is `libpod-ID`, and in a cgroup that podman has split
/// `libpod-payload-ID`.
pub(super) fn id_of(cgroups_path: &str) -> Option<&str> {
    let last = cgroups_path.trim_end_matches('/').rsplit(['/', ':']).next()?;
    let last = last.strip_suffix(".scope").unwrap_or(last);
    let prefixes = ["libpod-payload-", "libpod-"];
    let id = prefixes.iter().find_map(|prefix| last.strip_prefix(prefix)).unwrap_or(last);
    Some(id).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_says_all_is_the_only_one() {
        assert_eq!(candidates(Some("/a/c1"), "c1", false, Some("/own")), ["/a/c1"]);
        assert_eq!(candidates(Some("/a/../b//./c1/"), "c1", false, Some("/own")), ["/b/c1"]);
        assert_eq!(candidates(Some("a.slice:x:c1"), "c1", true, None), ["a.slice:x:c1"]);
        assert_eq!(candidates(Some("a.slice:c1"), "c1", true, None), ["a.slice::c1"]);
    }

    #[test]
    fn what_runtimes_read_differently_is_kept_in_each_reading() {
        assert_eq!(candidates(None, "c1", true, Some("/own")), [":runc:c1", ":crun:c1"]);
        assert_eq!(candidates(None, "c1", false, Some("/a/own")), ["/a/own/c1", "/a/c1", "/c1"]);
        assert_eq!(candidates(Some("x/c1"), "c1", false, Some("/own/")), ["/own/x/c1", "/x/c1"]);
        assert_eq!(candidates(None, "c1", false, Some("/")), ["/c1"]);
        // Without systemd a colon is a letter as any other.
        assert_eq!(candidates(Some("a:b"), "c1", false, Some("/")), ["/a:b"]);
        assert_eq!(candidates(Some("a.slice:x:c1"), "c1", false, None), ["/a.slice:x:c1"]);
        assert_eq!(candidates(Some("../../c1"), "c1", false, Some("/a/b")), ["/a/b/c1", "/a/c1", "/c1"]);
    }

    #[test]
    fn a_cgroup_names_its_container() {
        assert_eq!(id_of("/libpod_parent/libpod-abc"), Some("abc"));
        assert_eq!(id_of("/user.slice/libpod-payload-abc"), Some("abc"));
        assert_eq!(id_of("machine.slice:libpod:abc"), Some("abc"));
        assert_eq!(id_of("/kubepods/pod1/abc/"), Some("abc"));
        assert_eq!(id_of("/"), None);
    }
}
