//! What the log says of a container: what it asks for, what it got, in one line.

use super::ineligible::is_ineligible;
use super::step::verdict;
use super::{Decision, Understood, Verdict};
use crate::model::{
    ContainerFacts, ContainerRequest, DeviceId, DeviceRequest, Placement, PodFacts, Resource, one_line,
};
use std::collections::BTreeSet;

/// The line of a container in the shared pool.
pub(super) fn shared_line(
    pod: &PodFacts,
    container: &ContainerFacts,
    understood: &Understood,
    hidden: bool,
) -> Verdict {
    let reason = match understood.every_gpu {
        true if hidden => "shared pool; GPUs it did not ask for are hidden from it",
        true => "shared pool; its environment shows it every GPU though it asks for none",
        false => "shared pool",
    };
    let line = verdict(pod, Some(container), Decision::Shared, reason.into());
    Verdict { request: describe(&understood.request), warn: understood.every_gpu && !hidden, ..line }
}

/// The line of a container that holds something.
pub(super) fn placed_line(
    pod: &PodFacts,
    container: &ContainerFacts,
    understood: &Understood,
    placement: &Placement,
    (swapped, hidden): (bool, bool),
) -> Verdict {
    let forgotten = is_ineligible(&understood.request);
    let mut reason = sentence(placement);
    if swapped {
        reason.push_str("; its GPUs take the place of those it was given");
    }
    if understood.every_gpu {
        reason.push_str(match hidden {
            true => "; GPUs it was not given are hidden from it",
            false => "; its environment shows it every GPU, not only its own",
        });
    }
    if forgotten {
        reason.push_str("; not pinned: expected a Guaranteed pod with whole CPUs");
    }
    Verdict {
        request: describe(&understood.request),
        placement: Some(placement.clone()),
        warn: forgotten || (understood.every_gpu && !hidden),
        ineligible: forgotten,
        ..verdict(pod, Some(container), Decision::Placed, reason)
    }
}

/// Where something sits, in words.
pub(super) fn sentence(placement: &Placement) -> String {
    let place = match (&placement.affinity, placement.preferred) {
        (None, _) => "placed without locality".to_owned(),
        (Some(nodes), true) => format!("aligned on {}", nodes.words()),
        (Some(nodes), false) => format!("not aligned, on nodes {nodes}"),
    };
    match placement.cpus.is_empty() {
        true => format!("{place}, shared CPUs"),
        false => format!("{place}, CPUs {}", placement.cpus),
    }
}

/// The request in one line, for the log.
pub(super) fn describe(request: &ContainerRequest) -> String {
    let mut parts = Vec::new();
    match request.exclusive_cpus() {
        Some(count) => parts.push(Resource::Cpu.amount(u64::from(count))),
        None if request.cpu_milli > 0 => parts.push(format!("{}m CPU shared", request.cpu_milli)),
        None => {}
    }
    if request.memory.0 > 0 {
        parts.push(request.memory.to_string());
    }
    for (size, bytes) in &request.hugepages {
        parts.push(format!("{} hugepages of {size}", bytes.0 / size.bytes()));
    }
    for (resource, wanted) in &request.devices {
        parts.push(match wanted {
            DeviceRequest::Count(count) => Resource::Device(resource.clone()).amount(u64::from(*count)),
            DeviceRequest::Exact(ids) => format!("{resource} {}", join(ids)),
            DeviceRequest::Claimed(ids) => format!("{resource} {} (claimed)", join(ids)),
        });
    }
    match parts.is_empty() {
        true => "nothing".into(),
        false => one_line(&parts.join(", ")),
    }
}

fn join(ids: &BTreeSet<DeviceId>) -> String {
    ids.iter().map(DeviceId::as_str).collect::<Vec<_>>().join("+")
}
