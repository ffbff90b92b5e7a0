//! `config.json` to facts: who the container is, what pod it is part of, what it asks for.
//!
//! In Kubernetes the manager's annotations name pod and container, and the cgroup's parent tells the class, as the
//! kubelet made it. Outside Kubernetes there is neither, and the rules are those Kubernetes has for limits without
//! requests: what is limited is requested as well. So a container with a CPU limit and a memory limit
//! (`podman run --cpus 4 --memory 8g`) is Guaranteed, one with some of them Burstable; shares that say something
//! else than the CPU limit are a request of its own, and make it Burstable. Its pod are the containers of one
//! sandbox, or it alone. Core rules read a class off the cgroup parent's name only, so it is said in that language.

use super::names::Names;
use super::outline::{Outline, Resources as Limits, Seccomp};
use crate::decision::CDI_ANNOTATION;
use crate::ledger::RECORD_ANNOTATION;
use crate::model::{
    ContainerFacts, ContainerId, ContainerKey, ContainerName, ContainerState, DeviceNode, HugepageHints,
    MountFacts, PodFacts, PodUid, PolicyCalls, Resources, SeccompRule,
};
use oci_spec::runtime::{LinuxDeviceCgroup, LinuxDeviceType};
use std::collections::BTreeMap;

/// The kernel's and every runtime's default.
const DEFAULT_PERIOD: u64 = 100_000;

/// A container as its `config.json` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// Its pod.
    pub pod: PodFacts,
    /// Itself.
    pub container: ContainerFacts,
    /// A pod's own container that only holds its namespaces.
    pub is_sandbox: bool,
    /// Part of a pod of Kubernetes.
    pub in_kubernetes: bool,
    /// The record that came with it.
    pub carries: Option<String>,
}

/// The annotation by which the kubelet says where a pod is from.
const STATIC_POD: &str = "kubernetes.io/config.source";

/// The annotation by which a pod asks for a memory policy; what follows says for which container.
const MEMORY_POLICY: &str = "memory-policy.maitred.io";

impl Party {
    /// What it goes by in the books.
    pub(super) fn key(&self) -> ContainerKey {
        ContainerKey::new(self.pod.uid.clone(), self.container.name.clone())
    }

    /// Whether its pod asks for a memory policy of its own.
    pub(super) fn asks_for_policy(&self) -> bool {
        self.pod.annotations.keys().any(|key| key.starts_with(MEMORY_POLICY))
    }
}

/// Reads the facts of container `id`.
pub(super) fn party(id: &str, outline: &Outline) -> Party {
    let names = Names::of(id, outline);
    let in_kubernetes = names.in_kubernetes();
    let linux = outline.linux.as_ref();
    let cgroups_path = linux.and_then(|linux| linux.cgroups_path.clone()).unwrap_or_default();
    let mut resources = linux.and_then(|linux| linux.resources.as_ref()).map(resources).unwrap_or_default();
    let mut cgroup_parent = parent(&cgroups_path).to_owned();
    if !in_kubernetes {
        cgroup_parent = class_of(&mut resources, &names.pod_uid);
    }
    let (mut pod_annotations, carries) = annotations(outline);
    if !in_kubernetes {
        // The kubelet's word about a static pod; here anybody may have written it.
        pod_annotations.remove(STATIC_POD);
    }
    let by_cdi = cdi_annotations(&pod_annotations);
    let process = outline.process.as_ref();
    let devices = linux.and_then(|linux| linux.devices.as_deref()).unwrap_or_default();
    Party {
        pod: PodFacts {
            id: names.sandbox.clone(),
            uid: PodUid::new(names.pod_uid),
            name: names.pod_name,
            namespace: names.namespace,
            annotations: pod_annotations,
            // No runtime is told it: CRI-O writes it about sandboxes alone.
            runtime_handler: String::new(),
            cgroup_parent,
            cgroups_path: String::new(),
            resources: None,
        },
        container: ContainerFacts {
            id: ContainerId::new(id),
            sandbox: names.sandbox,
            name: ContainerName::new(names.container_name),
            state: ContainerState::Unknown,
            annotations: by_cdi,
            args: process.and_then(|process| process.args.clone()).unwrap_or_default(),
            env: process.and_then(|process| process.env.clone()).unwrap_or_default(),
            mounts: outline.mounts.iter().flatten().map(mount).collect(),
            devices: devices.iter().filter(|device| device.typ() != LinuxDeviceType::B).map(device).collect(),
            cdi_devices: Vec::new(),
            cgroups_path,
            oom_score_adj: process.and_then(|process| process.oom_score_adj),
            resources,
            policy_calls: policy_calls(linux.and_then(|linux| linux.seccomp.as_ref())),
            hugepages: HugepageHints::default(),
            pid: None,
        },
        is_sandbox: names.is_sandbox,
        in_kubernetes,
        carries,
    }
}

