//! Where each controller's hierarchy is mounted: one mount for all (v2), one each (v1), or v1 with an
//! empty v2 beside it (hybrid).

use super::HostError;
use super::error::{io, read_bytes};
use crate::model::HugepageSize;
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use procfs_core::process::MountInfo;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One controller's hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// Its root cgroup's directory.
    pub mount: PathBuf,
    /// Whether it is the unified one.
    pub v2: bool,
}

/// The cgroup mounts of this process's mount namespace.
pub(super) struct Mounts {
    root: PathBuf,
    pub mountinfo: PathBuf,
    mounts: Vec<MountInfo>,
}

impl Mounts {
    /// Reads `proc/self/mountinfo` below `root`.
    pub fn read(root: &Path) -> Result<Self, HostError> {
        let mountinfo = root.join("proc/self/mountinfo");
        let bytes = read_bytes(&mountinfo).map_err(io("read", &mountinfo))?;
        // Only the lines of cgroup mounts are parsed: another mount's name may be no UTF-8.
        let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
        let cgroup_lines = lines.filter(|line| line.contains(" - cgroup"));
        let mut mounts = Vec::new();
        for line in cgroup_lines {
            mounts.push(parse(&mountinfo, line)?);
        }
        // The first that shows a hierarchy whole, as runtimes take it; a bind mount shows a part.
        mounts.sort_by_key(|mount| mount.root != "/");
        Ok(Self { root: root.to_owned(), mountinfo, mounts })
    }

    /// The hierarchy that has `controller`; `None` is none. A controller is in one hierarchy only:
    /// where a v1 mount has it, the unified one does not.
    pub fn hierarchy(&self, controller: &str) -> Option<Hierarchy> {
        let v1 =
            |mount: &&MountInfo| mount.fs_type == "cgroup" && mount.super_options.contains_key(controller);
        if let Some(mount) = self.mounts.iter().find(v1) {
            return Some(Hierarchy { mount: self.below_root(mount), v2: false });
        }
        let unified = self.mounts.iter().find(|mount| mount.fs_type == "cgroup2")?;
        let mount = self.below_root(unified);
        let offered = std::fs::read_to_string(mount.join("cgroup.controllers")).ok()?;
        offered.split_whitespace().any(|word| word == controller).then_some(Hierarchy { mount, v2: true })
    }

    /// The hierarchies of these controllers where the unified one is at its usual place and has them all: what the table
    /// of mounts, thousands of lines on a busy node, would tell.
    pub fn at_the_usual_place(root: &Path, controllers: [&str; 3]) -> Option<[Hierarchy; 3]> {
        let mount = root.join("sys/fs/cgroup");
        let kind = statfs(&mount).ok()?.filesystem_type();
        let offered = (kind == CGROUP2_SUPER_MAGIC)
            .then(|| std::fs::read_to_string(mount.join("cgroup.controllers")).ok())??;
        let has = |name: &str| offered.split_whitespace().any(|word| word == name);
        let unified = || Hierarchy { mount: mount.clone(), v2: true };
        controllers.iter().all(|name| has(name)).then(|| controllers.map(|_| unified()))
    }

    fn below_root(&self, mount: &MountInfo) -> PathBuf {
        let point = &mount.mount_point;
        self.root.join(point.strip_prefix("/").unwrap_or(point))
    }
}

/// The page sizes of the hugetlbfs mounts that `sources` lie on. From mountinfo, which no dead file server keeps
/// waiting, as looking at the sources themselves could.
///
/// # Errors
/// `proc/self/mountinfo` below `root` cannot be read, or a hugetlbfs line is not the kernel's.
pub fn hugetlbfs_page_sizes<'a>(
    root: &Path,
    sources: impl Iterator<Item = &'a Path>,
) -> Result<BTreeSet<HugepageSize>, HostError> {
    let mountinfo = root.join("proc/self/mountinfo");
    let text = read_bytes(&mountinfo).map_err(io("read", &mountinfo))?;
    let lines = text.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
    let mut mounts = Vec::new();
    for line in lines.filter(|line| line.contains(" - hugetlbfs ")) {
        let mount = parse(&mountinfo, line)?;
        let size = mount.super_options.get("pagesize").and_then(|size| page_size(size.as_deref()?));
        mounts.push((
            mount.mount_point,
            size.ok_or_else(|| malformed(&mountinfo, line, "pagesize=2M or alike"))?,
        ));
    }
    let sources: Vec<&Path> = sources.collect();
    let used = mounts.iter().filter(|(point, _)| sources.iter().any(|source| source.starts_with(point)));
    Ok(used.map(|(_, size)| *size).collect())
}

