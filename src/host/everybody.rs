//! Everything that runs on the machine and where it may run: who else may be on CPUs that are somebody's alone.

use super::HostError;
use super::error::{io, read};
use crate::model::CpuSet;
use std::collections::BTreeMap;
use std::path::Path;

/// The most threads of one process that are looked at, beside its first.
const MOST_THREADS: usize = 256;

/// A process that is no kernel thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostProcess {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The CPUs its first thread may run on.
    pub cpus: CpuSet,
}

/// All processes, without the kernel's own threads: they have no memory of theirs, and many belong to a CPU.
///
/// # Errors
/// `proc` below `root` cannot be listed.
pub fn everybody(root: &Path) -> Result<Vec<HostProcess>, HostError> {
    let proc = root.join("proc");
    let entries = std::fs::read_dir(&proc).map_err(io("list", &proc))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut pids: Vec<u32> = names.collect();
    pids.sort_unstable();
    Ok(pids.into_iter().filter_map(|pid| process(root, pid)).collect())
}

/// One that has ended since, or cannot be read, is nobody.
fn process(root: &Path, pid: u32) -> Option<HostProcess> {
    let status = read(&root.join(format!("proc/{pid}/status"))).ok()??;
    let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    field("VmSize:")?;
    let cpus = field("Cpus_allowed_list:")?.parse().ok()?;
    Some(HostProcess { pid, name: field("Name:").unwrap_or_default().to_owned(), cpus })
}

/// The CPUs of those threads of a process that have others than its first, by their number.
///
/// # Errors
/// A thread's file is not the kernel's.
pub(super) fn threads(root: &Path, pid: u32, first: &CpuSet) -> Result<BTreeMap<u32, CpuSet>, HostError> {
    // One that has ended has no threads.
    let Ok(entries) = std::fs::read_dir(root.join(format!("proc/{pid}/task"))) else {
        return Ok(BTreeMap::new());
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut others = BTreeMap::new();
    for thread in names.filter(|thread: &u32| *thread != pid).take(MOST_THREADS) {
        // A thread has a directory in `proc` like a process, though it is not listed.
        let below = root.join(format!("proc/{pid}/task/{thread}"));
        let Some(found) = super::process::allowed_in(&below)? else { continue };
        if found.cpus != *first {
            others.insert(thread, found.cpus);
        }
    }
    Ok(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_threads_are_nobody_and_threads_that_went_elsewhere_are_seen() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/1/status", "Name:\tinit\nVmSize:\t1 kB\nCpus_allowed_list:\t0-7\n"),
            ("proc/2/status", "Name:\tkthreadd\nCpus_allowed_list:\t0-7\n"),
            ("proc/self/status", ""),
            ("proc/9/status", "Name:\tvllm\nVmSize:\t1 kB\nCpus_allowed_list:\t4-5\nMems_allowed_list:\t1\n"),
            ("proc/9/task/9/status", "Cpus_allowed_list:\t4-5\nMems_allowed_list:\t1\n"),
            ("proc/9/task/10/status", "Cpus_allowed_list:\t4-5\nMems_allowed_list:\t1\n"),
            ("proc/9/task/11/status", "Cpus_allowed_list:\t0-7\nMems_allowed_list:\t1\n"),
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let all = everybody(root.path()).unwrap();
        assert_eq!(
            all.iter().map(|one| (one.pid, one.name.as_str())).collect::<Vec<_>>(),
            [(1, "init"), (9, "vllm")]
        );
        let elsewhere = threads(root.path(), 9, &all[1].cpus).unwrap();
        assert_eq!(elsewhere, [(11, "0-7".parse().unwrap())].into());
        assert!(threads(root.path(), 77, &all[1].cpus).unwrap().is_empty());
    }
}
