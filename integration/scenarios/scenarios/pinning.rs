//! Guaranteed pods get CPUs of their own on one node, and keep them.

use super::{Lanes, Scenario, run_together, usual};
use crate::cgroup;
use crate::expect::{self, expected};
use crate::node::{Node, Seated};
use crate::observe;
use crate::pod::{MIB, Pod};
use crate::wait;
use anyhow::Result;

pub const ALL: &[Scenario] = &[
    usual("a Guaranteed pod is pinned", Lanes::Native, pinned),
    usual("two pods never share a CPU", Lanes::Guest, never_shared),
    usual("parallel creates never share", Lanes::Both, parallel),
    usual("a restarted container keeps its CPUs", Lanes::Both, restarted),
    usual("an update cannot undo a placement", Lanes::Both, updated),
    usual("memory lies on the pod's node", Lanes::Guest, memory),
    usual("containers of a pod sit on one node", Lanes::Guest, pod_scope),
    usual("the pod's own quota goes where no CPU of it is shared", Lanes::Both, pod_quota),
];

fn pinned(node: &mut Node) -> Result<()> {
    let widest = node.machine.widest();
    let seated = node.run(Pod::guaranteed("pinned", widest, 64))?;
    let seen = node.look(&seated)?;
    expect::seated(&node.machine, &seen, widest)?;
    expected!(seen.cpu_max.starts_with("max "), "CPUs of its own, and still a quota: {}", seen.cpu_max);
    Ok(())
}

fn never_shared(node: &mut Node) -> Result<()> {
    let mut all = Vec::new();
    for name in ["first", "second", "third"] {
        let seated = node.run(Pod::guaranteed(name, 2, 64))?;
        let seen = node.look(&seated)?;
        expect::seated(&node.machine, &seen, 2)?;
        all.push(seen);
    }
    expect::apart(&all.iter().collect::<Vec<_>>())
}

/// More pods at once than there is room for: exactly those that fit start, each on CPUs of its own.
fn parallel(node: &mut Node) -> Result<()> {
    let widest = node.machine.widest();
    let room = |id| node.machine.exclusive_cpus(id).len() as u64 / widest;
    let room: u64 = node.machine.nodes.iter().map(|numa| room(numa.id)).sum();
    let pods = (0..room + 2).map(|n| Pod::guaranteed(&format!("parallel-{n}"), widest, 32)).collect();
    let mut seen = Vec::new();
    let mut refused = 0;
    for outcome in run_together(node, pods) {
        match outcome {
            Ok(seated) => seen.push(node.look(&seated)?),
            Err(error) => {
                expect::refused::<Seated>(Err(error), &["TopologyAffinityError"])?;
                refused += 1;
            }
        }
    }
    for one in &seen {
        expect::seated(&node.machine, one, widest)?;
    }
    expect::apart(&seen.iter().collect::<Vec<_>>())?;
    expect::same("pods (started, refused)", &(room, 2), &(seen.len() as u64, refused))
}

fn restarted(node: &mut Node) -> Result<()> {
    let widest = node.machine.widest();
    let mut seated = node.run(Pod::guaranteed("restarted", widest, 64))?;
    let first = node.look(&seated)?;
    expect::seated(&node.machine, &first, widest)?;
    node.cri.stop_container(&seated.containers[0])?;
    // Another pod would take the lowest free CPUs: those, if the pod that lives on did not hold them.
    let other = node.run(Pod::guaranteed("other", widest, 32));
    node.restart(&mut seated, 1)?;
    let again = node.look(&seated)?;
    expect::cpus("restarted", &first.cpus, &again.cpus)?;
    match other {
        Ok(other) => expect::apart(&[&again, &node.look(&other)?]),
        Err(error) => expect::refused::<Seated>(Err(error), &["TopologyAffinityError"]).map(drop),
    }
}

