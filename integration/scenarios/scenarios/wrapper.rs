//! The ways in without a plugin, by the runtime classes of `hooks/containerd`: the wrapper, and hooks.

use super::{Lanes, Scenario, usual};
use crate::classes::{CRUN, HOOKED, NEXT_RUNC, WRAPPED};
use crate::expect::{self, expected};
use crate::node::{Node, Seated};
use crate::observe;
use crate::pod::Pod;
use crate::wait;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

pub const ALL: &[Scenario] = &[
    usual("the wrapper pins pods of its runtime class", Lanes::Both, pinned),
    usual("hooks of a base specification pin pods of their runtime class", Lanes::Both, hooked),
    usual("the wrapper and the plugin never give a CPU twice", Lanes::Native, beside_the_plugin),
    usual("behind the wrapper runc inherits a memory policy, or sets it", Lanes::Guest, policies),
    usual("behind the wrapper hugepages come from the node", Lanes::Guest, hugepages),
];

/// The plugin is gone, so only the wrapper can have done it.
fn pinned(node: &mut Node) -> Result<()> {
    node.stop_maitred()?;
    seats_one_after_the_other(node, WRAPPED)
}

fn seats_one_after_the_other(node: &Node, class: &'static str) -> Result<()> {
    let widest = node.machine.widest();
    // As many as there are nodes with so many CPUs; the last of them leaves no room.
    let rooms =
        node.machine.nodes.iter().filter(|numa| node.machine.exclusive_cpus(numa.id).len() as u64 == widest);
    let pod = |name: &str| Pod::guaranteed(name, widest, 64).handler(class);
    let mut seated = Vec::new();
    for number in 0..rooms.count() {
        let one = node.run(pod(&format!("seated-{number}")))?;
        let seen = node.look(&one)?;
        expect::seated(&node.machine, &seen, widest)?;
        seated.push((one, seen));
    }
    expect::apart(&seated.iter().map(|(_, seen)| seen).collect::<Vec<_>>())?;
    expect::refused::<Seated>(node.run(pod("too-many")), &["TopologyAffinityError: container main"])?;
    let (first, before) = seated.first().context("a node with CPUs to give")?;
    node.remove(first)?;
    let next = node.run(pod("next"))?;
    expect::cpus("the next one", &before.cpus, &node.look(&next)?.cpus)
}

/// A runtime shows its user a hook's standard error: the refusal is seen here too.
fn hooked(node: &mut Node) -> Result<()> {
    node.stop_maitred()?;
    seats_one_after_the_other(node, HOOKED)
}

/// What the wrapper gave the plugin gives to nobody, and the other way round; where both see a container the plugin
/// decides and the wrapper leaves it there.
fn beside_the_plugin(node: &mut Node) -> Result<()> {
    let widest = node.machine.widest();
    let both = node.run(Pod::guaranteed("both", widest, 64).handler(WRAPPED))?;
    expect::seated(&node.machine, &node.look(&both)?, widest)?;
    node.remove(&both)?;

    node.stop_maitred()?;
    let wrapped = node.run(Pod::guaranteed("wrapped", widest, 64).handler(WRAPPED))?;
    expect::seated(&node.machine, &node.look(&wrapped)?, widest)?;
    node.start_maitred(&crate::settings::Settings::ENFORCE)?;
    expect::refused::<Seated>(node.run(Pod::guaranteed("plain", widest, 64)), &["TopologyAffinityError"])?;
    let shared = node.run(Pod::burstable("shared", 100))?;
    expect::apart(&[&node.look(&wrapped)?, &node.look(&shared)?])
}

/// Under the default seccomp profile, which keeps a container from setting a policy itself. runc before 1.4 sets none,
/// nor does crun before 1.24, which the older guest has.
fn policies(node: &mut Node) -> Result<()> {
    node.stop_maitred()?;
    let by_crun = if sets_policies("crun")? { "native" } else { "inherited" };
    for (class, way) in [(WRAPPED, "inherited"), (CRUN, by_crun), (NEXT_RUNC, "native")] {
        let pod = Pod::guaranteed(class, 1, 64).handler(class).default_seccomp().args(&["hold", "8"]);
        let seen = node.run(pod).and_then(|seated| node.look(&seated))?;
        let home = expect::seated(&node.machine, &seen, 1)?;
        let status = fs::read_to_string(format!("/proc/{}/status", seen.pid))?;
        expected!(status.contains("Seccomp:\t2"), "no seccomp filter: {status}");
        wait::until_seen(node.patience(), "the memory is touched", || {
            let found = observe::policies(seen.pid, 1024)?;
            Ok(found.is_empty().then(|| "no mapping of 4 MiB yet".to_owned()))
        })?;
        let wanted = BTreeSet::from([format!("bind=static:{home}")]);
        expect::same("memory policy", &wanted, &observe::policies(seen.pid, 1024)?)?;
        let log = fs::read_to_string("/var/log/maitred/hook.jsonl")?;
        let said = format!("\"memory_policy\":\"bind:{home} {way}");
        let told = log.lines().any(|line| line.contains(&said) && line.contains(class));
        expected!(told, "no {said:?} of {class} in {log}");
    }
    Ok(())
}

/// Whether the runtime says that it does.
fn sets_policies(runtime: &str) -> Result<bool> {
    let output =
        Command::new(runtime).arg("features").output().with_context(|| format!("starting {runtime}"))?;
    anyhow::ensure!(output.status.success(), "{runtime} features: {}", output.status);
    Ok(String::from_utf8(output.stdout)?.contains("memoryPolicy"))
}

/// Of the pages the runtime shows and of those that it hides, with more of them free elsewhere.
fn hugepages(node: &mut Node) -> Result<()> {
    node.stop_maitred()?;
    let most = node.machine.nodes.iter().map(|numa| numa.hugepages).max().context("no node")?;
    let pod = |name: &str, pages: u64| {
        let pod = Pod::guaranteed(name, 1, 64).handler(WRAPPED).default_seccomp();
        pod.args(&["hold-huge", "2048", &pages.to_string()])
    };
    for asking in [pod("shown", 2).hugepages_2m(2), pod("hidden", 2).hidden_hugepages_2m(2)] {
        let seen = node.run(asking).and_then(|seated| node.look(&seated))?;
        let home = expect::seated(&node.machine, &seen, 1)?;
        let here = node.machine.nodes.iter().find(|numa| numa.id == home).map_or(0, |numa| numa.hugepages);
        expected!(here < most, "no other node has more: {:?}", node.machine.nodes);
        wait::until_seen(node.patience(), "the hugepages are touched", || {
            let held = observe::pages_by_node(seen.pid, " huge ")?;
            Ok((held.values().sum::<u64>() < 2).then(|| format!("{held:?}, wanted 2")))
        })?;
        let held = observe::pages_by_node(seen.pid, " huge ")?;
        expect::same("pages by node", &BTreeMap::from([(home, 2)]), &held)?;
    }
    let large = pod("large", most + 1).hugepages_2m(most + 1);
    expect::refused::<Seated>(node.run(large), &["TopologyAffinityError", "hugepage"])?;
    Ok(())
}
