//! Who a container is, by the annotations that its manager writes into `config.json`.

use super::outline::Outline;
use std::collections::BTreeMap;

/// Who makes containers here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manager {
    /// containerd's CRI.
    Containerd,
    /// CRI-O.
    Crio,
    /// podman, which groups its pods in CRI-O's words.
    Podman,
    /// Docker, `ctr`, or somebody who runs a runtime by hand.
    Other,
}

/// The names of a container and its pod.
#[derive(Debug)]
pub(super) struct Names {
    pub manager: Manager,
    pub sandbox: String,
    pub pod_uid: String,
    pub pod_name: String,
    pub namespace: String,
    pub container_name: String,
    pub runtime_handler: String,
    pub is_sandbox: bool,
}

/// One manager's keys.
struct Keys {
    kind: &'static str,
    sandbox: &'static str,
    uid: &'static str,
    pod_name: &'static str,
    namespace: &'static str,
    container_name: &'static str,
}

const CONTAINERD: Keys = Keys {
    kind: "io.kubernetes.cri.container-type",
    sandbox: "io.kubernetes.cri.sandbox-id",
    uid: "io.kubernetes.cri.sandbox-uid",
    pod_name: "io.kubernetes.cri.sandbox-name",
    namespace: "io.kubernetes.cri.sandbox-namespace",
    container_name: "io.kubernetes.cri.container-name",
};

/// UID and container name are the kubelet's labels, which CRI-O hands on.
const CRIO: Keys = Keys {
    kind: "io.kubernetes.cri-o.ContainerType",
    sandbox: "io.kubernetes.cri-o.SandboxID",
    uid: "io.kubernetes.pod.uid",
    pod_name: "io.kubernetes.cri-o.KubeName",
    namespace: "io.kubernetes.cri-o.Namespace",
    container_name: "io.kubernetes.container.name",
};

const CRIO_LABELS: &str = "io.kubernetes.cri-o.Labels";
const CRIO_HANDLER: &str = "io.kubernetes.cri-o.RuntimeHandler";
/// podman says `libpod` here, CRI-O `cri-o`.
const CONTAINER_MANAGER: &str = "io.container.manager";

impl Names {
    /// The names of container `id`.
    pub fn of(id: &str, outline: &Outline) -> Self {
        if outline.annotation(CONTAINERD.kind).is_some() {
            return Self::by(&CONTAINERD, Manager::Containerd, id, outline);
        }
        match (outline.annotation(CONTAINER_MANAGER), outline.annotation(CRIO.kind)) {
            (Some("libpod"), _) => Self::by(&CRIO, Manager::Podman, id, outline),
            (_, Some(_)) => Self::by(&CRIO, Manager::Crio, id, outline),
            _ => Self::by(&CRIO, Manager::Other, id, &Outline::default()),
        }
    }

    /// Whether it is part of a pod of Kubernetes.
    pub fn in_kubernetes(&self) -> bool {
        matches!(self.manager, Manager::Containerd | Manager::Crio)
    }

    fn by(keys: &Keys, manager: Manager, id: &str, outline: &Outline) -> Self {
        let labels: BTreeMap<String, String> = outline
            .annotation(CRIO_LABELS)
            .and_then(|json| serde_json::from_str(json).ok())
            .unwrap_or_default();
        let word = |key: &str| {
            let word = outline.annotation(key).or_else(|| labels.get(key).map(String::as_str));
            word.filter(|word| !word.is_empty()).map(str::to_owned)
        };
        let sandbox = word(keys.sandbox).unwrap_or_else(|| id.to_owned());
        let short: String = id.chars().take(12).collect();
        Self {
            manager,
            pod_uid: word(keys.uid).unwrap_or_else(|| sandbox.clone()),
            pod_name: word(keys.pod_name).unwrap_or_else(|| short.clone()),
            namespace: word(keys.namespace).unwrap_or_default(),
            container_name: word(keys.container_name).unwrap_or(short),
            runtime_handler: word(CRIO_HANDLER).unwrap_or_default(),
            is_sandbox: word(keys.kind).as_deref() == Some("sandbox"),
            sandbox,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn names(annotations: &str) -> Names {
        let text = format!(r#"{{"annotations":{{{annotations}}}}}"#);
        Names::of("0123456789abcdef", &Outline::parse(&text, Path::new("config.json")).unwrap())
    }

    #[test]
    fn crio_tells_by_annotations_and_the_kubelets_labels() {
        let names = names(
            r#""io.container.manager":"cri-o","io.kubernetes.cri-o.ContainerType":"container",
            "io.kubernetes.cri-o.SandboxID":"s1","io.kubernetes.cri-o.KubeName":"vllm-0",
            "io.kubernetes.cri-o.Namespace":"ml","io.kubernetes.cri-o.RuntimeHandler":"gpu",
            "io.kubernetes.cri-o.Labels":"{\"io.kubernetes.pod.uid\":\"u1\",\"io.kubernetes.container.name\":\"vllm\"}""#,
        );
        assert_eq!(
            (names.manager, names.sandbox.as_str(), names.pod_uid.as_str()),
            (Manager::Crio, "s1", "u1")
        );
        assert_eq!((names.pod_name.as_str(), names.container_name.as_str()), ("vllm-0", "vllm"));
        assert_eq!((names.namespace.as_str(), names.runtime_handler.as_str()), ("ml", "gpu"));
    }

    #[test]
    fn podman_pods_are_sandboxes_and_a_container_alone_is_its_own() {
        let podded = names(
            r#""io.container.manager":"libpod","io.kubernetes.cri-o.SandboxID":"p1",
            "io.kubernetes.cri-o.ContainerType":"container""#,
        );
        assert_eq!((podded.manager, podded.pod_uid.as_str()), (Manager::Podman, "p1"));
        assert_eq!(podded.container_name, "0123456789ab");
        let alone = names(r#""io.container.manager":"libpod""#);
        assert_eq!(
            (alone.sandbox.as_str(), alone.pod_uid.as_str()),
            ("0123456789abcdef", "0123456789abcdef")
        );
        assert_eq!(names(r#""x":"y""#).manager, Manager::Other);
    }

    #[test]
    fn a_sandbox_is_known_by_its_kind() {
        assert!(names(r#""io.kubernetes.cri.container-type":"sandbox""#).is_sandbox);
        assert!(names(r#""io.kubernetes.cri-o.ContainerType":"sandbox""#).is_sandbox);
        assert!(!names(r#""io.kubernetes.cri.container-type":"container""#).is_sandbox);
    }
}
