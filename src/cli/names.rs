//! What people call pods and containers that cgroups and allocations know by UID and id alone: by the journal of
//! verdicts, and by the names of the kubelet's log files.

use crate::discover::Root;
use crate::model::{ContainerId, ContainerName, PodUid};
use crate::store::Told;
use std::collections::BTreeMap;

/// The kubelet's `NAMESPACE_NAME_UID` (`pkg/kubelet/kuberuntime/helpers.go`: `BuildPodLogsDirectory`).
const PODS: &str = "var/log/pods";
/// Its `POD_NAMESPACE_CONTAINER-ID.log` (`pkg/kubelet/kuberuntime/legacy.go`: `logSymlink`).
const CONTAINERS: &str = "var/log/containers";

/// Names by UID and id, as far as anybody tells.
#[derive(Debug, Default)]
pub(super) struct Names {
    pods: BTreeMap<PodUid, String>,
    containers: BTreeMap<ContainerId, ContainerName>,
}

impl Names {
    /// From the journal and from this machine's log directories. What cannot be read tells nothing.
    pub fn read(root: &Root, journal: &[Told]) -> Self {
        let mut names = Self::default();
        for file in root.names(CONTAINERS).ok().flatten().unwrap_or_default() {
            names.containers.extend(of_log_file(&file));
        }
        for directory in root.names(PODS).ok().flatten().unwrap_or_default() {
            names.pods.extend(of_log_directory(&directory));
        }
        for told in journal.iter().filter(|told| !told.pod.is_empty()) {
            names.pods.insert(told.pod_uid.as_str().into(), format!("{}/{}", told.namespace, told.pod));
            if let (Some(container), Some(id)) = (&told.container, &told.container_id) {
                names.containers.insert(id.as_str().into(), container.as_str().into());
            }
        }
        names
    }

    /// `namespace/name`.
    pub fn pod(&self, uid: &PodUid) -> Option<&str> {
        self.pods.get(uid).map(String::as_str)
    }

    /// A container's name in its pod.
    pub fn container(&self, id: &ContainerId) -> Option<&ContainerName> {
        self.containers.get(id)
    }
}

/// Neither a namespace nor a pod's name can have an underscore.
fn of_log_directory(name: &str) -> Option<(PodUid, String)> {
    let mut parts = name.splitn(3, '_');
    let (namespace, pod, uid) = (parts.next()?, parts.next()?, parts.next()?);
    Some((uid.into(), format!("{namespace}/{pod}")))
}

fn of_log_file(name: &str) -> Option<(ContainerId, ContainerName)> {
    let (rest, id) = name.strip_suffix(".log")?.rsplit_once('-')?;
    let container = rest.splitn(3, '_').nth(2)?;
    Some((id.into(), container.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelets_files_and_the_journal_tell_names() {
        let dir = tempfile::tempdir().unwrap();
        for path in
            ["sys", "var/log/pods/default_vllm-0_uid-1/main", "var/log/pods/odd", "var/log/containers"]
        {
            std::fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        std::fs::write(dir.path().join("var/log/containers/vllm-0_default_ma-in-c0ffee.log"), "").unwrap();
        let told = Told {
            pod: "batch".into(),
            namespace: "work".into(),
            pod_uid: "uid-2".into(),
            container: Some("a".into()),
            container_id: Some("id-a".into()),
            ..Told::default()
        };
        let names = Names::read(&Root::open(dir.path()).unwrap(), &[told]);
        assert_eq!(names.pod(&"uid-1".into()), Some("default/vllm-0"));
        assert_eq!(names.pod(&"uid-2".into()), Some("work/batch"));
        assert_eq!(names.container(&"c0ffee".into()).map(ContainerName::as_str), Some("ma-in"));
        assert_eq!(names.container(&"id-a".into()).map(ContainerName::as_str), Some("a"));
        assert_eq!(names.pod(&"odd".into()), None);
    }
}
