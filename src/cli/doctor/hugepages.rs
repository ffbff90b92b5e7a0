//! Huge pages: on every node, and counted.

use super::facts::Facts;
use super::finding::Finding;
use super::{Check, kernel};
use crate::model::{HugepageSize, NodeId};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const CHECKS: &[Check] = &[reserved, numa_stat];

/// Pages by node, of one size.
fn pools(facts: &Facts) -> BTreeMap<HugepageSize, BTreeMap<NodeId, u64>> {
    let mut pools = BTreeMap::<HugepageSize, BTreeMap<NodeId, u64>>::new();
    let nodes = facts.machine.iter().flat_map(|machine| &machine.topology.numa_nodes);
    // A node without CPUs is nobody's home.
    for node in nodes.filter(|node| !node.cpus.is_empty() && node.memory_bytes > 0) {
        for (size, pool) in &node.hugepages {
            pools.entry(*size).or_default().insert(node.id, pool.total);
        }
    }
    pools
}

fn file(node: NodeId, size: HugepageSize) -> String {
    format!("sys/devices/system/node/node{node}/hugepages/{}/nr_hugepages", size.sysfs_name())
}

fn reserved(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "hugepages.reserved";
    let pools = pools(facts);
    if facts.machine.is_err() {
        return Vec::new();
    }
    let used: Vec<_> = pools.iter().filter(|(_, by_node)| by_node.values().any(|pages| *pages > 0)).collect();
    if used.is_empty() {
        let title = "no huge pages are reserved: pods that ask for some are not scheduled here";
        let fix = "where pods ask for them: in the kernel's parameters hugepagesz=1G hugepages=0:16,1:16 (so many on each \
                   node; before Linux 5.16 hugepages=32, which it spreads evenly), and boot";
        return vec![
            Finding::note(CHECK, title)
                .seen_in("sys/devices/system/node", "nr_hugepages is 0 everywhere")
                .fix(fix),
        ];
    }
    used.into_iter().map(|(size, by_node)| of_size(facts, CHECK, *size, by_node)).collect()
}

fn of_size(
    facts: &Facts,
    check: &'static str,
    size: HugepageSize,
    by_node: &BTreeMap<NodeId, u64>,
) -> Finding {
    let amounts: BTreeSet<u64> = by_node.values().copied().collect();
    if amounts.len() == 1 {
        return Finding::ok(check, format!("every node has as many huge pages of {size}"));
    }
    let most = amounts.last().copied().unwrap_or(0);
    let empty: Vec<_> = by_node.iter().filter(|(_, pages)| **pages == 0).map(|(node, _)| *node).collect();
    let names: Vec<_> = empty.iter().map(ToString::to_string).collect();
    let finding = match empty.is_empty() {
        false => Finding::warning(
            check,
            format!(
                "node {} has no huge pages of {size} and others have: a pod that asks for some fits only there, whatever \
                 is free here",
                names.join(", ")
            ),
        ),
        true => Finding::note(check, format!("the nodes have different numbers of huge pages of {size}")),
    };
    let finding = by_node
        .iter()
        .fold(finding, |finding, (node, pages)| finding.seen_in(&file(*node, size), pages.to_string()));
    let finding = match facts.kernel.parameter("hugepages") {
        Some(told) => finding.seen(&kernel::command_line(), format!("hugepages={told}")),
        None => finding,
    };
    let now: Vec<_> = by_node
        .iter()
        .filter(|(_, pages)| **pages < most)
        .map(|(node, _)| format!("echo {most} > /{}", file(*node, size)))
        .collect();
    let each: Vec<_> = by_node.keys().map(|node| format!("{node}:{most}")).collect();
    finding.fix(format!(
        "now, while memory is free in one piece:\n  {}\nand for the next boot, in the kernel's parameters: hugepagesz={} \
         hugepages={}",
        now.join("\n  "),
        size.to_string().trim_end_matches('i'),
        each.join(",")
    ))
}

/// `hugetlb.<size>.numa_stat` came with Linux 5.16.
fn numa_stat(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "hugepages.counted";
    let some = pools(facts).values().any(|by_node| by_node.values().any(|pages| *pages > 0));
    match (some, facts.kernel.is_at_least(5, 16)) {
        (false, _) => Vec::new(),
        (true, Some(true)) => vec![Finding::ok(CHECK, "the kernel tells who uses huge pages on which node")],
        (true, Some(false)) => {
            let title = "the kernel does not tell who uses huge pages on which node: maitred goes by its books and by what \
                         is free";
            let release = facts.kernel.release.clone().unwrap_or_default();
            vec![
                Finding::note(CHECK, title)
                    .seen_in("proc/sys/kernel/osrelease", release)
                    .fix("a kernel of 5.16 or later"),
            ]
        }
        (true, None) => {
            vec![Finding::not_checked(CHECK, "the kernel's version: there is no proc/sys/kernel/osrelease")]
        }
    }
}
