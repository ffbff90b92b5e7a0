//! Whether a container's devices are where its CPUs and its memory are.

use crate::cli::node::Node;
use crate::ledger::Record;
use crate::model::{DeviceId, NodeSet, ResourceName};

/// Devices on other nodes than the container's memory and CPUs, in words; those of unknown locality are on none.
/// Where they were allowed to be apart (a laxer policy), the placement's own nodes say so.
pub(super) fn apart(node: &Node, record: &Record) -> Vec<String> {
    let placement = record.placement();
    let on_cpus = node.state.topology().nodes_of(&placement.cpus);
    let own = if placement.mems.is_empty() { on_cpus.clone() } else { placement.mems.clone() };
    let mut words = Vec::new();
    // Memory policy and cpuset.mems are one thing, where it runs is another.
    if !placement.mems.is_empty() && !on_cpus.is_empty() && on_cpus.is_disjoint(&own) {
        words.push(format!("its CPUs are on {}, its memory on {}", on_cpus.words(), own.words()));
    }
    if own.is_empty() {
        return words;
    }
    for (resource, ids) in &placement.devices {
        for id in ids {
            let place = place(node, resource, id);
            if let Some(place) = place.filter(|place| place.is_disjoint(&own)) {
                words.push(format!(
                    "{} is on {}, its memory and CPUs on {}",
                    name(node, id),
                    place.words(),
                    own.words()
                ));
            }
        }
    }
    words
}

fn place(node: &Node, resource: &ResourceName, id: &DeviceId) -> Option<NodeSet> {
    let devices = node.state.ledger().machine().devices(resource);
    devices.iter().find(|device| device.id == *id)?.nodes.clone()
}

fn name(node: &Node, id: &DeviceId) -> String {
    match node.state.topology().gpu_named(id.as_str()) {
        Some(named) => format!("GPU {} ({id})", named.gpu.index),
        None => id.to_string(),
    }
}