/// What a `cgroupsPath` lies in: a directory, or a slice.
pub(super) fn parent(cgroups_path: &str) -> &str {
    match cgroups_path.strip_prefix('/') {
        Some(_) => cgroups_path.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent),
        None => cgroups_path.split_once(':').map_or("", |(slice, _)| slice),
    }
}

/// Whoever wrote the annotations of the bundle, our own keys are not for the rules on pods.
fn annotations(outline: &Outline) -> (BTreeMap<String, String>, Option<String>) {
    let mut annotations = outline.annotations.clone().unwrap_or_default();
    let carries = annotations.remove(RECORD_ANNOTATION);
    (annotations, carries)
}

/// Those by which a container comes by devices: the runtimes take them from here.
fn cdi_annotations(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let cdi = all.iter().filter(|(key, _)| key.starts_with(CDI_ANNOTATION));
    cdi.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn resources(limits: &Limits) -> Resources {
    let cpu = limits.cpu.clone().unwrap_or_default();
    let huge = limits.hugepage_limits.iter().flatten();
    Resources {
        every_device: limits.devices.iter().flatten().any(allows_everything),
        shares: cpu.shares(),
        quota: cpu.quota(),
        period: cpu.period(),
        cpus: cpu.cpus().clone().unwrap_or_default(),
        mems: cpu.mems().clone().unwrap_or_default(),
        memory_limit: limits.memory.as_ref().and_then(oci_spec::runtime::LinuxMemory::limit),
        // A limit below zero is none.
        hugepage_limits: huge
            .filter_map(|huge| Some((huge.page_size().clone(), u64::try_from(huge.limit()).ok()?)))
            .collect(),
    }
}

/// The one device rule of a privileged container.
fn allows_everything(rule: &LinuxDeviceCgroup) -> bool {
    let any = |number: Option<i64>| number.is_none_or(|number| number < 0);
    let any_kind = matches!(rule.typ(), None | Some(LinuxDeviceType::A));
    let writes = rule.access().as_deref().is_some_and(|access| access.contains('w'));
    rule.allow() && any_kind && any(rule.major()) && any(rule.minor()) && writes
}

/// The class by the rules above, as the cgroup parent of a pod of that class; requests are filled in.
fn class_of(resources: &mut Resources, uid: &str) -> String {
    let period = resources.period.filter(|period| *period > 0).unwrap_or(DEFAULT_PERIOD);
    let quota = resources.quota.and_then(|quota| u64::try_from(quota).ok()).filter(|quota| *quota > 0);
    let limited = quota.map(|quota| quota.saturating_mul(1000) / period);
    let requested = resources.shares.filter(|shares| *shares > 0);
    let memory = resources.memory_limit.is_some_and(|limit| limit > 0);
    if let (Some(milli), None) = (limited, requested) {
        resources.period = Some(period);
        resources.shares = Some((milli.saturating_mul(1024) / 1000).max(2));
    }
    let equal = match (limited, requested) {
        (Some(_), None) => true,
        (Some(milli), Some(shares)) => shares == milli.saturating_mul(1024) / 1000,
        (None, _) => false,
    };
    match (equal && memory, limited.is_some() || requested.is_some() || memory) {
        (true, _) => format!("/kubepods/pod{uid}"),
        (false, true) => format!("/kubepods/burstable/pod{uid}"),
        (false, false) => format!("/kubepods/besteffort/pod{uid}"),
    }
}

/// The filter here is the one that will be loaded: what capabilities change of it has been worked in.
fn policy_calls(filter: Option<&Seccomp>) -> PolicyCalls {
    let Some(filter) = filter else { return PolicyCalls::Allowed };
    let rules = filter.syscalls.iter().flatten().map(|rule| SeccompRule {
        action: &rule.action,
        conditional: rule.args.as_ref().is_some_and(|args| !args.is_empty()),
        names: rule.names.iter().map(String::as_str).collect(),
    });
    PolicyCalls::by_filter(&filter.default_action, rules)
}

fn mount(mount: &oci_spec::runtime::Mount) -> MountFacts {
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    MountFacts {
        source: mount.source().as_deref().map(text).unwrap_or_default(),
        destination: text(mount.destination()),
    }
}

fn device(device: &oci_spec::runtime::LinuxDevice) -> DeviceNode {
    let path = device.path().to_string_lossy().into_owned();
    DeviceNode { path, major: device.major(), minor: device.minor() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn of(text: &str) -> Party {
        party("c1", &Outline::read(text, Path::new("config.json")).unwrap().0)
    }

    fn limits(cpu: &str, rest: &str) -> Party {
        of(&format!(r#"{{"linux":{{"cgroupsPath":"/x/c1","resources":{{"cpu":{{{cpu}}}{rest}}}}}}}"#))
    }

    const MEMORY: &str = r#","memory":{"limit":1073741824}"#;

    #[test]
    fn outside_kubernetes_limits_are_requests() {
        let whole = limits(r#""quota":400000,"period":100000"#, MEMORY);
        assert_eq!(whole.pod.cgroup_parent, "/kubepods/podc1");
        assert_eq!(whole.container.resources.shares, Some(4096));
        let agreed = limits(r#""quota":400000,"period":100000,"shares":4096"#, MEMORY);
        assert_eq!(agreed.pod.cgroup_parent, "/kubepods/podc1");
        // No period is the kernel's, no shares and shares of zero are none.
        let bare = limits(r#""quota":200000,"shares":0"#, MEMORY);
        assert_eq!(
            (bare.container.resources.shares, bare.container.resources.period),
            (Some(2048), Some(100_000))
        );
        assert_eq!(bare.pod.cgroup_parent, "/kubepods/podc1");
    }

    #[test]
    fn outside_kubernetes_less_than_both_limits_is_burstable_and_none_best_effort() {
        for (cpu, rest) in [
            (r#""quota":400000,"period":100000"#, ""),
            (r#""quota":400000,"period":100000,"shares":1024"#, MEMORY),
            (r#""quota":-1"#, MEMORY),
            (r#""shares":1024"#, ""),
        ] {
            assert_eq!(limits(cpu, rest).pod.cgroup_parent, "/kubepods/burstable/podc1", "{cpu}{rest}");
        }
        assert_eq!(limits("", "").pod.cgroup_parent, "/kubepods/besteffort/podc1");
        assert_eq!(of("{}").pod.cgroup_parent, "/kubepods/besteffort/podc1");
    }

    #[test]
    fn a_privileged_container_is_one_that_may_use_every_device() {
        let may =
            |rules: &str| limits("", &format!(r#","devices":[{rules}]"#)).container.resources.every_device;
        assert!(may(r#"{"allow":true,"access":"rwm"}"#));
        assert!(may(
            r#"{"allow":false,"access":"rwm"},{"allow":true,"type":"a","major":-1,"minor":-1,"access":"rwm"}"#
        ));
        assert!(!may(
            r#"{"allow":false,"access":"rwm"},{"allow":true,"type":"c","major":195,"access":"rw"}"#
        ));
        assert!(!may(""));
    }

    #[test]
    fn a_container_of_a_pod_of_containerd_has_its_names_and_the_kubelets_class() {
        let party = of(r#"{"annotations":{"io.kubernetes.cri.container-type":"container",
            "io.kubernetes.cri.sandbox-id":"s1","io.kubernetes.cri.sandbox-uid":"u1",
            "io.kubernetes.cri.sandbox-name":"vllm-0","io.kubernetes.cri.sandbox-namespace":"ml",
            "io.kubernetes.cri.container-name":"vllm","policy.maitred.io":"restricted",
            "allocation.maitred.io":"{}"},
            "linux":{"cgroupsPath":"kubepods-burstable-podu1.slice:cri-containerd:c1",
            "resources":{"cpu":{"quota":-1,"shares":2}}}}"#);
        assert!(party.in_kubernetes && !party.is_sandbox);
        assert_eq!((party.pod.id.as_str(), party.pod.uid.as_str()), ("s1", "u1"));
        assert_eq!((party.pod.name.as_str(), party.pod.namespace.as_str()), ("vllm-0", "ml"));
        assert_eq!((party.container.name.as_str(), party.container.sandbox.as_str()), ("vllm", "s1"));
        assert_eq!(party.pod.cgroup_parent, "kubepods-burstable-podu1.slice");
        assert_eq!(party.container.resources.quota, Some(-1));
        assert_eq!(party.pod.annotations["policy.maitred.io"], "restricted");
        assert!(!party.pod.annotations.keys().any(|key| key == "allocation.maitred.io"));
        assert_eq!(party.carries.as_deref(), Some("{}"));
    }

    #[test]
    fn devices_mounts_environment_and_hugepages_come_along() {
        let party = of(r#"{"process":{"env":["A=1"],"oomScoreAdj":-5},
            "mounts":[{"destination":"/dev/shm","type":"tmpfs"},{"destination":"/d","source":"/s"}],
            "linux":{"cgroupsPath":"/a/b/c1/","devices":[{"path":"/dev/nvidia0","type":"c","major":195,"minor":0}],
            "resources":{"hugepageLimits":[{"pageSize":"2MB","limit":4194304},{"pageSize":"1GB","limit":-1}]}}}"#);
        let container = party.container;
        assert_eq!((container.env, container.oom_score_adj), (vec!["A=1".to_owned()], Some(-5)));
        assert_eq!(container.mounts[1], MountFacts { source: "/s".into(), destination: "/d".into() });
        assert_eq!(container.devices, [DeviceNode { path: "/dev/nvidia0".into(), major: 195, minor: 0 }]);
        assert_eq!(container.resources.hugepage_limits, [("2MB".to_owned(), 4 << 20)]);
        assert_eq!(parent(&container.cgroups_path), "/a/b");
    }
}
