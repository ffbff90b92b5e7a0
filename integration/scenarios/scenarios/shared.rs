//! Containers without CPUs of their own: they lose what is given out and regain what comes back.

use super::{Lanes, Scenario, usual};
use crate::cgroup;
use crate::expect;
use crate::list::{self, Set};
use crate::node::{Node, Seated};
use crate::pod::Pod;
use crate::wait;
use anyhow::Result;

pub const ALL: &[Scenario] = &[
    usual("a shared container loses and regains CPUs", Lanes::Both, loses_and_regains),
    usual("a stopped container's CPUs are lent", Lanes::Native, lent),
    usual("a shared container with a stale cpuset is corrected", Lanes::Both, stale),
];

/// Waits until the pod's container may use exactly `wanted`.
fn becomes(node: &Node, shared: &Seated, wanted: &Set) -> Result<()> {
    let what = format!("the shared container has CPUs {}", list::show(wanted));
    wait::until_seen(node.patience(), &what, || {
        let cpus = node.look(shared)?.cpus;
        Ok((cpus != *wanted).then(|| list::show(&cpus)))
    })
}

fn loses_and_regains(node: &mut Node) -> Result<()> {
    let all = node.machine.all_cpus();
    let widest = node.machine.widest();
    let early = node.run(Pod::burstable("early", 200))?;
    let before = node.look(&early)?;
    expect::cpus("shared, alone on the node", &all, &before.cpus)?;

    let exclusive = node.run(Pod::guaranteed("exclusive", widest, 64))?;
    let taken = node.look(&exclusive)?;
    expect::seated(&node.machine, &taken, widest)?;
    let rest = &all - &taken.cpus;
    becomes(node, &early, &rest)?;
    let late = node.run(Pod::best_effort("late"))?;
    becomes(node, &late, &rest)?;
    expect::same("nodes of the shared container", &before.mems, &node.look(&early)?.mems)?;

    node.remove(&exclusive)?;
    becomes(node, &early, &all)?;
    becomes(node, &late, &all)
}

fn lent(node: &mut Node) -> Result<()> {
    let all = node.machine.all_cpus();
    let widest = node.machine.widest();
    let shared = node.run(Pod::burstable("shared", 200))?;
    let mut exclusive = node.run(Pod::guaranteed("exclusive", widest, 64))?;
    let taken = node.look(&exclusive)?;
    expect::seated(&node.machine, &taken, widest)?;
    let rest = &all - &taken.cpus;
    becomes(node, &shared, &rest)?;
    node.cri.stop_container(&exclusive.containers[0])?;
    becomes(node, &shared, &all)?;
    node.restart(&mut exclusive, 1)?;
    expect::cpus("taken back", &taken.cpus, &node.look(&exclusive)?.cpus)?;
    becomes(node, &shared, &rest)
}

/// An update that containerd lost leaves a cgroup behind the times; the next start finds it.
fn stale(node: &mut Node) -> Result<()> {
    let all = node.machine.all_cpus();
    let shared = node.run(Pod::burstable("shared", 200))?;
    let exclusive = node.run(Pod::guaranteed("exclusive", 1, 64))?;
    let taken = node.look(&exclusive)?;
    expect::seated(&node.machine, &taken, 1)?;
    let rest = &all - &taken.cpus;
    becomes(node, &shared, &rest)?;

    cgroup::set_cpus(&node.look(&shared)?.cgroup, &all)?;
    expect::cpus("shared, its update lost", &all, &node.look(&shared)?.cpus)?;
    node.run(Pod::best_effort("next"))?;
    becomes(node, &shared, &rest)?;
    expect::cpus("exclusive", &taken.cpus, &node.look(&exclusive)?.cpus)
}
