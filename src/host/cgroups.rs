//! The cgroups of containers and pods. What each controller can do is in its own file.

use super::mounts::{Hierarchy, Mounts};
use super::{HostError, cgroup_path};
use std::path::{Path, PathBuf};

/// The hierarchies of this machine, found once: mounts do not change under a running kubelet.
#[derive(Debug, Clone)]
pub struct Cgroups {
    pub(super) cpuset: Hierarchy,
    /// `None`: nothing on this machine limits CPU time.
    pub(super) cpu: Option<Hierarchy>,
    /// `None`: nothing on this machine counts hugepages.
    pub(super) hugetlb: Option<Hierarchy>,
}

impl Cgroups {
    /// Finds the hierarchies below `root` (`/` on a real machine) from `proc/self/mountinfo`.
    ///
    /// # Errors
    /// No hierarchy has the cpuset controller, or the mounts cannot be read.
    pub fn find(root: &Path) -> Result<Self, HostError> {
        let controllers = ["cpuset", "cpu", "hugetlb"];
        if let Some([cpuset, cpu, hugetlb]) = Mounts::at_the_usual_place(root, controllers) {
            return Ok(Self { cpuset, cpu: Some(cpu), hugetlb: Some(hugetlb) });
        }
        let mounts = Mounts::read(root)?;
        let none = || HostError::NoController { controller: "cpuset", mountinfo: mounts.mountinfo.clone() };
        Ok(Self {
            cpuset: mounts.hierarchy("cpuset").ok_or_else(none)?,
            cpu: mounts.hierarchy("cpu"),
            hugetlb: mounts.hierarchy("hugetlb"),
        })
    }

    /// Whether a container's or a sandbox's cgroup is there, by its `cgroupsPath`.
    ///
    /// # Errors
    /// That is no such path, or the hierarchy cannot be looked into.
    pub fn look_for(&self, cgroups_path: &str) -> Result<bool, HostError> {
        is_dir(self.cpuset.container(cgroups_path)?)
    }

    /// Whether a pod's own cgroup is there, by its `cgroup_parent`.
    ///
    /// # Errors
    /// That is no such path, or the hierarchy cannot be looked into.
    pub fn look_for_pod(&self, cgroup_parent: &str) -> Result<bool, HostError> {
        is_dir(self.cpuset.pod(cgroup_parent)?)
    }

    /// Whether the cpuset controller is cgroup v2's: changing mems then moves pages.
    #[must_use]
    pub fn is_v2(&self) -> bool {
        self.cpuset.v2
    }
}

impl Hierarchy {
    /// A container's directory.
    pub fn container(&self, cgroups_path: &str) -> Result<PathBuf, HostError> {
        Ok(self.mount.join(cgroup_path::of_container(cgroups_path)?))
    }

    /// A pod's directory.
    pub fn pod(&self, cgroup_parent: &str) -> Result<PathBuf, HostError> {
        Ok(self.mount.join(cgroup_path::of_pod(cgroup_parent)?))
    }
}

/// The error for a file that is not there: the cgroup is gone, or (`None`) only the file is.
pub(super) fn absent(dir: &Path) -> Option<HostError> {
    (!dir.is_dir()).then(|| HostError::Gone { path: dir.to_owned() })
}

/// Not to be seen is not the same as not to be there.
fn is_dir(path: PathBuf) -> Result<bool, HostError> {
    path.try_exists().map_err(|source| HostError::Io { verb: "look for", path, source })
}
