//! Pods and containers in all the ways that make them differ.

use super::runtime::VISIBLE;
use maitred::model::*;
use std::collections::BTreeMap;

/// A pod of some class, with one of the things that make pods differ.
pub fn pod(number: u32, class: u8, flavour: u8) -> PodFacts {
    let parent = match class {
        0 | 1 => "/kubepods",
        2 => "/kubepods/burstable",
        _ => "/kubepods/besteffort",
    };
    let mut pod = PodFacts {
        id: format!("sandbox-{number}"),
        uid: PodUid::new(format!("uid-{number}")),
        name: format!("p{number}"),
        namespace: "default".into(),
        annotations: BTreeMap::new(),
        runtime_handler: String::new(),
        cgroup_parent: format!("{parent}/poduid-{number}"),
        cgroups_path: String::new(),
        resources: None,
    };
    let mut note = |key: &str, value: &str| drop(pod.annotations.insert(key.to_owned(), value.to_owned()));
    match flavour {
        1 => pod.namespace = "kube-system".into(),
        2 => note("gpus.maitred.io", "1"),
        3 => note("gpus.maitred.io", "all"),
        4 => note("exclusive.maitred.io", "false"),
        5 => note("polcy.maitred.io", "none"),
        6 => pod.namespace = "reserved".into(),
        7 => note("kubernetes.io/config.source", "file"),
        8 => note("gpus.maitred.io/container.c0", "2"),
        9 => note("policy.maitred.io", "best-effort"),
        10 => {
            note("policy.maitred.io", "best-effort");
            pod.namespace = "trusted".into();
        }
        11 => pod.resources = Some(limits(6000, 4 << 30)),
        _ => {}
    }
    pod
}

/// An attempt of the pod's container of that number.
pub fn container(number: u32, pod: &PodFacts, name: u8, ask: u8) -> ContainerFacts {
    let resources = match ask {
        0 => limits(100, 0),
        1 => limits(1500, 1 << 30),
        2 => limits(1000, 1 << 20),
        3 | 4 => limits(2000, 1 << 30),
        5 | 6 => limits(4000, 1 << 30),
        7 => limits(3000, 6 << 30),
        8 => limits(64_000, 1 << 30),
        _ => Resources { hugepage_limits: vec![("2MB".into(), 32 << 20)], ..limits(2000, 1 << 30) },
    };
    let env = match (ask, number % 3) {
        (4, 0) => vec![format!("{VISIBLE}=GPU-0")],
        (4, 1) => vec![format!("{VISIBLE}=all")],
        (6, 0) => vec![format!("{VISIBLE}=1")],
        _ => Vec::new(),
    };
    ContainerFacts {
        id: ContainerId::new(format!("c{number}")),
        sandbox: pod.id.clone(),
        name: ContainerName::new(format!("c{name}")),
        state: ContainerState::Running,
        annotations: BTreeMap::new(),
        args: Vec::new(),
        env,
        mounts: Vec::new(),
        devices: Vec::new(),
        cdi_devices: Vec::new(),
        cgroups_path: format!("{}/c{number}", pod.cgroup_parent),
        oom_score_adj: Some(if pod.cgroup_parent.starts_with("/kubepods/pod") { -997 } else { 900 }),
        resources,
        policy_calls: PolicyCalls::Unknown,
        hugepages: HugepageHints::default(),
        pid: None,
    }
}

fn limits(milli: u64, memory: i64) -> Resources {
    Resources {
        shares: Some((milli * 1024 / 1000).max(2)),
        quota: Some(i64::try_from(milli * 100).unwrap()),
        period: Some(100_000),
        memory_limit: Some(memory),
        ..Resources::default()
    }
}
