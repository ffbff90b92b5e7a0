//! The node for people: the daemon in a line, a section a node, the pool, what fits.

use super::read::{DaemonStatus, Free, Holder, HolderState, LargestPod, NodeStatus, Status};
use crate::cli::output::{Paint, count};
use crate::cli::plan::table::Table;
use crate::cli::plan::text::{cpus, devices};
use crate::model::{Bytes, CpuSet, NodeSet};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

pub(super) fn print(status: &Status, paint: Paint) -> String {
    let mut text = header(status, paint);
    text += &sections(status, paint).print();
    let _ = writeln!(text, "\n{}", pool(status));
    fits(status).iter().for_each(|line| text += &format!("{line}\n"));
    for note in &status.notes {
        let _ = writeln!(text, "{}", paint.dim(&format!("note: {note}")));
    }
    text
}

fn header(status: &Status, paint: Paint) -> String {
    let mut text = String::new();
    for State { bad, rest } in states(status) {
        let _ = writeln!(text, "{}{rest}", paint.red(bad));
    }
    let nodes = count(status.nodes.len(), "node");
    let _ = writeln!(text, "{nodes}; {}\n", rules(status));
    text
}

/// A sentence about the daemon.
pub(super) struct State {
    /// Its first words, where they are bad news.
    pub bad: &'static str,
    /// The rest of it.
    pub rest: String,
}

/// Whether anybody places containers now.
pub(super) fn states(status: &Status) -> Vec<State> {
    let daemon = &status.daemon;
    let mut states = vec![match daemon.running {
        true => State { bad: "", rest: running(daemon) },
        false => State {
            bad: "daemon not running",
            rest: ": shown is what the allocations in the store say".into(),
        },
    }];
    if daemon.mode == "audit" {
        let rest = "audit mode: verdicts are logged and nothing is pinned; `maitred explain POD` tells what would be";
        states.push(State { bad: "", rest: rest.into() });
    }
    if let Some(off) = &daemon.off {
        let why = if off.reason.is_empty() { String::new() } else { format!(": {}", off.reason) };
        let (ago, by) = (ago(off.seconds), &off.by);
        let rest = format!(" for {ago} (by {by}){why}; containers start unpinned until `maitred on`");
        states.push(State { bad: "off", rest });
    }
    states
}

/// By which rules containers are placed, and by whom.
pub(super) fn rules(status: &Status) -> String {
    let authority = status.daemon.authority.as_ref();
    let authority = authority.map(|who| format!(", CPUs picked by {who}")).unwrap_or_default();
    format!("policy {}, scope {}{authority}", status.policy, status.scope)
}

fn running(daemon: &DaemonStatus) -> String {
    let pid = daemon.pid.map(|pid| format!("pid {pid}, ")).unwrap_or_default();
    let since = daemon.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
    let runtime = match (&daemon.runtime, daemon.connected) {
        (Some(runtime), true) => format!("serving {runtime}{since}"),
        (Some(runtime), false) => format!("not connected{since}, last with {runtime}"),
        (None, _) => format!("waiting for a runtime{since}"),
    };
    format!("daemon running ({pid}{}): {runtime}", daemon.mode)
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86400),
    }
}

fn sections(status: &Status, paint: Paint) -> Table {
    let mut table = Table::new(paint);
    for node in &status.nodes {
        table.heading(title(node));
        rows(&mut table, status, &NodeSet::single(node.id));
        if !node.reserved.is_empty() {
            table.row(vec!["(system)".into(), String::new(), String::new(), cpus(&node.reserved)]);
        }
        free(&mut table, &node.free, true);
    }
    let across: BTreeSet<&NodeSet> =
        status.holders.iter().map(|holder| &holder.nodes).filter(|nodes| nodes.len() > 1).collect();
    for nodes in across {
        table.heading(format!("across nodes {nodes}"));
        rows(&mut table, status, nodes);
    }
    if status.holders.iter().any(|holder| holder.nodes.is_empty())
        || status.unknown_locality != Free::default()
    {
        table.heading("of unknown locality".into());
        rows(&mut table, status, &NodeSet::new());
        free(&mut table, &status.unknown_locality, false);
    }
    table
}

