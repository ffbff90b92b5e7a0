//! The comparison for people: a line a container.

use super::beside::{Beside, Intruder, NotPlaced};
use super::{Checked, Found};
use crate::decision::{Seen, SeenProcess};
use crate::model::{Bytes, NodeId, Placement};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

pub(super) fn of(checked: &[Checked], beside: Option<&Beside>, verbose: bool) -> String {
    let mut text = String::new();
    if checked.is_empty() {
        text.push_str("no container has a placement on this node\n");
    }
    for one in checked {
        let _ = writeln!(text, "{:<10}  {}  {}", one.word(), one.record.key, line(one));
        let Found::Running { seen, .. } = &one.found else { continue };
        seen.processes.iter().filter(|_| verbose).for_each(|process| detail(&mut text, process));
    }
    text + &beside.map(|beside| others(beside, verbose)).unwrap_or_default()
}

fn others(beside: &Beside, verbose: bool) -> String {
    let mut text = String::new();
    for Intruder { who, cpus, of } in &beside.intruders {
        let _ = writeln!(text, "intruder    {who}  may run on CPUs {cpus} of {of}");
    }
    for NotPlaced { who, id, today, reason } in &beside.not_placed {
        let id: String = id.chars().take(12).collect();
        let _ = writeln!(text, "not placed  {who} ({id})  today: {today}: {reason}");
    }
    let passing = beside.host_processes.len();
    if passing > 0 {
        let many = if passing == 1 { "process" } else { "processes" };
        let _ = writeln!(
            text,
            "note: {passing} {many} of the host may run on exclusive CPUs too, as on any other; nobody moves them{}",
            if verbose { ":" } else { " (-v names them)" }
        );
        for one in beside.host_processes.iter().filter(|_| verbose) {
            let _ = writeln!(text, "            process {} ({}): CPUs {}", one.pid, one.name, one.cpus);
        }
    }
    text
}

fn line(one: &Checked) -> String {
    let placement = one.record.placement();
    match &one.found {
        Found::Stopped => format!("its seat is kept while its pod lives: {}", seat(placement)),
        Found::Running { .. } if one.drifted() => one.wrong().join("; "),
        Found::Running { seen, .. } => format!("{}{}", seat(placement), uses(seen)),
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
    let SeenProcess { pid, cpus, threads, mems, policies, memory } = process;
    let policies: BTreeSet<&str> = policies.iter().map(String::as_str).collect();
    let policies = policies.into_iter().collect::<Vec<_>>().join(", ");
    let places = places(memory).unwrap_or_else(|| "none".to_owned());
    let _ = writeln!(
        text,
        "            process {pid}: cpus {cpus}  mems {mems}  policies {policies}  memory {places}"
    );
    for (thread, cpus) in threads {
        let _ = writeln!(text, "            process {pid}, thread {thread}: cpus {cpus}");
    }
}
