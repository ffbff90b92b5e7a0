//! The comparison for people: a line a container.

use super::{Checked, Found};
use crate::decision::{Seen, SeenProcess};
use crate::model::{Bytes, NodeId, Placement};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

pub(super) fn of(checked: &[Checked], verbose: bool) -> String {
    if checked.is_empty() {
        return "no container has a placement on this node\n".to_owned();
    }
    let mut text = String::new();
    for Checked { record, found } in checked {
        let _ = writeln!(text, "{:<10}  {}  {}", found.word(), record.key, line(record.placement(), found));
        let Found::Running { seen, .. } = found else { continue };
        seen.processes.iter().filter(|_| verbose).for_each(|process| detail(&mut text, process));
    }
    text
}

fn line(placement: &Placement, found: &Found) -> String {
    match found {
        Found::Stopped => format!("its seat is kept while its pod lives: {}", seat(placement)),
        Found::Running { seen, drifts } if drifts.is_empty() => format!("{}{}", seat(placement), uses(seen)),
        Found::Running { drifts, .. } => {
            drifts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        }
    }
}

fn seat(placement: &Placement) -> String {
    let cpus = if placement.cpus.is_empty() { "shared".to_owned() } else { placement.cpus.to_string() };
    let mut text = format!("cpus {cpus}");
    if !placement.mems.is_empty() {
        let _ = write!(text, "  mems {}", placement.mems);
    }
    if let Some(policy) = &placement.policy {
        let _ = write!(text, "  policy {policy}");
    }
    text
}

/// Where the memory of all its processes lies, and its huge pages.
fn uses(seen: &Seen) -> String {
    let mut memory = BTreeMap::<NodeId, Bytes>::new();
    for (node, bytes) in seen.processes.iter().flat_map(|process| &process.memory) {
        let Bytes(sum) = memory.entry(*node).or_default();
        *sum = sum.saturating_add(bytes.0);
    }
    let mut text = String::new();
    for (what, pages) in [("memory", &memory), ("huge pages", &seen.hugepages)] {
        if let Some(places) = places(pages) {
            let _ = write!(text, "  {what} {places}");
        }
    }
    text
}

/// `12Mi on node 1, 4Ki on node 2`; `None` is nothing anywhere.
fn places(pages: &BTreeMap<NodeId, Bytes>) -> Option<String> {
    let used = pages.iter().filter(|(_, bytes)| bytes.0 > 0);
    let used: Vec<_> = used.map(|(node, bytes)| format!("{bytes} on node {node}")).collect();
    (!used.is_empty()).then(|| used.join(", "))
}

fn detail(text: &mut String, process: &SeenProcess) {
    let SeenProcess { pid, cpus, mems, policies, memory } = process;
    let policies: BTreeSet<&str> = policies.iter().map(String::as_str).collect();
    let policies = policies.into_iter().collect::<Vec<_>>().join(", ");
    let places = places(memory).unwrap_or_else(|| "none".to_owned());
    let _ = writeln!(
        text,
        "            process {pid}: cpus {cpus}  mems {mems}  policies {policies}  memory {places}"
    );
}