fn title(node: &NodeStatus) -> String {
    let mut parts = vec![count(node.cpus.len(), "CPU")];
    for (number, word) in [(node.gpus.len(), "GPU"), (node.nics.len(), "NIC")] {
        parts.extend((number > 0).then(|| count(number, word)));
    }
    parts.push(Bytes(node.memory_bytes).to_string());
    format!("node {}: {}", node.id, parts.join(", "))
}

fn rows(table: &mut Table, status: &Status, nodes: &NodeSet) {
    for holder in status.holders.iter().filter(|holder| holder.nodes == *nodes) {
        let mut cells = vec![pod(holder), holder.container.clone(), state(holder).to_owned()];
        cells.extend(has(holder));
        table.row(cells);
    }
}

/// How people call a holder's pod.
pub(super) fn pod(holder: &Holder) -> String {
    holder.pod.clone().unwrap_or_else(|| holder.pod_uid.clone())
}

/// What it has: CPUs, GPUs, NICs, memory, huge pages; empty where it has none.
pub(super) fn has(holder: &Holder) -> [String; 5] {
    [
        cpus(holder.cpus.as_ref().unwrap_or(&CpuSet::new())),
        devices("GPU", holder.gpus.iter().map(|gpu| gpu.name.clone()).collect()),
        devices("NIC", holder.nics.clone()),
        if holder.memory_bytes > 0 { Bytes(holder.memory_bytes).to_string() } else { String::new() },
        pages(&holder.hugepages),
    ]
}

/// Where in its life it is, unless it runs.
pub(super) fn state(holder: &Holder) -> &'static str {
    match holder.state {
        HolderState::Running => "",
        HolderState::Stopped => "stopped, kept",
    }
}

fn free(table: &mut Table, free: &Free, amounts: bool) {
    let number = |text: String| if amounts { text } else { String::new() };
    let list = if free.cpus.is_empty() { String::new() } else { format!(": {}", free.cpus) };
    table.row(vec![
        "(free)".into(),
        String::new(),
        String::new(),
        number(format!("{}{list}", count(free.cpus.len(), "CPU"))),
        devices("GPU", free.gpus.clone()),
        devices("NIC", free.nics.clone()),
        number(Bytes(free.memory_bytes).to_string()),
        pages(&free.hugepages),
    ]);
}

fn pages(pages: &BTreeMap<String, u64>) -> String {
    let sizes: Vec<_> = pages.iter().map(|(size, number)| format!("{number} × {size}")).collect();
    sizes.join(" ")
}

/// Who shares which CPUs.
pub(super) fn pool(status: &Status) -> String {
    let sharing = match status.pool.containers {
        Some(number) => count(number, "container"),
        None => "an unknown number of containers".into(),
    };
    format!("shared pool: {sharing} on {}", cpus(&status.pool.cpus))
}

/// What could be placed now.
pub(super) fn fits(status: &Status) -> Vec<String> {
    match status.largest.as_slice() {
        [] => vec!["no pod with exclusive CPUs fits now".into()],
        pods => pods.iter().map(|pod| format!("largest pod that fits now: {}", largest(pod))).collect(),
    }
}

fn largest(pod: &LargestPod) -> String {
    let mut parts = vec![count(usize::try_from(pod.cpus).unwrap_or(usize::MAX), "CPU")];
    parts.extend((pod.memory_bytes > 0).then(|| Bytes(pod.memory_bytes).to_string()));
    parts.extend((pod.gpus > 0).then(|| count(usize::try_from(pod.gpus).unwrap_or(usize::MAX), "GPU")));
    parts.extend((!pod.hugepages.is_empty()).then(|| pages(&pod.hugepages)));
    format!("{} on {}", parts.join(", "), pod.nodes.words())
}
