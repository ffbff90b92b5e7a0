//! The node for people: the daemon in a line, a section a node, the pool, what fits.

use super::read::{DaemonStatus, Free, Holder, HolderState, LargestPod, NodeStatus, Status};
use crate::cli::output::count;
use crate::cli::plan::table::{Style, Table};
use crate::cli::plan::text::{cpus, devices};
use crate::model::{Bytes, CpuSet, NodeSet};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

pub(super) fn print(status: &Status, style: Style) -> String {
    let mut text = header(status, style);
    text += &sections(status, style).print();
    let _ = writeln!(text, "\n{}", pool(status));
    match status.largest.as_slice() {
        [] => text.push_str("no pod with exclusive CPUs fits now\n"),
        pods => pods.iter().for_each(|pod| {
            let _ = writeln!(text, "largest pod that fits now: {}", largest(pod));
        }),
    }
    for note in &status.notes {
        let _ = writeln!(text, "{}", style.dim(&format!("note: {note}")));
    }
    text
}

fn header(status: &Status, style: Style) -> String {
    let daemon = &status.daemon;
    let mut text = match daemon.running {
        true => running(daemon),
        false => style.red("daemon not running") + ": shown is what the allocations in the store say\n",
    };
    if daemon.mode == "audit" {
        text += "audit mode: verdicts are logged and nothing is pinned; `maitred explain POD` tells what would be\n";
    }
    if let Some(off) = &daemon.off {
        let why = if off.reason.is_empty() { String::new() } else { format!(": {}", off.reason) };
        let _ = writeln!(
            text,
            "{} for {} (by {}){why}; containers start unpinned until `maitred on`",
            style.red("off"),
            ago(off.seconds),
            off.by
        );
    }
    let authority =
        daemon.authority.as_ref().map(|who| format!(", CPUs picked by {who}")).unwrap_or_default();
    let nodes = count(status.nodes.len(), "node");
    let _ = writeln!(text, "{nodes}; policy {}, scope {}{authority}\n", status.policy, status.scope);
    text
}

fn running(daemon: &DaemonStatus) -> String {
    let pid = daemon.pid.map(|pid| format!("pid {pid}, ")).unwrap_or_default();
    let since = daemon.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
    let runtime = match (&daemon.runtime, daemon.connected) {
        (Some(runtime), true) => format!("serving {runtime}{since}"),
        (Some(runtime), false) => format!("not connected{since}, last with {runtime}"),
        (None, _) => format!("waiting for a runtime{since}"),
    };
    format!("daemon running ({pid}{}): {runtime}\n", daemon.mode)
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86400),
    }
}

fn sections(status: &Status, style: Style) -> Table {
    let mut table = Table::new(style);
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
        table.row(vec![
            holder.pod.clone().unwrap_or_else(|| holder.pod_uid.clone()),
            holder.container.clone(),
            state(holder),
            cpus(holder.cpus.as_ref().unwrap_or(&CpuSet::new())),
            devices("GPU", holder.gpus.iter().map(|gpu| gpu.name.clone()).collect()),
            devices("NIC", holder.nics.clone()),
            if holder.memory_bytes > 0 { Bytes(holder.memory_bytes).to_string() } else { String::new() },
            pages(&holder.hugepages),
        ]);
    }
}

fn state(holder: &Holder) -> String {
    match holder.state {
        HolderState::Running => String::new(),
        HolderState::Stopped => "stopped, kept".into(),
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

fn pool(status: &Status) -> String {
    let sharing = match status.pool.containers {
        Some(number) => count(number, "container"),
        None => "an unknown number of containers".into(),
    };
    format!("shared pool: {sharing} on {}", cpus(&status.pool.cpus))
}

fn largest(pod: &LargestPod) -> String {
    let mut parts = vec![count(usize::try_from(pod.cpus).unwrap_or(usize::MAX), "CPU")];
    parts.extend((pod.memory_bytes > 0).then(|| Bytes(pod.memory_bytes).to_string()));
    parts.extend((pod.gpus > 0).then(|| count(usize::try_from(pod.gpus).unwrap_or(usize::MAX), "GPU")));
    parts.extend((!pod.hugepages.is_empty()).then(|| pages(&pod.hugepages)));
    format!("{} on {}", parts.join(", "), pod.nodes.words())
}