/// The kubelet's static CPU manager writes cpusets by UpdateContainerResources; so does an operator.
fn updated(node: &mut Node) -> Result<()> {
    let widest = node.machine.widest();
    let seated = node.run(Pod::guaranteed("updated", widest, 64))?;
    let before = node.look(&seated)?;
    expect::seated(&node.machine, &before, widest)?;
    let shared = node.run(Pod::burstable("shared", 100))?;
    let shared_before = node.look(&shared)?;
    expect::apart(&[&before, &shared_before])?;
    for (pod, container) in [(&seated.pod, &seated.containers[0]), (&shared.pod, &shared.containers[0])] {
        let mut resources = crate::kubelet::container_resources(pod, &pod.containers[0]);
        resources.cpuset_cpus = crate::list::show(&node.machine.all_cpus());
        resources.cpuset_mems = crate::list::show(&node.machine.nodes.iter().map(|numa| numa.id).collect());
        node.cri.update_container(container, resources)?;
    }
    let after = node.look(&seated)?;
    expect::cpus("after an update", &before.cpus, &after.cpus)?;
    expect::same("nodes after an update", &before.mems, &after.mems)?;
    expect::same("quota after an update", &before.cpu_max, &after.cpu_max)?;
    let shared_after = node.look(&shared)?;
    expect::cpus("shared, after an update", &shared_before.cpus, &shared_after.cpus)
}

fn memory(node: &mut Node) -> Result<()> {
    const HELD: u64 = 48;
    let pod = Pod::guaranteed("memory", 2, 128).args(&["hold", &HELD.to_string()]);
    let seated = node.run(pod)?;
    let seen = node.look(&seated)?;
    let home = expect::seated(&node.machine, &seen, 2)?;
    let wanted = HELD * MIB / 4096;
    wait::until_seen(node.patience(), "the memory is touched", || {
        let pages = observe::pages_by_node(seen.pid, "anon=")?;
        let here = pages.get(&home).copied().unwrap_or(0);
        Ok((here < wanted).then(|| format!("{pages:?}, wanted {wanted} pages on node {home}")))
    })?;
    let pages = observe::pages_by_node(seen.pid, "anon=")?;
    expected!(pages.keys().all(|id| *id == home), "anonymous pages beside node {home}: {pages:?}");
    Ok(())
}

/// Scope pod: a pod's containers share its one node, each on CPUs of its own.
fn pod_scope(node: &mut Node) -> Result<()> {
    let pod = Pod::guaranteed("together", 2, 64).with_container("side", Pod::guaranteed("side", 2, 64));
    let seated = node.run(pod)?;
    let (main, side) = (node.look(&seated)?, node.look_at(&seated.containers[1])?);
    let home = expect::seated(&node.machine, &main, 2)?;
    expect::same("node of the second container", &home, &expect::seated(&node.machine, &side, 2)?)?;
    expect::apart(&[&main, &side])
}

/// A quota on the pod's cgroup throttles its containers as their own would; where one of them runs on
/// shared CPUs it is what holds that one back.
fn pod_quota(node: &mut Node) -> Result<()> {
    let mixed = Pod::guaranteed("mixed", 1, 64)
        .with_container("side", Pod::guaranteed("side", 1, 64).milli_cpus(500));
    let mixed = node.run(mixed)?;
    let path = mixed.pod.cgroup_parent();
    let before = cgroup::cpu_max(&path)?;
    expect::same("quota of the mixed pod", &"150000 100000".to_owned(), &before)?;
    // Natively there is one CPU to give; the pod's cgroup stays to be looked at.
    node.cri.stop_pod_sandbox(&mixed.sandbox)?;

    let whole = node.run(Pod::guaranteed("whole", 1, 64))?;
    let own = whole.pod.cgroup_parent();
    // maitred takes quotas away one after the other: had it the mixed pod's in mind, that was first.
    wait::until_seen(node.patience(), "the pod's own quota is gone", || {
        let quota = cgroup::cpu_max(&own)?;
        Ok((!quota.starts_with("max ")).then_some(quota))
    })?;
    expect::same("quota of the mixed pod", &before, &cgroup::cpu_max(&path)?)
}
