//! The containers of the CRI, as their cgroups show them: whoever made them, and whether maitred knows them or not.

use super::effective::below;
use super::{Cgroups, HostError};
use crate::model::{ContainerId, PodUid};
use std::path::Path;

/// How deep below the hierarchy's root a pod's cgroup may lie, and how many cgroups are looked at.
const DEEPEST: usize = 8;
const MOST: usize = 50_000;

/// A container's cgroup below a pod's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundContainer {
    /// The pod's UID, as the cgroup's name has it.
    pub pod: PodUid,
    /// The container's id.
    pub id: ContainerId,
    /// The pod's cgroup, an absolute path within the hierarchy.
    pub pod_cgroup: String,
    /// The container's, likewise: `Cgroups` takes it as a `cgroupsPath`.
    pub cgroups_path: String,
}

impl Cgroups {
    /// All containers below cgroups that a kubelet made for pods, sandboxes among them, by pod and id.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn containers(&self) -> Result<Vec<FoundContainer>, HostError> {
        let mut found = Vec::new();
        let mut dirs = vec![(self.cpuset.mount.clone(), 0)];
        let mut looked_at = 0;
        while let Some((dir, depth)) = dirs.pop().filter(|_| looked_at < MOST) {
            looked_at += 1;
            for child in below(&dir)? {
                match pod_uid(&name(&child)) {
                    Some(pod) => found.extend(self.of_pod(&pod, &child)?),
                    None if depth < DEEPEST => dirs.push((child, depth + 1)),
                    None => {}
                }
            }
        }
        found.sort();
        Ok(found)
    }

    fn of_pod(&self, pod: &PodUid, dir: &Path) -> Result<Vec<FoundContainer>, HostError> {
        let children = below(dir)?.into_iter().filter_map(|child| {
            Some(FoundContainer {
                pod: pod.clone(),
                id: container_id(&name(&child))?,
                pod_cgroup: self.within(dir),
                cgroups_path: self.within(&child),
            })
        });
        Ok(children.collect())
    }

    fn within(&self, dir: &Path) -> String {
        format!("/{}", dir.strip_prefix(&self.cpuset.mount).unwrap_or(dir).display())
    }
}

fn name(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// As [`PodUid::of_cgroup`]; `pods` or `podman` is no pod.
fn pod_uid(name: &str) -> Option<PodUid> {
    let is_uid = |uid: &str| uid.len() >= 8 && uid.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    PodUid::of_cgroup(name).filter(|uid| is_uid(uid.as_str()))
}

/// `ID` (cgroupfs) or `cri-containerd-ID.scope` (systemd). CRI-O's monitor is no container.
fn container_id(name: &str) -> Option<ContainerId> {
    let id = match name.strip_suffix(".scope") {
        Some(scope) if scope.starts_with("crio-conmon-") => return None,
        Some(scope) => scope.rsplit('-').next()?,
        None if name.contains('.') => return None,
        None => name,
    };
    (!id.is_empty()).then(|| ContainerId::new(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_found_under_both_drivers_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpuset\n"),
            ("sys/fs/cgroup/kubepods/burstable/pod11111111-2222/abc/cgroup.procs", ""),
            ("sys/fs/cgroup/kubepods.slice/kubepods-podaaaaaaaa_bbbb.slice/cri-containerd-def.scope/x", ""),
            ("sys/fs/cgroup/kubepods.slice/kubepods-podaaaaaaaa_bbbb.slice/crio-conmon-def.scope/x", ""),
            ("sys/fs/cgroup/system.slice/podman.service/x", ""),
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = Cgroups::find(root.path()).unwrap().containers().unwrap();
        let told: Vec<_> = found.iter().map(|one| (one.pod.as_str(), one.id.as_str())).collect();
        assert_eq!(told, [("11111111-2222", "abc"), ("aaaaaaaa-bbbb", "def")]);
        assert_eq!(found[0].cgroups_path, "/kubepods/burstable/pod11111111-2222/abc");
        assert_eq!(found[1].pod_cgroup, "/kubepods.slice/kubepods-podaaaaaaaa_bbbb.slice");
    }
}
