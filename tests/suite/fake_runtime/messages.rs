//! Messages as containerd fills them.

use maitred::nri::proto::{
    Container, LinuxCPU, LinuxContainer, LinuxPodSandbox, LinuxResources, OptionalInt, OptionalInt64,
    OptionalUInt64, PodRequest, PodSandbox,
};
use protobuf::MessageField;

/// A sandbox in the cgroup a kubelet makes for a Guaranteed pod.
pub fn guaranteed_pod(name: &str) -> PodSandbox {
    let linux = LinuxPodSandbox { cgroup_parent: format!("/kubepods/poduid-{name}"), ..Default::default() };
    PodSandbox {
        id: format!("sandbox-{name}"),
        name: name.into(),
        uid: format!("uid-{name}"),
        namespace: "default".into(),
        linux: MessageField::some(linux),
        ..Default::default()
    }
}

/// The request of a sandbox event.
pub fn pod_request(name: &str) -> PodRequest {
    PodRequest { pod: MessageField::some(guaranteed_pod(name)), ..Default::default() }
}

/// A container of four whole CPUs and 256 MiB.
pub fn container(id: &str) -> Container {
    let cpu = LinuxCPU {
        shares: MessageField::some(OptionalUInt64 { value: 4096, ..Default::default() }),
        quota: MessageField::some(OptionalInt64 { value: 400_000, ..Default::default() }),
        period: MessageField::some(OptionalUInt64 { value: 100_000, ..Default::default() }),
        ..Default::default()
    };
    let linux = LinuxContainer {
        resources: MessageField::some(LinuxResources { cpu: MessageField::some(cpu), ..Default::default() }),
        oom_score_adj: MessageField::some(OptionalInt { value: -997, ..Default::default() }),
        cgroups_path: format!("/kubepods/poduid-p/{id}"),
        ..Default::default()
    };
    Container {
        id: id.into(),
        pod_sandbox_id: "sandbox-p".into(),
        name: format!("name-{id}"),
        linux: MessageField::some(linux),
        ..Default::default()
    }
}
