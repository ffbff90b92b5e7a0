//! Rows about the Memory Manager alone: hints, and one allocation.

use super::json::{list, memory_kind, number, text};
use super::outside::{self, Outside};
use super::rules::{add_node, amounts, hold, nodes, policy, request, same, same_hints, seat};
use maitred::engine::{Machine, Occupancy, Reserve, admit_container, rules};
use maitred::model::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A machine of which only the memory is known.
fn machine(state: &Value) -> Result<Machine, String> {
    let mut topology = Topology::default();
    for (id, node) in state.as_object().into_iter().flatten() {
        let number_of_node: u32 = id.parse().map_err(|_| format!("node {id:?}"))?;
        let tables = node["memoryMap"].as_object().into_iter().flatten();
        let allocatable = tables.map(|(name, table)| (name, number(&table["allocatable"])));
        let mut memory_bytes = 0;
        let mut hugepages = BTreeMap::new();
        for (name, bytes) in allocatable {
            memory_bytes += bytes;
            if let Some(MemoryKind::Hugepages(size)) = memory_kind(name) {
                let total = bytes / size.bytes();
                hugepages.insert(size, HugepagePool { total, free: total });
            }
        }
        let id = NodeId(number_of_node);
        add_node(&mut topology, id, (memory_bytes, hugepages), BTreeMap::new());
    }
    Machine::new(&topology, &Reserve::default()).map_err(|error| error.to_string())
}

/// Promises of one node set, with what of them is whose.
fn blocks(nodes: &NodeSet, amounts: Vec<(MemoryKind, Bytes)>) -> Placement {
    let block = |(kind, bytes)| MemoryBlock { nodes: nodes.clone(), kind, bytes };
    Placement { memory: amounts.into_iter().map(block).collect(), ..Placement::default() }
}

/// `{"01": {…}}`: node sets as binary numbers.
fn reusable(row: &Value) -> Vec<(NodeSet, Vec<(MemoryKind, Bytes)>)> {
    let all = row["reusable"].as_object().into_iter().flatten();
    all.map(|(mask, memory)| {
        let bits = mask.bytes().rev().enumerate().filter(|(_, digit)| *digit == b'1');
        (bits.map(|(node, _)| NodeId(node as u32)).collect(), amounts(memory))
    })
    .collect()
}

/// What the state says is reserved: the pod's init containers' as told, the rest somebody else's.
fn occupancy(machine: &Machine, state: &Value, row: &Value, pod: &str) -> Occupancy {
    let mut occupancy = Occupancy::new(machine);
    let own = reusable(row);
    let mut sets: BTreeSet<NodeSet> = BTreeSet::new();
    let mut reserved: BTreeMap<(NodeSet, MemoryKind), u64> = BTreeMap::new();
    for node in state.as_object().into_iter().flatten().map(|(_, node)| node) {
        if number(&node["numberOfAssignments"]) > 0 {
            let cells = nodes(&node["cells"]);
            for (name, table) in node["memoryMap"].as_object().into_iter().flatten() {
                let kind = memory_kind(name).expect("a type of memory");
                *reserved.entry((cells.clone(), kind)).or_default() += number(&table["reserved"]);
            }
            sets.insert(cells);
        }
    }
    for (at, (nodes, amounts)) in own.into_iter().enumerate() {
        for (kind, bytes) in &amounts {
            let rest = reserved.entry((nodes.clone(), *kind)).or_default();
            *rest = rest.saturating_sub(bytes.0);
        }
        let held = blocks(&nodes, amounts);
        hold(&mut occupancy, machine, pod, &format!("earlier{at}"), ContainerKind::Init, held);
    }
    for (at, set) in sets.iter().enumerate() {
        let of_set = reserved.iter().filter(|((nodes, _), _)| nodes == set);
        let amounts = of_set.map(|((_, kind), bytes)| (*kind, Bytes(*bytes))).collect();
        let held = blocks(set, amounts);
        hold(&mut occupancy, machine, "other", &format!("main{at}"), ContainerKind::App, held);
    }
    occupancy
}

pub fn hints(row: &Value) -> Result<(), String> {
    let machine = machine(&row["machineState"])?;
    let occupancy = occupancy(&machine, &row["machineState"], row, "pod");
    let request = request(0, &row["requests"]);
    let policy = policy(TopologyPolicy::Restricted);
    let ours = rules::hints(&machine, &occupancy, &"pod".into(), &request, &policy);
    let ours = ours.into_iter().next().unwrap_or_default();
    let expected = row["expect"].as_object().into_iter().flatten();
    if row["expect"].as_object().is_none_or(serde_json::Map::is_empty) {
        return same(&ours, &Vec::new());
    }
    let mut hints = expected.map(|(_, hints)| hints);
    hints.try_for_each(|hints| same_hints(ours.clone(), hints))
}

pub fn alloc(row: &Value) -> Result<(), String> {
    let (pod, container) = (text(&row["pod"]), text(&row["container"]));
    let state = &row["before"]["machineState"];
    let machine = machine(state)?;
    let mut occupancy = occupancy(&machine, state, row, &pod);
    let held = &row["before"]["assignments"][&pod][&container];
    let assigned = |blocks: &Value| -> Vec<(NodeSet, MemoryKind, u64)> {
        let block = |block: &Value| {
            let kind = memory_kind(&text(&block["type"])).expect("a type of memory");
            (nodes(&block["numaAffinity"]), kind, number(&block["size"]))
        };
        let mut all: Vec<_> = list(blocks).iter().map(block).collect();
        all.sort();
        all
    };
    let memory = assigned(held).into_iter();
    let memory =
        memory.map(|(nodes, kind, bytes)| MemoryBlock { nodes, kind, bytes: Bytes(bytes) }).collect();
    if held.is_array() {
        let held = Placement { memory, ..Placement::default() };
        hold(&mut occupancy, &machine, &pod, &container, ContainerKind::App, held);
    }
    let mut request = request(0, &row["requests"]);
    request.name = container.as_str().into();
    if row["qosGuaranteed"] != true {
        request.qos = Qos::Burstable;
    }
    let policy = policy(TopologyPolicy::BestEffort);
    let placed =
        admit_container(&machine, &occupancy, &pod.as_str().into(), &request, Some(&seat(row)), &policy);
    let expected = assigned(&row["after"]["assignments"][&pod][&container]);
    match (placed, row["error"].as_str()) {
        (Ok(placed), None) => {
            let blocks = placed.memory.into_iter().map(|block| (block.nodes, block.kind, block.bytes.0));
            let mut ours: Vec<_> = blocks.collect();
            ours.sort();
            same(&ours, &expected)
        }
        (Err(_), Some(_)) => Ok(()),
        (Ok(placed), Some(error)) => Err(format!("placed {placed:?}, expected {error}")),
        (Err(rejection), None) => Err(format!("{rejection}, expected {expected:?}")),
    }
}

/// Why the row may be about something else.
pub fn outside(row: &Value) -> Option<Outside> {
    let wanted = amounts(&row["requests"]);
    let held = outside::held(row, "before");
    let holds = |(kind, bytes): &(MemoryKind, Bytes)| {
        let same = |block: &&Value| memory_kind(&text(&block["type"])) == Some(*kind);
        list(held).iter().filter(same).map(|block| number(&block["size"])).sum::<u64>() == bytes.0
    };
    if held.is_array() && (list(held).len() != wanted.len() || !wanted.iter().all(holds)) {
        return Some(Outside::HeldOtherwise);
    }
    let guaranteed = row["qosGuaranteed"] == true;
    outside::skipped(row, guaranteed && !wanted.is_empty()).then_some(Outside::Skipped)
}
