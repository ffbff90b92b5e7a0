//! The `hugetlb` controller: limits where the runtime hides them, and what is used on which node.

use super::cgroups::absent;
use super::error::read;
use super::{Cgroups, HostError};
use crate::model::{Bytes, HugepageSize, NodeId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// cgroup v1 has no word for "no limit": it prints the most pages it can count, in bytes, which is
/// just under 2^63 for any page size. No machine has half of that.
const UNLIMITED: u64 = 1 << 62;

impl Cgroups {
    /// The limit the kubelet set on a pod's own cgroup: the sum over its containers, also where the
    /// runtime tells nobody the containers' own. `None` is no limit, be it that none is set or that
    /// nothing on this machine could hold one.
    ///
    /// # Errors
    /// The cgroup is gone, or its file cannot be read.
    pub fn pod_hugepage_limit(
        &self,
        cgroup_parent: &str,
        size: HugepageSize,
    ) -> Result<Option<Bytes>, HostError> {
        let Some(hugetlb) = &self.hugetlb else { return Ok(None) };
        let dir = hugetlb.pod(cgroup_parent)?;
        let name = if hugetlb.v2 { "max" } else { "limit_in_bytes" };
        let path = file(&dir, size, name);
        let Some(text) = read(&path)? else { return absent(&dir).map_or(Ok(None), Err) };
        match (text.trim(), text.trim().parse::<u64>()) {
            ("max", _) => Ok(None),
            (_, Ok(limit)) if !hugetlb.v2 && limit >= UNLIMITED => Ok(None),
            (_, Ok(limit)) => Ok(Some(Bytes(limit))),
            (_, Err(_)) => Err(HostError::Malformed { path, text, expected: "a number of bytes, or max" }),
        }
    }

    /// What a container uses of a page size on each node, its nested cgroups included. `None` where
    /// the kernel does not tell (before 5.16, or no hugetlb controller).
    ///
    /// # Errors
    /// The cgroup is gone, or its file cannot be read.
    pub fn hugepages_in_use(
        &self,
        cgroups_path: &str,
        size: HugepageSize,
    ) -> Result<Option<BTreeMap<NodeId, Bytes>>, HostError> {
        let Some(hugetlb) = &self.hugetlb else { return Ok(None) };
        let dir = hugetlb.container(cgroups_path)?;
        let path = file(&dir, size, "numa_stat");
        match read(&path)? {
            Some(text) => by_node(&text).map(Some).ok_or(HostError::Malformed {
                path,
                text,
                expected: "total=BYTES and N0=BYTES for each node",
            }),
            None => absent(&dir).map_or(Ok(None), Err),
        }
    }
}

fn file(dir: &Path, size: HugepageSize, name: &str) -> PathBuf {
    dir.join(format!("hugetlb.{}.{name}", size.runtime_name()))
}

/// v1 prints a line for the cgroup alone and one with its descendants, v2 only the latter, which is
/// the last line of both.
fn by_node(text: &str) -> Option<BTreeMap<NodeId, Bytes>> {
    let mut words = text.lines().last()?.split_whitespace();
    let (total, bytes) = words.next()?.split_once('=')?;
    if !matches!(total, "total" | "hierarchical_total") || bytes.parse::<u64>().is_err() {
        return None;
    }
    words.map(node).collect()
}

fn node(word: &str) -> Option<(NodeId, Bytes)> {
    let (node, bytes) = word.strip_prefix('N')?.split_once('=')?;
    Some((NodeId(node.parse().ok()?), Bytes(bytes.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::super::mounts::Hierarchy;
    use super::*;

    /// A machine with one cgroup, `/pod`, with this one file.
    fn machine(v2: bool, name: &str, text: &str) -> (tempfile::TempDir, Cgroups) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("pod")).unwrap();
        std::fs::write(root.path().join("pod").join(name), text).unwrap();
        let hierarchy = Hierarchy { mount: root.path().to_owned(), v2 };
        let cgroups = Cgroups { cpuset: hierarchy.clone(), cpu: None, hugetlb: Some(hierarchy) };
        (root, cgroups)
    }

    #[test]
    fn a_limit_is_bytes_and_none_has_two_spellings() {
        let limit = |v2, name, text| {
            let (_root, cgroups) = machine(v2, name, text);
            cgroups.pod_hugepage_limit("/pod", HugepageSize::MIB2).unwrap()
        };
        assert_eq!(limit(true, "hugetlb.2MB.max", "33554432\n"), Some(Bytes(32 << 20)));
        assert_eq!(limit(true, "hugetlb.2MB.max", "0\n"), Some(Bytes(0)));
        assert_eq!(limit(true, "hugetlb.2MB.max", "max\n"), None);
        assert_eq!(limit(true, "hugetlb.1GB.max", "0\n"), None);
        assert_eq!(limit(false, "hugetlb.2MB.limit_in_bytes", "4194304\n"), Some(Bytes(4 << 20)));
        assert_eq!(limit(false, "hugetlb.2MB.limit_in_bytes", "9223372036852678656\n"), None);
    }

    #[test]
    fn use_is_told_by_node_with_what_is_nested() {
        let used = |v2, text| {
            let (_root, cgroups) = machine(v2, "hugetlb.1GB.numa_stat", text);
            cgroups.hugepages_in_use("/pod", HugepageSize::GIB1).unwrap().unwrap()
        };
        let expected = BTreeMap::from([(NodeId(0), Bytes(0)), (NodeId(1), Bytes(2 << 30))]);
        assert_eq!(used(true, "total=2147483648 N0=0 N1=2147483648\n"), expected);
        assert_eq!(
            used(false, "total=0 N0=0 N1=0\nhierarchical_total=2147483648 N0=0 N1=2147483648\n"),
            expected
        );
    }

    #[test]
    fn untold_is_none_and_gone_is_an_error() {
        let (_root, mut cgroups) = machine(true, "hugetlb.2MB.max", "max\n");
        assert_eq!(cgroups.hugepages_in_use("/pod", HugepageSize::MIB2).unwrap(), None);
        assert!(cgroups.hugepages_in_use("/other", HugepageSize::MIB2).unwrap_err().is_gone());
        assert!(cgroups.pod_hugepage_limit("/other", HugepageSize::MIB2).unwrap_err().is_gone());
        cgroups.hugetlb = None;
        assert_eq!(cgroups.hugepages_in_use("/other", HugepageSize::MIB2).unwrap(), None);
        assert_eq!(cgroups.pod_hugepage_limit("/other", HugepageSize::MIB2).unwrap(), None);
    }

    #[test]
    fn what_no_kernel_prints_is_an_error() {
        for text in ["", "N0=1", "total=x N0=1", "total=1 N0", "total=1 Nx=1", "total=1 N0=-1", "total=1 0=1"]
        {
            let (_root, cgroups) = machine(true, "hugetlb.2MB.numa_stat", text);
            let error = cgroups.hugepages_in_use("/pod", HugepageSize::MIB2).unwrap_err();
            assert!(matches!(error, HostError::Malformed { .. }), "{text}");
        }
        let (_root, cgroups) = machine(true, "hugetlb.2MB.max", "many");
        assert!(cgroups.pod_hugepage_limit("/pod", HugepageSize::MIB2).is_err());
    }
}
