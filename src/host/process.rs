//! What one process really has: where it may run, and on which nodes its pages lie.

use super::HostError;
use super::error::read;
use crate::model::{Bytes, CpuSet, NodeId, NodeSet};
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

/// Where a process may run and allocate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// `Cpus_allowed_list`.
    pub cpus: CpuSet,
    /// `Mems_allowed_list`.
    pub mems: NodeSet,
}

/// Where a process's pages lie, by memory policy as the kernel prints it (`default`, `bind:1`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NumaMaps(pub BTreeMap<String, PolicyUse>);

/// The areas of one policy, summed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyUse {
    /// How many areas have the policy, with or without pages.
    pub areas: usize,
    /// Ordinary pages of no file (transparent huge ones included) on each node, in bytes.
    pub ordinary: BTreeMap<NodeId, Bytes>,
    /// Pages of files on each node, in bytes: they may have lain there before this process came.
    pub files: BTreeMap<NodeId, Bytes>,
    /// Pages of hugetlbfs on each node, in bytes.
    pub huge: BTreeMap<NodeId, Bytes>,
}

/// Reads `proc/PID/status` below `root`; `None` is no such process.
///
/// # Errors
/// The file cannot be read, or lacks one of the two lists.
pub fn allowed(root: &Path, pid: u32) -> Result<Option<Allowed>, HostError> {
    allowed_in(&root.join(format!("proc/{pid}")))
}

/// The same of the directory of a process or a thread.
pub(super) fn allowed_in(dir: &Path) -> Result<Option<Allowed>, HostError> {
    let path = dir.join("status");
    let Some(text) = read(&path)? else { return Ok(None) };
    Ok(Some(Allowed {
        cpus: status_list(&path, &text, "Cpus_allowed_list:")?,
        mems: status_list(&path, &text, "Mems_allowed_list:")?,
    }))
}

fn status_list<T>(path: &Path, text: &str, key: &'static str) -> Result<T, HostError>
where
    T: FromStr<Err = crate::model::ListError>,
{
    let value = text.lines().find_map(|line| line.strip_prefix(key));
    let value = value.ok_or_else(|| malformed(path, text, key))?;
    value.parse().map_err(|source| HostError::List { path: path.to_owned(), source })
}

fn malformed(path: &Path, text: &str, expected: &'static str) -> HostError {
    HostError::Malformed { path: path.to_owned(), text: text.to_owned(), expected }
}

/// Reads `proc/PID/numa_maps` below `root`; `None` is no such process. Needs `CAP_SYS_PTRACE` for
/// another user's process.
///
/// # Errors
/// The file cannot be read (or the kernel has no NUMA), or a line is not the kernel's.
pub fn numa_maps(root: &Path, pid: u32) -> Result<Option<NumaMaps>, HostError> {
    let process = root.join(format!("proc/{pid}"));
    let path = process.join("numa_maps");
    let Some(text) = read(&path)? else {
        let no_numa = process.join("status").exists();
        return if no_numa {
            Err(super::error::io("read", &path)(std::io::ErrorKind::NotFound.into()))
        } else {
            Ok(None)
        };
    };
    let mut maps = NumaMaps::default();
    for line in text.lines() {
        let expected = "ADDRESS POLICY, and with pages N0=PAGES and kernelpagesize_kB=SIZE";
        let area = Area::parse(line).ok_or_else(|| malformed(&path, line, expected))?;
        maps.add(&area).ok_or_else(|| malformed(&path, line, "fewer bytes than can be counted"))?;
    }
    Ok(Some(maps))
}

impl NumaMaps {
    /// Bytes on each node, whatever policy and page size.
    #[must_use]
    pub fn by_node(&self) -> BTreeMap<NodeId, Bytes> {
        let mut sum = BTreeMap::new();
        let pages = |policy: &'_ PolicyUse| {
            let PolicyUse { ordinary, files, huge, .. } = policy.clone();
            ordinary.into_iter().chain(files).chain(huge)
        };
        for (node, bytes) in self.0.values().flat_map(pages) {
            let Bytes(so_far) = sum.entry(node).or_insert(Bytes(0));
            *so_far = so_far.saturating_add(bytes.0);
        }
        sum
    }

    fn add(&mut self, area: &Area) -> Option<()> {
        let policy = self.0.entry(area.policy.clone()).or_default();
        policy.areas += 1;
        let pages = match (area.huge, area.file) {
            (true, _) => &mut policy.huge,
            (false, true) => &mut policy.files,
            (false, false) => &mut policy.ordinary,
        };
        for (node, count) in &area.pages {
            let Bytes(bytes) = pages.entry(*node).or_insert(Bytes(0));
            *bytes = bytes.checked_add(count.checked_mul(area.page_bytes)?)?;
        }
        Some(())
    }
}

/// One line: `7f00c0000000 bind:1 file=/dev/hugepages/x huge dirty=2 N1=2 kernelpagesize_kB=2048`.
struct Area {
    policy: String,
    huge: bool,
    file: bool,
    pages: Vec<(NodeId, u64)>,
    /// 0 where there is no page.
    page_bytes: u64,
}

impl Area {
    fn parse(line: &str) -> Option<Self> {
        let (address, rest) = line.split_once(' ')?;
        u64::from_str_radix(address, 16).ok()?;
        let (policy, rest) = split_policy(rest)?;
        let mut area =
            Self { policy: policy.to_owned(), huge: false, file: false, pages: Vec::new(), page_bytes: 0 };
        // A file's name comes escaped, with no space in it.
        for word in rest.split(' ') {
            area.take(word)?;
        }
        (area.pages.is_empty() || area.page_bytes > 0).then_some(area)
    }

