//! Who a container is, by the annotations that its manager writes into `config.json`.
//!
//! podman and Docker let their users write any annotation, those of Kubernetes' managers too: what would exempt a
//! container is believed of a manager alone that writes it itself.

use super::outline::Outline;
use crate::model::one_line;
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

/// Of a container CRI-O hands the annotations of its pod on, then writes its own over them, and over those the kubelet's
/// labels (`internal/factory/container/container.go`: `SpecAddAnnotations`). `KubeName`, `Namespace` and
/// `RuntimeHandler` are its words about sandboxes alone: of a container they are a tenant's.
const CRIO: Keys = Keys {
    kind: "io.kubernetes.cri-o.ContainerType",
    sandbox: "io.kubernetes.cri-o.SandboxID",
    uid: "io.kubernetes.pod.uid",
    pod_name: "io.kubernetes.pod.name",
    namespace: "io.kubernetes.pod.namespace",
    container_name: "io.kubernetes.container.name",
};

const CRIO_LABELS: &str = "io.kubernetes.cri-o.Labels";
/// podman says `libpod` here, CRI-O `cri-o`.
const CONTAINER_MANAGER: &str = "io.container.manager";

impl Names {
    /// The names of container `id`.
    pub fn of(id: &str, outline: &Outline) -> Self {
        let says = |key: &str| outline.annotation(key).is_some();
        if is_podmans(outline) {
            let pod = outline.annotation(CRIO.sandbox).filter(|pod| !pod.is_empty());
            return Self::outside_kubernetes(Manager::Podman, id, pod.unwrap_or(id));
        }
        if is_dockers(outline) {
            return Self::outside_kubernetes(Manager::Other, id, id);
        }
        // Each writes its own kind over what a pod says; the other's may be the pod's.
        match (says(CONTAINERD.kind) && !is_crios(outline), says(CRIO.kind)) {
            (true, _) => Self::by(&CONTAINERD, Manager::Containerd, id, outline),
            (false, true) => Self::by(&CRIO, Manager::Crio, id, outline),
            (false, false) => Self::outside_kubernetes(Manager::Other, id, id),
        }
    }

    /// Where nothing but the id and the pod's is known.
    fn outside_kubernetes(manager: Manager, id: &str, sandbox: &str) -> Self {
        let short = one_line(&id.chars().take(12).collect::<String>());
        Self {
            manager,
            sandbox: sandbox.to_owned(),
            pod_uid: within_a_name(sandbox),
            pod_name: short.clone(),
            namespace: String::new(),
            container_name: short,
            is_sandbox: false,
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
            word.filter(|word| !word.is_empty()).map(one_line)
        };
        let sandbox = word(keys.sandbox).unwrap_or_else(|| id.to_owned());
        let short = one_line(&id.chars().take(12).collect::<String>());
        Self {
            manager,
            pod_uid: word(keys.uid).unwrap_or_else(|| sandbox.clone()),
            pod_name: word(keys.pod_name).unwrap_or_else(|| short.clone()),
            namespace: word(keys.namespace).unwrap_or_default(),
            container_name: word(keys.container_name).unwrap_or(short),
            // A sandbox's container is called as its sandbox; of no other is the name known beforehand.
            is_sandbox: word(keys.kind).as_deref() == Some("sandbox") && sandbox == id,
            sandbox,
        }
    }
}

/// The cgroup it is to have, which no annotation names, and the last part of that.
fn cgroup(outline: &Outline) -> (&str, &str) {
    let cgroup = outline.linux.as_ref().and_then(|linux| linux.cgroups_path.as_deref()).unwrap_or_default();
    (cgroup, cgroup.trim_end_matches('/').rsplit('/').next().unwrap_or_default())
}

/// By the name of the cgroup: `crio-ID`, or `SLICE:crio:ID`.
fn is_crios(outline: &Outline) -> bool {
    let (_, last) = cgroup(outline);
    last.starts_with("crio-") || last.contains(":crio:")
}

/// Docker's users write any annotation as well. By the cgroup, unless that is told to lie elsewhere.
fn is_dockers(outline: &Outline) -> bool {
    let (cgroup, last) = cgroup(outline);
    cgroup.starts_with("/docker/") || last.contains(":docker:")
}

/// podman says so, unless its user says something else; it names the cgroup as well.
fn is_podmans(outline: &Outline) -> bool {
    let (cgroup, last) = cgroup(outline);
    // containerd hands on what it is told to: below the kubelet's cgroups this one is a tenant's.
    let says_so = outline.annotation(CONTAINER_MANAGER) == Some("libpod") && !cgroup.contains("kubepods");
    says_so || last.starts_with("libpod-") || last.contains(":libpod:")
}

