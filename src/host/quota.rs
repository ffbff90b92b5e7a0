//! The `cpu` controller: a quota throttles exclusive CPUs as well.

use super::cgroups::absent;
use super::error::{io, read, written};
use super::{Cgroups, HostError};
use cgroups_rs::cpu::CpuController;
use std::path::Path;

const MICROS: &str = "a number of µs";

/// A CFS quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// CPU time in each period, µs.
    pub quota_us: u64,
    /// The period, µs.
    pub period_us: u64,
}

impl Cgroups {
    /// A container's quota; `None` is none.
    ///
    /// # Errors
    /// The cgroup is gone, or its file cannot be read.
    pub fn quota(&self, cgroups_path: &str) -> Result<Option<Quota>, HostError> {
        let Some(cpu) = &self.cpu else { return Ok(None) };
        let dir = cpu.container(cgroups_path)?;
        if cpu.v2 { unified(&dir) } else { legacy(&dir) }
    }

    /// Takes the quota off a pod's own cgroup, which throttles whatever its containers may use.
    /// Returns the quota it had; `None` is none.
    ///
    /// # Errors
    /// The cgroup is gone, or its file cannot be read or written.
    pub fn drop_pod_quota(&self, cgroup_parent: &str) -> Result<Option<Quota>, HostError> {
        let Some(cpu) = &self.cpu else { return Ok(None) };
        drop_quota(&cpu.pod(cgroup_parent)?, cpu.v2)
    }

    /// Takes the quota off a container's cgroup. Returns the quota it had; `None` is none.
    ///
    /// # Errors
    /// As [`Self::drop_pod_quota`].
    pub fn drop_quota(&self, cgroups_path: &str) -> Result<Option<Quota>, HostError> {
        let Some(cpu) = &self.cpu else { return Ok(None) };
        drop_quota(&cpu.container(cgroups_path)?, cpu.v2)
    }
}

fn drop_quota(dir: &Path, v2: bool) -> Result<Option<Quota>, HostError> {
    let before = if v2 { unified(dir)? } else { legacy(dir)? };
    if before.is_some() {
        let result = CpuController::new(dir.to_owned(), v2).set_cfs_quota(-1);
        let file = if v2 { "cpu.max" } else { "cpu.cfs_quota_us" };
        written(dir.join(file), if v2 { "max" } else { "-1" }, result)?;
    }
    Ok(before)
}

/// `cpu.max`: quota or `max`, then the period.
fn unified(dir: &Path) -> Result<Option<Quota>, HostError> {
    let path = dir.join("cpu.max");
    let Some(text) = read(&path)? else { return absent(dir).map_or(Ok(None), Err) };
    let quota = match text.trim().split_once(' ') {
        Some(("max", period)) => period.parse::<u64>().ok().map(|_| None),
        Some((quota, period)) => quota.parse().ok().zip(period.parse().ok()).map(Some),
        None => None,
    };
    let quota = quota.map(|quota| quota.map(|(quota_us, period_us)| Quota { quota_us, period_us }));
    quota.ok_or(HostError::Malformed { path, text, expected: "a quota or max, and a period, in µs" })
}

/// `cpu.cfs_quota_us`, where −1 is none, and `cpu.cfs_period_us`.
fn legacy(dir: &Path) -> Result<Option<Quota>, HostError> {
    let Some(quota) = number(dir, "cpu.cfs_quota_us")? else { return Ok(None) };
    let Ok(quota_us) = u64::try_from(quota) else { return Ok(None) };
    let path = dir.join("cpu.cfs_period_us");
    let period = number(dir, "cpu.cfs_period_us")?;
    let period = period.ok_or_else(|| io("read", &path)(std::io::ErrorKind::NotFound.into()))?;
    let period_us = u64::try_from(period);
    let period_us =
        period_us.map_err(|_| HostError::Malformed { path, text: period.to_string(), expected: MICROS })?;
    Ok(Some(Quota { quota_us, period_us }))
}

fn number(dir: &Path, file: &str) -> Result<Option<i64>, HostError> {
    let path = dir.join(file);
    let Some(text) = read(&path)? else { return absent(dir).map_or(Ok(None), Err) };
    match text.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(HostError::Malformed { path, text, expected: MICROS }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::mounts::Hierarchy;
    use super::*;
    use std::fs;

    /// A machine with one pod, `/pod`, whose cpu controller has these files.
    fn machine(v2: bool, files: &[(&str, &str)]) -> (tempfile::TempDir, Cgroups) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("pod")).unwrap();
        for (name, text) in files {
            fs::write(root.path().join("pod").join(name), text).unwrap();
        }
        let hierarchy = Hierarchy { mount: root.path().to_owned(), v2 };
        let cgroups = Cgroups { cpuset: hierarchy.clone(), cpu: Some(hierarchy), hugetlb: None };
        (root, cgroups)
    }

    #[test]
    fn v2_loses_its_quota_and_keeps_its_period() {
        let (root, cgroups) = machine(true, &[("cpu.max", "200000 50000\n")]);
        let before = cgroups.drop_pod_quota("/pod").unwrap();
        assert_eq!(before, Some(Quota { quota_us: 200_000, period_us: 50_000 }));
        assert_eq!(fs::read_to_string(root.path().join("pod/cpu.max")).unwrap(), "max 50000");
        assert_eq!(cgroups.drop_pod_quota("/pod").unwrap(), None);
    }

    #[test]
    fn v1_loses_its_quota() {
        let files = [("cpu.cfs_quota_us", "400000\n"), ("cpu.cfs_period_us", "100000\n")];
        let (root, cgroups) = machine(false, &files);
        let before = cgroups.drop_pod_quota("/pod").unwrap();
        assert_eq!(before, Some(Quota { quota_us: 400_000, period_us: 100_000 }));
        assert_eq!(fs::read_to_string(root.path().join("pod/cpu.cfs_quota_us")).unwrap(), "-1");
        assert_eq!(cgroups.drop_pod_quota("/pod").unwrap(), None);
    }

    #[test]
    fn no_controller_is_no_quota_and_no_cgroup_is_gone() {
        let (_root, mut cgroups) = machine(true, &[]);
        assert_eq!(cgroups.drop_pod_quota("/pod").unwrap(), None);
        assert!(cgroups.drop_pod_quota("/other").unwrap_err().is_gone());
        cgroups.cpu = None;
        assert_eq!(cgroups.drop_pod_quota("/other").unwrap(), None);
    }

    #[test]
    fn what_is_no_quota_is_an_error_and_stays() {
        for text in ["", "max", "x 100000", "100000", "-1 100000", "1 2 3"] {
            let (root, cgroups) = machine(true, &[("cpu.max", text)]);
            let error = cgroups.drop_pod_quota("/pod").unwrap_err();
            assert!(matches!(&error, HostError::Malformed { text: t, .. } if t == text), "{error}");
            assert_eq!(fs::read_to_string(root.path().join("pod/cpu.max")).unwrap(), text);
        }
        let (_root, cgroups) = machine(false, &[("cpu.cfs_quota_us", "many")]);
        assert!(matches!(cgroups.drop_pod_quota("/pod"), Err(HostError::Malformed { .. })));
        let (_root, cgroups) = machine(false, &[("cpu.cfs_quota_us", "400000")]);
        assert!(matches!(cgroups.drop_pod_quota("/pod"), Err(HostError::Io { .. })));
    }
}
