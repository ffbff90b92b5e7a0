//! The churn's pods and containers as containerd spells them.

use maitred::model::{ContainerFacts, ContainerState, PodFacts, Resources};
use maitred::nri::proto::{
    self, Container, HugepageLimit, LinuxCPU, LinuxContainer, LinuxMemory, LinuxPodSandbox, LinuxResources,
    OptionalInt, OptionalInt64, OptionalUInt64, PodSandbox,
};
use protobuf::{EnumOrUnknown, MessageField};

pub fn pod(facts: &PodFacts) -> PodSandbox {
    let linux = LinuxPodSandbox {
        cgroup_parent: facts.cgroup_parent.clone(),
        cgroups_path: facts.cgroups_path.clone(),
        pod_resources: facts.resources.as_ref().map(resources).into(),
        ..Default::default()
    };
    PodSandbox {
        id: facts.id.clone(),
        name: facts.name.clone(),
        uid: facts.uid.to_string(),
        namespace: facts.namespace.clone(),
        annotations: facts.annotations.clone().into_iter().collect(),
        linux: MessageField::some(linux),
        ..Default::default()
    }
}

pub fn container(facts: &ContainerFacts) -> Container {
    let linux = LinuxContainer {
        resources: MessageField::some(resources(&facts.resources)),
        oom_score_adj: facts.oom_score_adj.map(|value| OptionalInt { value, ..Default::default() }).into(),
        cgroups_path: facts.cgroups_path.clone(),
        ..Default::default()
    };
    let state = match facts.state {
        ContainerState::Created => proto::ContainerState::CONTAINER_CREATED,
        ContainerState::Stopped => proto::ContainerState::CONTAINER_STOPPED,
        _ => proto::ContainerState::CONTAINER_RUNNING,
    };
    Container {
        id: facts.id.to_string(),
        pod_sandbox_id: facts.sandbox.clone(),
        name: facts.name.to_string(),
        state: EnumOrUnknown::new(state),
        annotations: facts.annotations.clone().into_iter().collect(),
        env: facts.env.clone(),
        linux: MessageField::some(linux),
        ..Default::default()
    }
}

pub fn resources(facts: &Resources) -> LinuxResources {
    let signed = |value| OptionalInt64 { value, ..Default::default() };
    let unsigned = |value| OptionalUInt64 { value, ..Default::default() };
    let cpu = LinuxCPU {
        shares: facts.shares.map(unsigned).into(),
        quota: facts.quota.map(signed).into(),
        period: facts.period.map(unsigned).into(),
        cpus: facts.cpus.clone(),
        mems: facts.mems.clone(),
        ..Default::default()
    };
    let memory = LinuxMemory { limit: facts.memory_limit.map(signed).into(), ..Default::default() };
    let limits = facts.hugepage_limits.iter().map(|(page_size, limit)| HugepageLimit {
        page_size: page_size.clone(),
        limit: *limit,
        ..Default::default()
    });
    LinuxResources {
        cpu: MessageField::some(cpu),
        memory: MessageField::some(memory),
        hugepage_limits: limits.collect(),
        ..Default::default()
    }
}
