//! Guaranteed pods get CPUs of their own on one node, and keep them.

use super::{Lanes, Scenario};
use crate::expect::{self, expected};
use crate::list;
use crate::node::Node;
use crate::observe;
use crate::pod::Pod;
use crate::settings::Settings;
use anyhow::Result;

pub const ALL: &[Scenario] = &[
    Scenario { name: "a Guaranteed pod is pinned", lanes: Lanes::Both, settings: Settings::ENFORCE, run: pinned },
    Scenario { name: "two pods never share a CPU", lanes: Lanes::Guest, settings: Settings::ENFORCE, run: never_shared },
    Scenario { name: "a restarted container keeps its CPUs", lanes: Lanes::Both, settings: Settings::ENFORCE, run: restarted },
    Scenario { name: "memory lies on the pod's node", lanes: Lanes::Guest, settings: Settings::ENFORCE, run: memory },
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

fn restarted(node: &mut Node) -> Result<()> {
    let widest = node.machine.widest();
    let mut seated = node.run(Pod::guaranteed("restarted", widest, 64))?;
    let first = node.look(&seated)?;
    expect::seated(&node.machine, &first, widest)?;
    // Any other pod would now take these CPUs, if the pod that lives on did not hold them.
    node.cri.stop_container(&seated.containers[0])?;
    let other = node.run(Pod::guaranteed("other", 1, 32));
    node.restart(&mut seated, 1)?;
    let again = node.look(&seated)?;
    expect::cpus("restarted", &first.cpus, &again.cpus)?;
    match other {
        Ok(other) => expect::apart(&[&again, &node.look(&other)?]),
        Err(_) => expect::refused(other, &["TopologyAffinityError"]).map(drop),
    }
}

fn memory(node: &mut Node) -> Result<()> {
    let seated = node.run(Pod::guaranteed("memory", 2, 128).args(&["hold", "48"]))?;
    let seen = node.look(&seated)?;
    let home = expect::seated(&node.machine, &seen, 2)?;
    let wanted = (48 << 20) / 4096;
    crate::wait::until_seen(node.patience(), "48 MiB are touched", || {
        let pages = observe::pages_by_node(seen.pid, "anon=")?;
        let elsewhere: Vec<_> = pages.iter().filter(|(id, _)| **id != home).collect();
        expected!(elsewhere.is_empty(), "anonymous pages beside node {home}: {elsewhere:?}");
        let here = pages.get(&home).copied().unwrap_or(0);
        Ok((here < wanted).then(|| format!("{here} of {wanted} pages on node {home} ({})", list::show(&seen.cpus))))
    })
}
