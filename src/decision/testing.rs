//! A machine and a few pods for this room's tests: two sockets, four nodes of four CPUs (two cores of two
//! threads) and 8 GiB each, GPU-a and GPU-b on node 0, GPU-c and GPU-d on node 2, a NIC on node 0.

use crate::model::*;
use std::collections::BTreeMap;

pub(crate) fn machine() -> Topology {
    let node = |id: u32| NumaNode {
        id: NodeId(id),
        cpus: (id * 4..id * 4 + 4).map(CpuId).collect(),
        memory_bytes: 8 << 30,
        hugepages: BTreeMap::from([(HugepageSize::MIB2, HugepagePool { total: 64, free: 64 })]),
        distances: (0..4).map(|to| (NodeId(to), distance(id, to))).collect(),
    };
    let gpu = |index: u32, uuid: &str, node: u32| Gpu {
        index,
        uuid: Some(uuid.into()),
        pci: format!("0000:{:02x}:00.0", 0x20 + index).parse().unwrap(),
        minor: Some(index ^ 1),
        model: None,
        numa_node: Some(NodeId(node)),
        memory_node: None,
        nvlinks: BTreeMap::new(),
        switch_links: 0,
        near: BTreeMap::new(),
        mig: Vec::new(),
    };
    Topology {
        cpus: (0..16).map(CpuId).collect(),
        packages: (0..2)
            .map(|id| Package { id: PackageId(id), cpus: (id * 8..id * 8 + 8).map(CpuId).collect() })
            .collect(),
        numa_nodes: (0..4).map(node).collect(),
        cores: (0..8)
            .map(|core| Core {
                package: PackageId(core / 4),
                cpus: (core * 2..core * 2 + 2).map(CpuId).collect(),
            })
            .collect(),
        gpus: vec![gpu(0, "GPU-a", 0), gpu(1, "GPU-b", 0), gpu(2, "GPU-c", 2), gpu(3, "GPU-d", 2)],
        nics: vec![Nic {
            name: "mlx5_0".into(),
            pci: Some("0000:51:00.0".parse().unwrap()),
            numa_node: Some(NodeId(0)),
            uverbs: vec![0],
        }],
        ..Topology::default()
    }
}

fn distance(from: u32, to: u32) -> u32 {
    match (from == to, from / 2 == to / 2) {
        (true, _) => 10,
        (_, true) => 12,
        _ => 32,
    }
}

pub(crate) fn pod(name: &str) -> PodFacts {
    PodFacts {
        id: format!("sandbox-{name}"),
        uid: PodUid::new(format!("uid-{name}")),
        name: name.into(),
        namespace: "default".into(),
        annotations: BTreeMap::new(),
        runtime_handler: String::new(),
        cgroup_parent: format!("/kubepods/poduid-{name}"),
        cgroups_path: format!("/kubepods/poduid-{name}/sandbox-{name}"),
        resources: None,
    }
}

pub(crate) fn container(name: &str) -> ContainerFacts {
    ContainerFacts {
        id: ContainerId::new(format!("id-{name}")),
        sandbox: String::new(),
        name: name.into(),
        state: ContainerState::Created,
        annotations: BTreeMap::new(),
        args: Vec::new(),
        env: Vec::new(),
        mounts: Vec::new(),
        devices: Vec::new(),
        cdi_devices: Vec::new(),
        cgroups_path: format!("/kubepods/pod/{name}"),
        oom_score_adj: Some(-997),
        resources: Resources::default(),
        policy_calls: PolicyCalls::Unknown,
        hugepages: HugepageHints::default(),
        pid: None,
    }
}

/// A container of whole CPUs and 1 GiB, as the kubelet encodes it.
pub(crate) fn whole(name: &str, cpus: u64) -> ContainerFacts {
    ContainerFacts { resources: limits(cpus * 1000, 1 << 30), ..container(name) }
}

pub(crate) fn limits(milli: u64, memory: i64) -> Resources {
    Resources {
        shares: Some((milli * 1024 / 1000).max(2)),
        quota: Some(i64::try_from(milli * 100).unwrap()),
        period: Some(100_000),
        memory_limit: Some(memory),
        ..Resources::default()
    }
}

pub(crate) fn settings() -> super::Settings {
    use super::{
        AnnotationPool, CpuAuthority, Exempt, FailurePolicy, Features, GpuPlacement, Ineligible, Mode,
    };
    use super::{Settings, Unrequested};
    Settings {
        mode: Mode::Enforce,
        authority: CpuAuthority::Maitred,
        policy: Policy {
            topology: TopologyPolicy::SingleNumaNode,
            scope: Scope::Container,
            cpu: CpuOptions::default(),
            prefer_closest: false,
            memory: MemoryManager::Static,
            unknown_locality: UnknownLocality::Reject,
        },
        ineligible: Ineligible::Warn,
        failure: FailurePolicy::Reject,
        drop_cfs_quota: true,
        reserved_namespaces: Default::default(),
        reserved: "0".parse().unwrap(),
        memory_policy: Some(MemoryMode::Bind),
        delivery: None,
        launcher: None,
        prove_hugepages: false,
        annotation_pool: AnnotationPool::None,
        gpu_placement: GpuPlacement::Keep,
        gpus_linked: false,
        unrequested: Unrequested::Leave,
        trusted_namespaces: Default::default(),
        exempt: Exempt { namespaces: ["kube-system".to_owned()].into(), ..Exempt::default() },
        features: Features::default(),
    }
}