/// `2M`, `1024M`: the kernel has no larger unit here (`hugetlbfs_show_options`).
fn page_size(text: &str) -> Option<HugepageSize> {
    let (digits, shift) = match text.strip_suffix('M') {
        Some(digits) => (digits, 20),
        None => (text.strip_suffix('K')?, 10),
    };
    HugepageSize::from_bytes(digits.parse::<u64>().ok()?.checked_mul(1 << shift)?)
}

fn malformed(mountinfo: &Path, line: &str, expected: &'static str) -> HostError {
    HostError::Malformed { path: mountinfo.to_owned(), text: line.to_owned(), expected }
}

fn parse(mountinfo: &Path, line: &str) -> Result<MountInfo, HostError> {
    MountInfo::from_line(line).map_err(|_| malformed(mountinfo, line, "a line of mountinfo (proc(5))"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(lines: &str) -> (tempfile::TempDir, Result<Mounts, HostError>) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        std::fs::create_dir_all(root.path().join("sys/fs/cgroup/unified")).unwrap();
        std::fs::write(root.path().join("proc/self/mountinfo"), lines).unwrap();
        let mounts = Mounts::read(root.path());
        (root, mounts)
    }

    #[test]
    fn unified_has_what_its_root_offers() {
        let (root, mounts) = mounts("30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
        std::fs::write(root.path().join("sys/fs/cgroup/cgroup.controllers"), "cpuset cpu hugetlb\n").unwrap();
        let mounts = mounts.unwrap();
        let found = Hierarchy { mount: root.path().join("sys/fs/cgroup"), v2: true };
        assert_eq!(mounts.hierarchy("cpuset"), Some(found));
        assert_eq!(mounts.hierarchy("memory"), None);
    }

    #[test]
    fn v1_finds_joint_mounts_and_hybrid_prefers_them() {
        let lines = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                     34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                     41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let (root, mounts) = mounts(lines);
        std::fs::write(root.path().join("sys/fs/cgroup/unified/cgroup.controllers"), "hugetlb\n").unwrap();
        let mounts = mounts.unwrap();
        let at = |place, v2| Some(Hierarchy { mount: root.path().join("sys/fs/cgroup").join(place), v2 });
        assert_eq!(mounts.hierarchy("cpuset"), at("cpuset", false));
        assert_eq!(mounts.hierarchy("cpu"), at("cpu,cpuacct", false));
        assert_eq!(mounts.hierarchy("hugetlb"), at("unified", true));
    }

    #[test]
    fn a_whole_hierarchy_goes_before_a_part_of_one() {
        let lines = "34 31 0:31 /docker/a /mnt/part rw - cgroup cgroup rw,cpuset\n\
                     35 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
        let (root, mounts) = mounts(lines);
        let found = mounts.unwrap().hierarchy("cpuset").unwrap();
        assert_eq!(found.mount, root.path().join("sys/fs/cgroup/cpuset"));
    }

    #[test]
    fn a_mount_of_hugetlbfs_is_known_by_what_lies_under_its_source() {
        let lines = "40 20 0:40 / /pods/a/volumes/huge rw - hugetlbfs nodev rw,pagesize=2M\n\
                     41 20 0:41 / /pods/a/volumes/giant rw - hugetlbfs nodev rw,uid=5,pagesize=1024M,size=2G\n\
                     42 20 0:42 / /pods/a/volumes/plain rw - tmpfs tmpfs rw\n";
        let (root, _) = mounts(lines);
        let sizes = |sources: &[&str]| {
            let sources = sources.iter().map(Path::new);
            hugetlbfs_page_sizes(root.path(), sources).unwrap().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(sizes(&["/pods/a/volumes/huge"]), [HugepageSize::MIB2]);
        assert_eq!(sizes(&["/pods/a/volumes/giant/sub/path", "/etc"]), [HugepageSize::GIB1]);
        assert_eq!(sizes(&["/pods/a/volumes/plain", "/pods/a/volumes/hugely", "tmpfs"]), []);
        let (root, _) = mounts("40 20 0:40 / /h rw - hugetlbfs nodev rw,pagesize=2X\n");
        let error = hugetlbfs_page_sizes(root.path(), [].into_iter()).unwrap_err();
        assert!(error.to_string().ends_with("expected pagesize=2M or alike"), "{error}");
    }

    #[test]
    fn a_broken_cgroup_line_is_an_error_and_other_lines_are_not_read() {
        let (_root, fine) = mounts("nonsense\n\u{fffd} - tmpfs\n");
        assert!(fine.unwrap().hierarchy("cpuset").is_none());
        let (root, broken) = mounts("34 31 - cgroup cgroup rw,cpuset\n");
        let error = broken.err().unwrap().to_string();
        assert!(error.contains(&root.path().join("proc/self/mountinfo").display().to_string()), "{error}");
        assert!(error.contains("34 31 - cgroup"), "{error}");
    }
}
