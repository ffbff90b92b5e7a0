//! How many replicas fit, for people.

use super::pods::Pod;
use super::seat::{Fill, Part};
use super::text::lack;
use crate::cli::output::count;
use crate::model::{MemoryKind, NodeSet, Resource};
use std::fmt::Write;

/// How often a pod fits.
pub(super) fn fits(pod: &Pod, fill: &Fill) -> String {
    let title = pod.title();
    match (&fill.next, fill.seated.len()) {
        (None, _) => format!("any number of {title} fits: it takes nothing that could run out"),
        (Some(_), 1) => format!("1 replica of {title} fits"),
        (Some(_), fit) => format!("{fit} replicas of {title} fit"),
    }
}

/// `; GPUs run out first`, where one thing does on all nodes.
pub(super) fn runs_out(fill: &Fill) -> String {
    let names: Vec<String> = fill.runs_out().iter().map(plural).collect();
    match &names[..] {
        [] => String::new(),
        [one] if one == "memory" => "; memory runs out first".into(),
        [most @ .., last] if !most.is_empty() => format!("; {} and {last} run out first", most.join(", ")),
        [last, ..] => format!("; {last} run out first"),
    }
}

/// The resource where no number of it is named.
fn plural(resource: &Resource) -> String {
    match resource {
        Resource::Memory(MemoryKind::Memory) => "memory".into(),
        Resource::Memory(MemoryKind::Hugepages(size)) => format!("hugepages of {size}"),
        Resource::Cpu | Resource::Device(_) => resource.amount(2).trim_start_matches("2 ").to_owned(),
    }
}

/// How many fit where, and what is in the way of one more; nodes of which the same is said are named together.
pub(super) fn parts(fill: &Fill) -> String {
    let mut text = String::new();
    let (singles, others): (Vec<&Part>, Vec<&Part>) =
        fill.parts.iter().partition(|part| part.nodes.len() == 1);
    let mut groups: Vec<(NodeSet, &Part)> = Vec::new();
    for part in singles {
        let same = |other: &Part| other.replicas == part.replicas && other.short == part.short;
        match groups.iter_mut().find(|(_, other)| same(other)) {
            Some((nodes, _)) => *nodes = nodes.union(&part.nodes),
            None => groups.push((part.nodes.clone(), part)),
        }
    }
    for (nodes, part) in groups {
        let each = if nodes.len() > 1 { " each" } else { "" };
        let lack =
            if part.short.is_empty() { String::new() } else { format!(", then {}", lack(&part.short)) };
        let _ = writeln!(text, "  {}: {}{each}{lack}", nodes.words(), count(part.replicas, "replica"));
    }
    for part in others {
        let place = if part.nodes.is_empty() {
            "in the shared pool".into()
        } else {
            format!("across {}", part.nodes.words())
        };
        let _ = writeln!(text, "  {place}: {}", count(part.replicas, "replica"));
    }
    text
}
