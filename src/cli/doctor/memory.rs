//! The Memory Manager: its policy, and whether what it reserves adds up.

use super::Check;
use super::facts::Facts;
use super::finding::Finding;
use crate::discover::{Place, Said};
use crate::model::{Bytes, Quantity};
use std::collections::BTreeMap;

pub(super) const CHECKS: &[Check] = &[manager_policy, reserved_sum, reserved_nodes, amounts];

/// What the kubelet keeps free where nobody tells it anything (`eviction.DefaultEvictionHard`).
const DEFAULT_EVICTION: u64 = 100 << 20;

fn is_static(facts: &Facts) -> bool {
    facts.kubelet.word("memoryManagerPolicy").is_some_and(|said| said.value == "Static")
}

fn manager_policy(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "memory.manager-policy";
    if !facts.sees_settings() {
        return Vec::new();
    }
    let told = facts.kubelet.word("memoryManagerPolicy");
    let told = told
        .unwrap_or_else(|| Said { value: "None".to_owned(), place: Place::words("the kubelet's default") });
    match told.value.as_str() {
        "Static" => vec![Finding::ok(CHECK, "the memory manager's policy is Static")],
        "None" if !facts.kubelet_is_static() => {
            vec![Finding::ok(
                CHECK,
                "maitred promises memory per node: the kubelet's memory manager is not needed",
            )]
        }
        "None" => {
            let title = "the kubelet gives out CPUs without looking at the memory of their node: maitred then rejects a \
                         container whose node is full, where the kubelet could have chosen another";
            let fix = match needed(facts) {
                Ok(needed) => {
                    let share = even_shares(facts, needed.total);
                    format!(
                        "{}\n  and {}",
                        facts.tell_kubelet("memory-manager-policy=Static", "memoryManagerPolicy: Static"),
                        flag(&share)
                    )
                }
                Err(_) => facts.tell_kubelet("memory-manager-policy=Static", "memoryManagerPolicy: Static"),
            };
            vec![Finding::warning(CHECK, title).seen(&told.place, told.value).fix(fix)]
        }
        other => {
            let title = format!(
                "the kubelet knows no memory manager policy {other:?} (they are None and Static) and does not start"
            );
            let fix = facts.tell_kubelet("memory-manager-policy=Static", "memoryManagerPolicy: Static");
            vec![Finding::error(CHECK, title).seen(&told.place, other).fix(fix)]
        }
    }
}

/// What the reserved memory of all nodes must add up to, and why.
struct Needed {
    total: u64,
    parts: Vec<(Place, String)>,
}

/// kube-reserved + system-reserved + the hard eviction threshold; the error says what cannot be read.
fn needed(facts: &Facts) -> Result<Needed, String> {
    let mut needed = Needed { total: 0, parts: Vec::new() };
    for key in ["kubeReserved", "systemReserved"] {
        let Some(said) = facts.kubelet.map(key) else { continue };
        let Some(text) = said.value.get("memory") else { continue };
        needed.total = needed.total.saturating_add(bytes(text)?);
        needed.parts.push((said.place, format!("{key} memory {text}")));
    }
    let (threshold, place, text) = eviction(facts)?;
    needed.total = needed.total.saturating_add(threshold);
    needed.parts.push((place, format!("eviction threshold memory.available {text}")));
    Ok(needed)
}

fn eviction(facts: &Facts) -> Result<(u64, Place, String), String> {
    let Some(said) = facts.kubelet.map("evictionHard") else {
        // RKE2 and k3s name thresholds of file systems, and then only those that are named are there.
        return Ok(match &facts.distribution {
            Some(found) => (0, Place::words(&format!("{}'s default", found.kind.name())), "0".to_owned()),
            None => {
                (DEFAULT_EVICTION, Place::words("the kubelet's default"), Bytes(DEFAULT_EVICTION).to_string())
            }
        });
    };
    let Some(text) = said.value.get("memory.available") else {
        let merged = facts.kubelet.truth("mergeDefaultEvictionSettings").is_some_and(|said| said.value);
        let threshold = if merged { DEFAULT_EVICTION } else { 0 };
        return Ok((threshold, said.place, format!("{}, as evictionHard has none", Bytes(threshold))));
    };
    let threshold = match text.strip_suffix('%') {
        Some(percent) => {
            let percent: f64 =
                percent.parse().map_err(|_| format!("evictionHard memory.available {text}"))?;
            let machine = facts.machine.as_ref().map_err(Clone::clone)?;
            let memory: u64 = machine.topology.numa_nodes.iter().map(|node| node.memory_bytes).sum();
            // The kubelet multiplies floats, too.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let share = (memory as f64 * percent.clamp(0.0, 100.0) / 100.0) as u64;
            share
        }
        None => bytes(text)?,
    };
    Ok((threshold, said.place, text.clone()))
}

fn bytes(text: &str) -> Result<u64, String> {
    text.parse::<Quantity>().map(Quantity::units).map_err(|error| error.to_string())
}

/// The memory reserved on each node; the error says what cannot be read.
fn reserved(facts: &Facts) -> Result<Option<Said<BTreeMap<u32, u64>>>, String> {
    let Some(said) = facts.kubelet.reserved_memory() else { return Ok(None) };
    let mut by_node = BTreeMap::new();
    for (node, limits) in &said.value {
        by_node.insert(*node, limits.get("memory").map_or(Ok(0), |text| bytes(text))?);
    }
    Ok(Some(Said { value: by_node, place: said.place }))
}

