//! What a container that nobody placed asks for.

use crate::cli::node::Node;
use crate::decision::hides_hugepages;
use crate::host::{self, Cgroups, FoundContainer};
use crate::model::{ContainerFacts, ContainerState, HugepageHints, PodFacts, PolicyCalls, Resources};
use crate::oci::{Party, hugepage_hints};
use std::collections::BTreeMap;

/// As a runtime would have shown it when it made it.
pub(super) fn facts(
    node: &Node,
    cgroups: &Cgroups,
    one: &FoundContainer,
) -> Option<(PodFacts, ContainerFacts)> {
    match node.party(one.id.as_str()) {
        Some(Party { pod, mut container, in_kubernetes: true, .. }) => {
            container.hugepages = hugepages(node, cgroups, one, &container);
            Some((pod, container))
        }
        _ => guessed(node, cgroups, one),
    }
}

/// The huge pages that its limits do not tell, where the runtime hides those.
fn hugepages(
    node: &Node,
    cgroups: &Cgroups,
    one: &FoundContainer,
    container: &ContainerFacts,
) -> HugepageHints {
    if !hides_hugepages(container) {
        return HugepageHints::default();
    }
    let pools = node.state.topology().numa_nodes.iter().flat_map(|node| node.hugepages.keys().copied());
    hugepage_hints(cgroups, &pools.collect(), &one.pod_cgroup, &container.mounts).unwrap_or_default()
}

/// As far as its cgroup and its first process tell: no annotations, no huge pages, no devices but those that its
/// environment names.
fn guessed(node: &Node, cgroups: &Cgroups, one: &FoundContainer) -> Option<(PodFacts, ContainerFacts)> {
    let limits = cgroups.limits(&one.cgroups_path).ok()?;
    let pid = cgroups.processes(&one.cgroups_path).ok()?.first().copied()?;
    let (namespace, name) = node.names.pod(&one.pod).and_then(|pod| pod.split_once('/')).unwrap_or_default();
    let pod = PodFacts {
        id: "verify".into(),
        uid: one.pod.clone(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        annotations: BTreeMap::new(),
        runtime_handler: String::new(),
        cgroup_parent: one.pod_cgroup.clone(),
        cgroups_path: String::new(),
        resources: None,
    };
    let milli = limits.cpu_milli;
    let resources = Resources {
        // A Guaranteed container's request is its limit; of others it is not asked for.
        shares: milli.map(|milli| (milli.saturating_mul(1024) / 1000).max(2)),
        quota: milli.map(|milli| i64::try_from(milli.saturating_mul(100)).unwrap_or(i64::MAX)),
        period: milli.map(|_| 100_000),
        memory_limit: limits.memory.and_then(|bytes| i64::try_from(bytes.0).ok()),
        ..Resources::default()
    };
    let container = ContainerFacts {
        id: one.id.clone(),
        sandbox: pod.id.clone(),
        name: node.names.container(&one.id).cloned().unwrap_or_else(|| one.id.as_str().into()),
        state: ContainerState::Running,
        annotations: BTreeMap::new(),
        args: Vec::new(),
        env: host::environment(&node.sysroot, pid).unwrap_or_default(),
        mounts: Vec::new(),
        devices: Vec::new(),
        cdi_devices: Vec::new(),
        cgroups_path: one.cgroups_path.clone(),
        oom_score_adj: host::oom_score_adj(&node.sysroot, pid).ok().flatten(),
        resources,
        policy_calls: PolicyCalls::default(),
        hugepages: HugepageHints::default(),
        pid: Some(pid),
    };
    Some((pod, container))
}