    /// Words not named here (heap, dirty=, mapmax=, …) say nothing about nodes.
    fn take(&mut self, word: &str) -> Option<()> {
        if word == "huge" {
            self.huge = true;
        } else if word.starts_with("file=") {
            self.file = true;
        } else if let Some(kib) = word.strip_prefix("kernelpagesize_kB=") {
            self.page_bytes = kib.parse::<u64>().ok()?.checked_mul(1024)?;
        } else if let Some((node, pages)) = word.strip_prefix('N').and_then(|word| word.split_once('=')) {
            self.pages.push((NodeId(node.parse().ok()?), pages.parse().ok()?));
        }
        Some(())
    }
}

/// The policy is one word, but for `prefer (many)` and `weighted interleave` (`mpol_to_str` in
/// `mm/mempolicy.c`).
fn split_policy(rest: &str) -> Option<(&str, &str)> {
    let words = if rest.starts_with("prefer (") || rest.starts_with("weighted ") { 2 } else { 1 };
    let end = rest.match_indices(' ').nth(words - 1).map_or(rest.len(), |(at, _)| at);
    let (policy, rest) = rest.split_at(end);
    (!policy.is_empty()).then_some((policy, rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(file: &str, text: &[u8]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/7")).unwrap();
        std::fs::write(root.path().join("proc/7").join(file), text).unwrap();
        root
    }

    fn bytes(nodes: &[(u32, u64)]) -> BTreeMap<NodeId, Bytes> {
        nodes.iter().map(|(node, bytes)| (NodeId(*node), Bytes(*bytes))).collect()
    }

    #[test]
    fn pages_are_summed_by_policy_node_and_kind() {
        let text = b"56485c782000 default file=/usr/bin/a\\040b mapped=2 N0=2 kernelpagesize_kB=4\n\
            56485c784000 default heap anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=4\n\
            7f0000000000 bind=static:1 file=/dev/hugepages/x huge dirty=3 N1=3 kernelpagesize_kB=2048\n\
            7f0040000000 bind=static:1 anon=1 dirty=1 active=0 N1=1 kernelpagesize_kB=4\n\
            7f0050000000 prefer (many):0-1 anon=1 N0=1 kernelpagesize_kB=4\n\
            7f0060000000 weighted interleave:0-1 stack\n\
            7f0070000000 default\n";
        let root = process("numa_maps", text);
        let maps = numa_maps(root.path(), 7).unwrap().unwrap();
        let policies: Vec<&str> = maps.0.keys().map(String::as_str).collect();
        assert_eq!(policies, ["bind=static:1", "default", "prefer (many):0-1", "weighted interleave:0-1"]);
        assert_eq!(maps.0["default"].areas, 3);
        assert_eq!(maps.0["default"].ordinary, bytes(&[(0, 4096), (1, 2 * 4096)]));
        assert_eq!(maps.0["default"].files, bytes(&[(0, 2 * 4096)]));
        assert_eq!(maps.0["bind=static:1"].huge, bytes(&[(1, 3 * 2048 * 1024)]));
        assert_eq!(maps.0["bind=static:1"].ordinary, bytes(&[(1, 4096)]));
        assert_eq!(maps.by_node(), bytes(&[(0, 4 * 4096), (1, 3 * 4096 + 3 * 2048 * 1024)]));
    }

    #[test]
    fn a_line_no_kernel_prints_is_an_error_with_the_line() {
        let lines = [
            "x default",
            "7f00",
            "7f00 ",
            "7f00 default N0=1",
            "7f00 default N0=x kernelpagesize_kB=4",
            "7f00 default N0=18446744073709551615 kernelpagesize_kB=4",
        ];
        for line in lines {
            let root = process("numa_maps", line.as_bytes());
            let error = numa_maps(root.path(), 7).unwrap_err();
            assert!(matches!(&error, HostError::Malformed { text, .. } if text == line), "{line}: {error}");
        }
    }

    #[test]
    fn no_process_is_none_and_no_numa_is_an_error() {
        let root = process("status", b"");
        assert_eq!(numa_maps(root.path(), 8).unwrap(), None);
        assert_eq!(allowed(root.path(), 8).unwrap(), None);
        assert!(numa_maps(root.path(), 7).is_err());
    }

    #[test]
    fn the_allowed_lists_survive_any_process_name() {
        let root = process("status", b"Name:\t\xff\xfe\nCpus_allowed_list:\t0-3,8\nMems_allowed_list:\t1\n");
        let found = allowed(root.path(), 7).unwrap().unwrap();
        assert_eq!((found.cpus.to_string(), found.mems.to_string()), ("0-3,8".into(), "1".into()));
        let root = process("status", b"Name:\tx\nCpus_allowed_list:\t0-\n");
        assert!(matches!(allowed(root.path(), 7), Err(HostError::List { .. })));
        let root = process("status", b"Cpus_allowed_list:\t0\n");
        assert!(matches!(
            allowed(root.path(), 7),
            Err(HostError::Malformed { expected: "Mems_allowed_list:", .. })
        ));
    }

    #[test]
    fn this_very_process_can_be_read() {
        let found = allowed(Path::new("/"), std::process::id()).unwrap().unwrap();
        assert!(!found.cpus.is_empty() && !found.mems.is_empty());
        if Path::new("/proc/self/numa_maps").exists() {
            let maps = numa_maps(Path::new("/"), std::process::id()).unwrap().unwrap();
            assert!(maps.by_node().values().map(|bytes| bytes.0).sum::<u64>() > 0);
        }
    }
}