fn even_shares(facts: &Facts, total: u64) -> BTreeMap<u32, u64> {
    let nodes =
        facts.machine.as_ref().map_or_else(|_| Vec::new(), |machine| machine.topology.numa_nodes.clone());
    let mut ids: Vec<u32> = nodes.iter().filter(|node| node.memory_bytes > 0).map(|node| node.id.0).collect();
    if ids.is_empty() {
        ids.push(0);
    }
    let mebibytes = total >> 20;
    let (each, rest) = (mebibytes / ids.len() as u64, mebibytes % ids.len() as u64);
    let mut shares: BTreeMap<u32, u64> = ids.iter().map(|id| (*id, each << 20)).collect();
    // What is no whole Mi goes to the first node as well: the sum must be exact.
    if let Some(first) = shares.values_mut().next() {
        *first += (rest << 20) + (total & ((1 << 20) - 1));
    }
    shares
}

/// `reserved-memory=0:memory=6Gi;1:memory=6Gi`, in quotes as a list's item.
fn flag(shares: &BTreeMap<u32, u64>) -> String {
    let parts: Vec<_> =
        shares.iter().map(|(node, bytes)| format!("{node}:memory={}", exact(*bytes))).collect();
    format!("\"reserved-memory={}\"", parts.join(";"))
}

/// Without rounding.
fn exact(bytes: u64) -> String {
    let units = [("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let whole = units.iter().find(|(_, shift)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    whole.map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

fn reserved_sum(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "memory.reserved-memory";
    if !is_static(facts) {
        return Vec::new();
    }
    let unreadable = |error: String| {
        let title = "an amount of reserved memory cannot be read: the kubelet does not start";
        vec![Finding::error(CHECK, title).seen(&Place::words("reading it"), error)]
    };
    let (needed, reserved) = match (needed(facts), reserved(facts)) {
        (Ok(needed), Ok(reserved)) => (needed, reserved),
        (Err(error), _) | (_, Err(error)) => return unreadable(error),
    };
    let sum: u64 = reserved.iter().flat_map(|said| said.value.values()).sum();
    if reserved.is_some() && sum == needed.total {
        return vec![Finding::ok(CHECK, format!("the reserved memory adds up to {}", Bytes(sum)))];
    }
    let title = match &reserved {
        None => "the memory manager's policy is Static and no memory is reserved per node: the kubelet does not start".to_owned(),
        Some(_) => format!(
            "the memory reserved on the nodes adds up to {}, and the kubelet expects {}: it does not start",
            Bytes(sum),
            Bytes(needed.total)
        ),
    };
    let mut finding = Finding::error(CHECK, title);
    if let Some(said) = &reserved {
        let each: Vec<_> =
            said.value.iter().map(|(node, bytes)| format!("{node}: {}", Bytes(*bytes))).collect();
        finding = finding.seen(&said.place, format!("reservedMemory {}", each.join(", ")));
    }
    finding = needed.parts.iter().fold(finding, |finding, (place, part)| finding.seen(place, part.as_str()));
    let shares = even_shares(facts, needed.total);
    let flag = flag(&shares);
    let lines: String = shares
        .iter()
        .map(|(node, bytes)| format!("\n  - numaNode: {node}\n    limits:\n      memory: {}", exact(*bytes)))
        .collect();
    vec![finding.fix(facts.tell_kubelet(flag.trim_matches('"'), &format!("reservedMemory:{lines}")))]
}

fn reserved_nodes(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "memory.reserved-nodes";
    let (Ok(Some(reserved)), Ok(machine)) = (reserved(facts), &facts.machine) else { return Vec::new() };
    let has = |node: &u32| machine.topology.numa_nodes.iter().any(|one| one.id.0 == *node);
    if let Some(node) = reserved.value.keys().find(|node| !has(node)) {
        let title =
            format!("memory is reserved on node {node}, which there is not: the kubelet does not start");
        let finding = Finding::error(CHECK, title).seen(&reserved.place, format!("numaNode {node}"));
        let finding =
            finding.seen_in("sys/devices/system/node/online", machine.topology.node_ids().to_string());
        return vec![finding.fix(format!("name the nodes {} only", machine.topology.node_ids()))];
    }
    let bare: Vec<_> = machine
        .topology
        .numa_nodes
        .iter()
        .filter(|node| node.memory_bytes > 0 && !reserved.value.contains_key(&node.id.0))
        .map(|node| node.id.to_string())
        .collect();
    if bare.is_empty() {
        return vec![Finding::ok(CHECK, "memory is reserved on every node")];
    }
    let title = format!(
        "no memory is reserved on node {}: pods can be promised all of it, and the system's part is missing",
        bare.join(", ")
    );
    vec![Finding::note(CHECK, title).seen(&reserved.place, "reservedMemory")]
}

/// What maitred keeps free itself.
fn amounts(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "memory.reserved";
    let Ok(config) = &facts.config else { return Vec::new() };
    if !config.memory.reserved.is_empty() {
        return vec![Finding::ok(CHECK, "maitred keeps memory of its nodes for the system")];
    }
    let title = "maitred keeps no memory for the system: it promises pods everything a node has";
    let fix = format!(
        "in {}, under [memory]: reserved = {{ 0 = {{ memory = \"4Gi\" }} }}, with a part for each node; what kube-reserved \
         and system-reserved say, divided among the nodes, is a good amount",
        facts.config_file.file
    );
    vec![Finding::note(CHECK, title).seen(&facts.config_file, "no memory.reserved").fix(fix)]
}