/// An id that is part of a file's name: as it is, where that is no longer than an id of podman or Docker.
fn within_a_name(id: &str) -> String {
    const MOST: usize = 64;
    if id.len() <= MOST {
        return id.to_owned();
    }
    // FNV-1a: two ids that begin alike are told apart.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let begin: String = id.chars().take(32).collect();
    format!("{begin}-{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn names(annotations: &str) -> Names {
        let text = format!(r#"{{"annotations":{{{annotations}}}}}"#);
        Names::of("0123456789abcdef", &Outline::read(&text, Path::new("config.json")).unwrap().0)
    }

    /// containerd hands annotations of pods on that its owner lets through.
    #[test]
    fn a_tenant_is_no_podman() {
        for cgroup in ["kubepods-burstable-podu1.slice:crio:c1", "/kubepods/burstable/podu1/c1"] {
            let text = format!(
                r#"{{"annotations":{{"io.container.manager":"libpod","io.kubernetes.cri-o.ContainerType":"container",
                "io.kubernetes.pod.uid":"u1"}},"linux":{{"cgroupsPath":"{cgroup}"}}}}"#
            );
            let names = Names::of("c1", &Outline::read(&text, Path::new("config.json")).unwrap().0);
            assert_eq!((names.manager, names.pod_uid.as_str()), (Manager::Crio, "u1"), "{cgroup}");
        }
    }

    /// CRI-O writes over none of these, and a namespace may exempt or be trusted.
    #[test]
    fn a_tenant_of_crio_is_in_no_namespace_but_its_own() {
        for cgroup in ["kubepods-podu1.slice:crio:c1", "/kubepods/podu1/crio-c1"] {
            let text = format!(
                r#"{{"annotations":{{"io.kubernetes.cri-o.Namespace":"kube-system","io.kubernetes.cri-o.KubeName":"x",
                "io.kubernetes.cri-o.RuntimeHandler":"exempt","io.kubernetes.cri.container-type":"sandbox",
                "io.kubernetes.cri.sandbox-id":"c1","io.kubernetes.cri.sandbox-namespace":"kube-system",
                "io.container.manager":"cri-o","io.kubernetes.cri-o.ContainerType":"container",
                "io.kubernetes.cri-o.SandboxID":"s1","io.kubernetes.pod.namespace":"default",
                "io.kubernetes.pod.name":"mine"}},"linux":{{"cgroupsPath":"{cgroup}"}}}}"#
            );
            let names = Names::of("c1", &Outline::read(&text, Path::new("config.json")).unwrap().0);
            assert_eq!((names.manager, names.sandbox.as_str()), (Manager::Crio, "s1"), "{cgroup}");
            assert_eq!((names.namespace.as_str(), names.pod_name.as_str()), ("default", "mine"), "{cgroup}");
            assert!(!names.is_sandbox, "{cgroup}");
        }
    }

    #[test]
    fn crio_tells_by_annotations_and_the_kubelets_labels() {
        let names = names(
            r#""io.container.manager":"cri-o","io.kubernetes.cri-o.ContainerType":"container",
            "io.kubernetes.cri-o.SandboxID":"s1","io.kubernetes.pod.name":"vllm-0","io.kubernetes.pod.namespace":"ml",
            "io.kubernetes.cri-o.Labels":"{\"io.kubernetes.pod.uid\":\"u1\",\"io.kubernetes.container.name\":\"vllm\"}""#,
        );
        assert_eq!(
            (names.manager, names.sandbox.as_str(), names.pod_uid.as_str()),
            (Manager::Crio, "s1", "u1")
        );
        assert_eq!((names.pod_name.as_str(), names.container_name.as_str()), ("vllm-0", "vllm"));
        assert_eq!(names.namespace, "ml");
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
    fn a_sandbox_is_known_by_its_kind_and_by_its_name() {
        let of = |kind: &str, sandbox: &str| {
            let (kind_key, id_key) = match kind.split_once(' ') {
                Some(("crio", _)) => (CRIO.kind, CRIO.sandbox),
                _ => (CONTAINERD.kind, CONTAINERD.sandbox),
            };
            let kind = kind.rsplit(' ').next().unwrap();
            names(&format!(r#""{kind_key}":"{kind}","{id_key}":"{sandbox}""#)).is_sandbox
        };
        assert!(of("cri sandbox", "0123456789abcdef") && of("crio sandbox", "0123456789abcdef"));
        assert!(!of("cri container", "0123456789abcdef"));
        assert!(!of("cri sandbox", "another"), "anybody's annotation");
    }

    /// Each of these would exempt it, or keep maitred from looking at it.
    #[test]
    fn what_podmans_users_write_is_not_taken_for_their_managers_word() {
        let id = "0123456789abcdef";
        let forged = format!(
            r#""io.kubernetes.cri.container-type":"sandbox","io.kubernetes.cri.sandbox-id":"{id}",
            "io.kubernetes.cri-o.ContainerType":"sandbox","io.kubernetes.cri-o.SandboxID":"{id}",
            "io.kubernetes.cri.sandbox-namespace":"kube-system","io.kubernetes.pod.namespace":"kube-system",
            "io.kubernetes.container.name":"x""#
        );
        let by_annotation = names(&format!(r#"{forged},"io.container.manager":"libpod""#));
        let text = |path: &str| {
            format!(
                r#"{{"annotations":{{{forged},"io.container.manager":"cri-o"}},"linux":{{"cgroupsPath":"{path}"}}}}"#
            )
        };
        let by_cgroup = ["machine.slice:libpod:0123456789abcdef", "/libpod_parent/libpod-0123456789abcdef"]
            .map(|path| Names::of(id, &Outline::read(&text(path), Path::new("config.json")).unwrap().0));
        for names in by_cgroup.into_iter().chain([by_annotation]) {
            assert_eq!((names.manager, names.is_sandbox), (Manager::Podman, false));
            assert_eq!(names.namespace, "");
            assert_eq!(names.container_name, "0123456789ab");
        }
        for path in ["system.slice:docker:0123456789abcdef", "/docker/0123456789abcdef"] {
            let names = Names::of(id, &Outline::read(&text(path), Path::new("config.json")).unwrap().0);
            assert_eq!(
                (names.manager, names.is_sandbox, names.namespace.as_str()),
                (Manager::Other, false, "")
            );
        }
    }

    #[test]
    fn an_id_of_any_length_can_be_part_of_a_files_name() {
        let long = |last: &str| Names::of(&format!("{}{last}", ".".repeat(300)), &Outline::default());
        assert!(long("a").pod_uid.len() <= 64);
        assert_ne!(long("a").pod_uid, long("b").pod_uid);
        assert_eq!(names("").pod_uid, "0123456789abcdef");
    }
}
