//! What is effective for a container, read from its cgroups and its processes.

use super::cgroups::absent;
use super::error::{io, read};
use super::everybody::threads;
use super::process::{PolicyUse, allowed, numa_maps};
use super::{Cgroups, HostError, NumaMaps};
use crate::decision::{Seen, SeenProcess};
use crate::model::{Bytes, ContainerId, HugepageSize, NodeId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The most processes of a container that are looked at: a page table takes its time.
const MOST_PROCESSES: usize = 64;
/// How deep below the hierarchy's root a container's cgroup may lie, and how many are looked at to find it.
const DEEPEST: usize = 10;
const MOST_CGROUPS: usize = 50_000;

impl Cgroups {
    /// What a container has, with its huge pages of `sizes`; `None` is no such cgroup (any more). Processes are those
    /// below `root`, `/` on a real machine. Another user's need `CAP_SYS_PTRACE`.
    ///
    /// # Errors
    /// A file that cannot be read, or reads otherwise than kernels write it.
    pub fn effective(
        &self,
        root: &Path,
        cgroups_path: &str,
        sizes: impl Iterator<Item = HugepageSize>,
    ) -> Result<Option<Seen>, HostError> {
        let Some(observed) = self.observe(cgroups_path)? else { return Ok(None) };
        let mut hugepages = BTreeMap::new();
        for size in sizes {
            match self.hugepages_in_use(cgroups_path, size) {
                Ok(by_node) => add(&mut hugepages, by_node.unwrap_or_default()),
                Err(error) if error.is_gone() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let mut processes = Vec::new();
        for pid in self.processes(cgroups_path)? {
            processes.extend(process(root, pid)?);
        }
        Ok(Some(Seen { cpus: observed.cpus, mems: observed.mems, processes, hugepages }))
    }

    /// The processes of a container, those of nested cgroups included.
    ///
    /// # Errors
    /// A file cannot be read, or is not the kernel's.
    pub fn processes(&self, cgroups_path: &str) -> Result<Vec<u32>, HostError> {
        let mut dirs = vec![self.cpuset.container(cgroups_path)?];
        let mut pids = Vec::new();
        while let Some(dir) = dirs.pop().filter(|_| pids.len() < MOST_PROCESSES) {
            let path = dir.join("cgroup.procs");
            let Some(text) = read(&path)? else { continue };
            for line in text.lines() {
                let expected = "a process on each line";
                let pid = line.parse().map_err(|_| HostError::Malformed {
                    path: path.clone(),
                    text: line.into(),
                    expected,
                });
                pids.push(pid?);
            }
            dirs.extend(below(&dir)?);
        }
        pids.truncate(MOST_PROCESSES);
        Ok(pids)
    }

    /// Where a container's cgroup is, as an absolute path within the hierarchy: one that is named by its id, alone
    /// (cgroupfs) or as the last part of a scope (systemd).
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn find_container(&self, id: &ContainerId) -> Result<Option<String>, HostError> {
        let scope = format!("-{id}.scope");
        let mut dirs = vec![(self.cpuset.mount.clone(), 0)];
        let mut looked_at = 0;
        while let Some((dir, depth)) = dirs.pop().filter(|_| looked_at < MOST_CGROUPS) {
            looked_at += 1;
            for child in below(&dir)? {
                let name = child.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if name == id.as_str() || name.ends_with(&scope) {
                    let within = child.strip_prefix(&self.cpuset.mount).unwrap_or(&child);
                    return Ok(Some(format!("/{}", within.display())));
                }
                if depth < DEEPEST {
                    dirs.push((child, depth + 1));
                }
            }
        }
        Ok(None)
    }
}

/// The cgroups right below one; none where it has ended.
pub(super) fn below(dir: &Path) -> Result<Vec<PathBuf>, HostError> {
    let entries = match std::fs::read_dir(dir) {
        Err(_) if absent(dir).is_some() => return Ok(Vec::new()),
        entries => entries.map_err(io("list", dir))?,
    };
    let dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(dirs.map(|entry| entry.path()).collect())
}

/// `None` is a process that has ended.
fn process(root: &Path, pid: u32) -> Result<Option<SeenProcess>, HostError> {
    let Some(allowed) = allowed(root, pid)? else { return Ok(None) };
    let Some(NumaMaps(maps)) = numa_maps(root, pid)? else { return Ok(None) };
    let mut memory = BTreeMap::new();
    for PolicyUse { ordinary, huge, .. } in maps.values() {
        add(&mut memory, ordinary.clone());
        add(&mut memory, huge.clone());
    }
    Ok(Some(SeenProcess {
        pid,
        threads: threads(root, pid, &allowed.cpus)?,
        cpus: allowed.cpus,
        mems: allowed.mems,
        policies: maps.into_keys().collect(),
        memory,
    }))
}

fn add(sum: &mut BTreeMap<NodeId, Bytes>, more: BTreeMap<NodeId, Bytes>) {
    for (node, bytes) in more {
        let Bytes(so_far) = sum.entry(node).or_default();
        *so_far = so_far.saturating_add(bytes.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Cgroups) {
        let root = tempfile::tempdir().unwrap();
        let unified = ("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let controllers = ("sys/fs/cgroup/cgroup.controllers", "cpuset hugetlb\n");
        for (path, text) in [unified, controllers].iter().chain(files) {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let cgroups = Cgroups::find(root.path()).unwrap();
        (root, cgroups)
    }

    const STATUS: &str = "Name:\ta\nCpus_allowed_list:\t4-7\nMems_allowed_list:\t1\n";
    const MAPS: &str = "7f0000000000 bind=static:1 anon=2 N1=2 kernelpagesize_kB=4\n\
                        7f0010000000 bind=static:1 file=/lib/x mapped=9 N0=9 kernelpagesize_kB=4\n\
                        7f0020000000 bind=static:1 huge dirty=1 N1=1 kernelpagesize_kB=2048\n";

    #[test]
    fn everything_is_read_of_a_container_and_what_is_nested_in_it() {
        let (root, cgroups) = machine(&[
            ("sys/fs/cgroup/k/c1/cpuset.cpus.effective", "4-7\n"),
            ("sys/fs/cgroup/k/c1/cpuset.mems.effective", "1\n"),
            ("sys/fs/cgroup/k/c1/cgroup.procs", "7\n8\n"),
            ("sys/fs/cgroup/k/c1/inner/cgroup.procs", "9\n"),
            ("sys/fs/cgroup/k/c1/hugetlb.2MB.numa_stat", "total=2097152 N0=0 N1=2097152\n"),
            ("proc/7/status", STATUS),
            ("proc/7/numa_maps", MAPS),
            ("proc/9/status", STATUS),
            ("proc/9/numa_maps", ""),
        ]);
        let seen =
            cgroups.effective(root.path(), "/k/c1", [HugepageSize::MIB2].into_iter()).unwrap().unwrap();
        assert_eq!(
            (seen.cpus.unwrap().to_string(), seen.mems.unwrap().to_string()),
            ("4-7".into(), "1".into())
        );
        assert_eq!(seen.hugepages[&NodeId(1)], Bytes(2 << 20));
        // 8 has ended meanwhile.
        assert_eq!(seen.processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [7, 9]);
        let first = &seen.processes[0];
        assert_eq!(
            first.memory,
            [(NodeId(1), Bytes((2 << 12) + (2 << 20)))].into(),
            "a file's pages are not its own"
        );
        assert!(first.policies.contains("bind=static:1"));
        let gone = cgroups.effective(root.path(), "/k/c2", [HugepageSize::MIB2].into_iter()).unwrap();
        assert_eq!(gone, None);
    }

    #[test]
    fn a_container_is_found_by_its_id_in_either_spelling() {
        let (_root, cgroups) = machine(&[
            ("sys/fs/cgroup/kubepods/poda/abc/cgroup.procs", ""),
            ("sys/fs/cgroup/k.slice/k-p.slice/cri-containerd-def.scope/cgroup.procs", ""),
        ]);
        let found = |id: &str| cgroups.find_container(&id.into()).unwrap();
        assert_eq!(found("abc").as_deref(), Some("/kubepods/poda/abc"));
        assert_eq!(found("def").as_deref(), Some("/k.slice/k-p.slice/cri-containerd-def.scope"));
        assert_eq!(found("ef"), None);
    }
}
