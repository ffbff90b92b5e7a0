//! Hugepages are promised on one node and come from there; the guest's nodes have unequal numbers.

use super::{Lanes, Scenario, usual};
use crate::expect::{self, expected};
use crate::node::Node;
use crate::observe;
use crate::pod::Pod;
use crate::wait;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

pub const ALL: &[Scenario] = &[
    usual("hugepages are promised and bound on the node", Lanes::Guest, promised_and_bound),
    usual("hugepages that are really gone are not promised", Lanes::Guest, gone),
    usual("hugepages that the runtime hides are promised and proven", Lanes::Guest, hidden),
];

fn promised_and_bound(node: &mut Node) -> Result<()> {
    let mut by_pages: Vec<_> = node.machine.nodes.iter().map(|numa| (numa.hugepages, numa.id)).collect();
    by_pages.sort_unstable();
    let [.., (second, second_node), (most, most_node)] = by_pages[..] else {
        anyhow::bail!("one node only");
    };
    // More than any other node has; the second fits the runner-up but no longer what is left here.
    let first_pages = second + (most - second) / 2;
    let second_pages = most - first_pages + 1;
    let pod = |name: &str, pages: u64| Pod::guaranteed(name, 1, 64).hugepages_2m(pages);

    // Promised and not yet touched: only the promise keeps these pages from the second pod.
    let quiet = node.run(pod("promised", first_pages))?;
    let seen = node.look(&quiet)?;
    expect::same("node with the most hugepages", &most_node, &expect::seated(&node.machine, &seen, 1)?)?;

    let pages = second_pages.to_string();
    let holder = node.run(pod("bound", second_pages).args(&["hold-huge", "2048", &pages]))?;
    let seen = node.look(&holder)?;
    expect::same("node with hugepages left", &second_node, &expect::seated(&node.machine, &seen, 1)?)?;
    wait::until_seen(node.patience(), "the hugepages are touched", || {
        let held = observe::pages_by_node(seen.pid, " huge ").context("numa_maps of the holder")?;
        let here = held.get(&second_node).copied().unwrap_or(0);
        Ok((here < second_pages).then(|| format!("{held:?}, wanted {second_pages} on node {second_node}")))
    })?;
    let held = observe::pages_by_node(seen.pid, " huge ")?;
    expected!(held.len() == 1, "hugepages on several nodes: {held:?}");

    expect::refused(node.run(pod("third", second_pages)), &["TopologyAffinityError"])?;
    Ok(())
}

/// A node's pool made smaller behind maitred's back, as a virtual machine on the host would by using it; restored
/// at the end.
struct Shrunk {
    path: PathBuf,
    was: String,
}

impl Shrunk {
    fn to_one_page(node: u32) -> Result<Self> {
        let path = format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages");
        let path = PathBuf::from(path);
        let was = fs::read_to_string(&path)?;
        let shrunk = Self { path, was };
        fs::write(&shrunk.path, "1")?;
        Ok(shrunk)
    }

    fn restored(self) -> Result<()> {
        let (path, was) = (self.path.clone(), self.was.clone());
        drop(self);
        expect::same("hugepages of the node, restored", &was, &fs::read_to_string(path)?)
    }
}

impl Drop for Shrunk {
    fn drop(&mut self) {
        // A pool that stays small is told by `restored`, or by the scenarios after this one.
        let _ = fs::write(&self.path, &self.was);
    }
}

fn gone(node: &mut Node) -> Result<()> {
    let mut by_pages: Vec<_> = node.machine.nodes.iter().map(|numa| (numa.hugepages, numa.id)).collect();
    by_pages.sort_unstable();
    let [.., (second, _), (most, most_node)] = by_pages[..] else { anyhow::bail!("one node only") };
    expected!(most > second, "no node has the most hugepages: {by_pages:?}");
    let asking = |name: &str| Pod::guaranteed(name, 1, 64).hugepages_2m(second + 1);

    let shrunk = Shrunk::to_one_page(most_node)?;
    expect::refused(node.run(asking("nowhere")), &["TopologyAffinityError", "hugepage"])?;
    shrunk.restored()?;
    let seen = node.run(asking("there-again")).and_then(|seated| node.look(&seated))?;
    expect::same("node with the most hugepages", &most_node, &expect::seated(&node.machine, &seen, 1)?)
}

/// Waits until a process has touched `pages` huge pages; how many lie on each node.
fn touched(node: &Node, pid: u32, pages: u64) -> Result<BTreeMap<u32, u64>> {
    wait::until_seen(node.patience(), "the hugepages are touched", || {
        let held = observe::pages_by_node(pid, " huge ")?;
        Ok((held.values().sum::<u64>() < pages).then(|| format!("{held:?}, wanted {pages}")))
    })?;
    observe::pages_by_node(pid, " huge ")
}

fn hidden(node: &mut Node) -> Result<()> {
    let most = node.machine.nodes.iter().map(|numa| numa.hugepages).max().context("no node")?;
    let asking = |name: &str, pages: u64| {
        let pod = Pod::guaranteed(name, 1, 64).hidden_hugepages_2m(pages);
        pod.args(&["hold-huge", "2048", &pages.to_string()])
    };
    let few = node.run(asking("few", 2))?;
    let seen = node.look(&few)?;
    let home = expect::seated(&node.machine, &seen, 1)?;
    expect::same("pages by node", &BTreeMap::from([(home, 2)]), &touched(node, seen.pid, 2)?)?;
    let elsewhere = node.machine.nodes.iter().filter(|numa| numa.id != home).map(|numa| numa.hugepages).max();
    let here = node.machine.nodes.iter().find(|numa| numa.id == home).map_or(0, |numa| numa.hugepages);
    expected!(elsewhere > Some(here), "no other node has more: {:?}", node.machine.nodes);
    node.maitred_command(&["verify"])?;

    // More than any node has: from several, where nobody keeps it from that.
    expect::refused(node.run(asking("too-many", most + 1)), &["TopologyAffinityError", "hugepage"])?;
    node.maitred_command(&["off"])?;
    let spread = node.run(asking("too-many-off", most + 1)).and_then(|seated| node.look(&seated));
    let held = spread.and_then(|seen| touched(node, seen.pid, most + 1));
    node.maitred_command(&["on"])?;
    let held = held?;
    expected!(held.len() > 1, "without maitred they come from one node: {held:?}");
    Ok(())
}
