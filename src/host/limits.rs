//! What a container was made with, as its cgroup and its first process show it: all there is to go by of one that
//! nobody told us about.

use super::cgroups::absent;
use super::error::read;
use super::{Cgroups, HostError};
use crate::model::Bytes;
use std::path::Path;

/// The most that is read of an environment.
const MOST_ENVIRONMENT: usize = 1 << 20;

/// Limits of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Its CPU limit in thousandths of a CPU; `None` is none, or nothing counts CPU time.
    pub cpu_milli: Option<u64>,
    /// Its memory limit; `None` is none, or (cgroup v1) not looked for.
    pub memory: Option<Bytes>,
}

impl Cgroups {
    /// A container's limits.
    ///
    /// # Errors
    /// The cgroup is gone, or a file of it cannot be read.
    pub fn limits(&self, cgroups_path: &str) -> Result<Limits, HostError> {
        let cpu_milli = self
            .quota(cgroups_path)?
            .and_then(|quota| quota.quota_us.saturating_mul(1000).checked_div(quota.period_us));
        Ok(Limits { cpu_milli, memory: self.memory_limit(cgroups_path)? })
    }

    fn memory_limit(&self, cgroups_path: &str) -> Result<Option<Bytes>, HostError> {
        if !self.cpuset.v2 {
            return Ok(None);
        }
        let dir = self.cpuset.container(cgroups_path)?;
        let path = dir.join("memory.max");
        let Some(text) = read(&path)? else { return absent(&dir).map_or(Ok(None), Err) };
        match (text.trim(), text.trim().parse()) {
            ("max", _) => Ok(None),
            (_, Ok(bytes)) => Ok(Some(Bytes(bytes))),
            (_, Err(_)) => Err(HostError::Malformed { path, text, expected: "a number of bytes, or max" }),
        }
    }
}

/// The environment a process was started with, as `NAME=value`; nothing where it has ended. Needs `CAP_SYS_PTRACE`
/// for another user's.
///
/// # Errors
/// The file cannot be read.
pub fn environment(root: &Path, pid: u32) -> Result<Vec<String>, HostError> {
    let text = read(&root.join(format!("proc/{pid}/environ")))?.unwrap_or_default();
    let variables = text.split('\0').filter(|variable| variable.contains('='));
    let mut room = MOST_ENVIRONMENT;
    let fits = variables.take_while(|variable| {
        room = room.saturating_sub(variable.len());
        room > 0
    });
    Ok(fits.map(str::to_owned).collect())
}

/// A process's `oom_score_adj`; `None` where it has ended.
///
/// # Errors
/// The file cannot be read.
pub fn oom_score_adj(root: &Path, pid: u32) -> Result<Option<i64>, HostError> {
    let text = read(&root.join(format!("proc/{pid}/oom_score_adj")))?;
    Ok(text.and_then(|text| text.trim().parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_environment_are_read_and_none_is_none() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n"),
            ("sys/fs/cgroup/a/cpu.max", "400000 100000\n"),
            ("sys/fs/cgroup/a/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/b/memory.max", "max\n"),
            ("proc/7/environ", "PATH=/bin\0NVIDIA_VISIBLE_DEVICES=0\0NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2\0"),
            ("proc/7/oom_score_adj", "-997\n"),
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let cgroups = Cgroups::find(root.path()).unwrap();
        let expected = Limits { cpu_milli: Some(4000), memory: Some(Bytes(1 << 30)) };
        assert_eq!(cgroups.limits("/a").unwrap(), expected);
        assert_eq!(cgroups.limits("/b").unwrap(), Limits::default());
        assert!(cgroups.limits("/c").unwrap_err().is_gone());
        let of_7 = environment(root.path(), 7).unwrap();
        assert_eq!(of_7, ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2"]);
        assert!(environment(root.path(), 8).unwrap().is_empty());
        assert_eq!(oom_score_adj(root.path(), 7).unwrap(), Some(-997));
        assert_eq!(oom_score_adj(root.path(), 8).unwrap(), None);
    }
}
