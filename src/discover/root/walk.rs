//! Paths below a root.
//!
//! Below `/` paths are opened as they are. Below any other directory each component is walked by
//! hand, because sysfs is full of symbolic links and a gathered tree may hold absolute ones: they
//! must lead to places in the tree and never to the machine that reads it. (`openat2` with
//! `RESOLVE_IN_ROOT` would do the same, but kernels before 5.6 lack it.)

use super::{DiscoverError, Root, failed, is_absent};
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel itself follows in one path (`MAXSYMLINKS`).
const MOST_LINKS: usize = 40;

impl Root {
    /// Follows every link by hand, never above the root. The answer is relative to the root.
    pub(super) fn walk(&self, inside: &str) -> Result<Option<PathBuf>, DiscoverError> {
        let mut ahead: Vec<OsString> = components(Path::new(inside));
        let (mut real, mut links) = (PathBuf::new(), 0);
        while let Some(name) = ahead.pop() {
            if name == ".." {
                real.pop();
                continue;
            }
            let here = self.dir.join(&real).join(&name);
            let about = match fs::symlink_metadata(&here) {
                Err(error) if is_absent(&error) => return Ok(None),
                other => other.map_err(|source| failed("look at", here.clone(), source))?,
            };
            if !about.is_symlink() {
                real.push(name);
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(DiscoverError::LinkLoop { path: self.full(inside), limit: MOST_LINKS });
            }
            let target = fs::read_link(&here).map_err(|source| failed("follow", here, source))?;
            if target.is_absolute() {
                real.clear();
            }
            ahead.extend(components(&target));
        }
        Ok(Some(real))
    }
}

/// The names on a path, last first, `..` among them.
fn components(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_stay_within_the_root() {
        let (dir, root) = tree();
        let outside = tempfile::NamedTempFile::new().unwrap();
        symlink(outside.path(), dir.path().join("sys/out")).unwrap();
        symlink("../../../../../../../sys/a/list", dir.path().join("sys/up")).unwrap();
        symlink("/sys/a", dir.path().join("sys/absolute")).unwrap();
        assert_eq!(root.read("sys/out").unwrap(), None);
        assert_eq!(root.read("sys/up").unwrap().unwrap(), "0-3");
        assert_eq!(root.read("sys/absolute/list").unwrap().unwrap(), "0-3");
        assert_eq!(root.real("sys/absolute/list").unwrap().unwrap(), Path::new("/sys/a/list"));
        assert_eq!(root.names("sys/absolute").unwrap().unwrap(), ["list"]);
    }

    #[test]
    fn a_circle_of_links_is_an_error() {
        let (dir, root) = tree();
        symlink("two", dir.path().join("sys/one")).unwrap();
        symlink("one", dir.path().join("sys/two")).unwrap();
        assert!(matches!(root.read("sys/one").unwrap_err(), DiscoverError::LinkLoop { .. }));
    }
}
