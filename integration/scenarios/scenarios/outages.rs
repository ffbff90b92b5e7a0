//! containerd and maitred die and come back; the containers do not notice.

use super::{Lanes, Scenario, usual};
use crate::expect::{self, expected};
use crate::list;
use crate::node::{Node, Seated};
use crate::observe::Seen;
use crate::pod::Pod;
use crate::settings::Settings;
use crate::wait;
use anyhow::Result;

pub const ALL: &[Scenario] = &[
    usual("containerd restarted: nothing lost, maitred is back", Lanes::Both, containerd_restarted),
    usual("maitred killed: nothing lost, the gap is repaired", Lanes::Both, maitred_killed),
    usual("maitred killed: a crashed container gets its CPUs back", Lanes::Both, crashed_before),
    usual("maitred starts with containerd from the plugin directory", Lanes::Native, prelaunched),
];

fn unchanged(node: &Node, pod: &Seated, before: &Seen) -> Result<()> {
    let after = node.look(pod)?;
    expect::same("process", &before.pid, &after.pid)?;
    expect::cpus("after the outage", &before.cpus, &after.cpus)?;
    expect::same("nodes", &before.mems, &after.mems)
}

/// Exclusive CPUs for the first pod that leave room for a second, where the machine has that much.
fn first_share(node: &Node) -> u64 {
    node.machine.widest().min(2)
}

fn containerd_restarted(node: &mut Node) -> Result<()> {
    let count = first_share(node);
    let seated = node.run(Pod::guaranteed("survivor", count, 64))?;
    let before = node.look(&seated)?;
    expect::seated(&node.machine, &before, count)?;
    let shared = node.run(Pod::burstable("shared", 100))?;
    let shared_before = node.look(&shared)?;

    node.containerd.kill()?;
    let mark = node.containerd.mark();
    node.start_containerd()?;
    node.wait_registered(mark)?;
    unchanged(node, &seated, &before)?;
    unchanged(node, &shared, &shared_before)?;

    // What the survivor holds is still known to be taken.
    match node.run(Pod::guaranteed("newcomer", count, 32)) {
        Ok(newcomer) => {
            let seen = node.look(&newcomer)?;
            expect::seated(&node.machine, &seen, count)?;
            expect::apart(&[&before, &seen])
        }
        Err(error) => expect::refused::<Seated>(Err(error), &["TopologyAffinityError"]).map(drop),
    }
}

fn maitred_killed(node: &mut Node) -> Result<()> {
    let widest = node.machine.widest();
    let roomy = node.machine.nodes.len() > 1;
    let shared = node.run(Pod::burstable("shared", 100))?;
    let mut seated = None;
    if roomy {
        let pod = node.run(Pod::guaranteed("survivor", 2, 64))?;
        let seen = node.look(&pod)?;
        expect::seated(&node.machine, &seen, 2)?;
        seated = Some((pod, seen));
    }

    node.stop_maitred()?;
    let gap = node.run(Pod::guaranteed("gap", widest, 64))?;
    let unpinned = node.look(&gap)?;
    expect::cpus("started with maitred away", &node.machine.all_cpus(), &unpinned.cpus)?;
    if let Some((pod, seen)) = &seated {
        unchanged(node, pod, seen)?;
    }

    node.start_maitred(&Settings::ENFORCE)?;
    wait::until_seen(node.patience(), "the pod of the gap is pinned", || {
        let (cpus, others) = (node.look(&gap)?.cpus, node.look(&shared)?.cpus);
        let seen =
            || format!("CPUs {}, and {} of a shared container", list::show(&cpus), list::show(&others));
        Ok((cpus.len() as u64 != widest).then(seen))
    })?;
    let repaired = node.look(&gap)?;
    expect::same("process of the gap's pod", &unpinned.pid, &repaired.pid)?;
    let nodes = node.machine.nodes_of(&repaired.cpus);
    expected!(
        nodes.len() == 1,
        "repaired onto CPUs {} of nodes {}",
        list::show(&repaired.cpus),
        list::show(&nodes)
    );
    if let Some((pod, seen)) = &seated {
        unchanged(node, pod, seen)?;
        expect::apart(&[seen, &repaired])?;
    }
    wait::until_seen(node.patience(), "the shared container has left the repaired CPUs", || {
        let cpus = node.look(&shared)?.cpus;
        Ok((!cpus.is_disjoint(&repaired.cpus)).then(|| format!("CPUs {}", list::show(&cpus))))
    })
}

/// containerd does not speak of stopped containers to a plugin that registers: maitred has to remember.
fn crashed_before(node: &mut Node) -> Result<()> {
    let widest = node.machine.widest();
    let mut seated = node.run(Pod::guaranteed("crashed", widest, 64))?;
    let before = node.look(&seated)?;
    expect::seated(&node.machine, &before, widest)?;
    node.crash(&seated)?;

    node.stop_maitred()?;
    node.start_maitred(&Settings::ENFORCE)?;
    // It would take the lowest free CPUs, which are those where nobody holds them.
    let other = node.run(Pod::guaranteed("other", widest, 32));
    node.restart(&mut seated, 1)?;
    let again = node.look(&seated)?;
    expect::cpus("restarted", &before.cpus, &again.cpus)?;
    expect::same("nodes", &before.mems, &again.mems)?;
    match other {
        Ok(other) => expect::apart(&[&again, &node.look(&other)?]),
        Err(error) => expect::refused::<Seated>(Err(error), &["TopologyAffinityError"]).map(drop),
    }
}

/// Its first container after the start of containerd is pinned: there is no gap to repair.
fn prelaunched(node: &mut Node) -> Result<()> {
    node.prelaunch(Some(&Settings::ENFORCE))?;
    let seated = node.run(Pod::guaranteed("prelaunched", 1, 64));
    let outcome = seated.and_then(|seated| expect::seated(&node.machine, &node.look(&seated)?, 1));
    let cleaned = node.clean();
    node.prelaunch(None)?;
    outcome?;
    cleaned
}
