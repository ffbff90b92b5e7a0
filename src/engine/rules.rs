//! Single rules, apart from the decisions they are part of: what the conformance vectors of the
//! kubelet's unit tests are compared with. Not for use.

use super::hints::{Hints, Preference, Shape};
use super::layout::Layout;
use super::machine::Machine;
use super::mask::Mask;
use super::merge::merge;
use super::need::Need;
use super::occupancy::Occupancy;
use super::offer::Offer;
use super::take::{Style, take};
use crate::model::{ContainerRequest, CpuSet, NodeSet, PodUid, Policy, Topology};

/// Which CPUs are taken.
#[must_use]
pub fn taken(
    topology: &Topology,
    available: &CpuSet,
    need: usize,
    (spread, caches, distribute): (bool, bool, Option<usize>),
) -> Option<CpuSet> {
    take(&Layout::new(topology), available, need, Style { spread, caches, distribute })
}

/// Node sets and whether they are preferred.
pub type Listed = Vec<(NodeSet, bool)>;

/// The hints of each resource that has a preference, as lists. Empty for a request that cannot be
/// expressed.
#[must_use]
pub fn hints(
    machine: &Machine,
    occupancy: &Occupancy,
    pod: &PodUid,
    request: &ContainerRequest,
    policy: &Policy,
) -> Vec<Listed> {
    let offer = Offer::new(machine, occupancy, pod, policy);
    let need = Need::of(machine, request, policy).unwrap_or_default();
    offer.hints(&need).iter().map(|hints| list(machine, hints)).collect()
}

fn list(machine: &Machine, hints: &Hints) -> Listed {
    let nodes: Vec<usize> = hints.universe.iter().take(16).collect();
    let subset = |bits: u32| nodes.iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1);
    let masks = (1..1u32 << nodes.len()).map(|bits| subset(bits).map(|(_, node)| *node).collect::<Mask>());
    let masks = masks.filter(|mask| hints.contains(*mask));
    masks.map(|mask| (machine.node_set(mask), hints.prefers(machine, mask))).collect()
}

/// Merges lists of hints; the affinity, whether it is preferred, whether the policy admits.
#[must_use]
pub fn merged(machine: &Machine, lists: &[Listed], policy: &Policy) -> (Option<NodeSet>, bool, bool) {
    let hints: Vec<Hints> = lists.iter().map(|list| from_list(machine, list)).collect();
    match merge(machine, &hints, policy) {
        Some(merged) => (merged.affinity.map(|mask| machine.node_set(mask)), merged.preferred, true),
        None => (None, false, false),
    }
}

fn from_list(machine: &Machine, list: &Listed) -> Hints {
    let masks = || list.iter().map(|(nodes, preferred)| (machine.mask(nodes), *preferred));
    let single = |mask: &Mask| mask.count() == 1;
    let shape = Shape {
        singles: masks().map(|(mask, _)| mask).filter(single).fold(Mask::EMPTY, |all, mask| all | mask),
        unused: Mask::EMPTY,
        groups: masks().map(|(mask, _)| mask).filter(|mask| !single(mask)).collect(),
        reusable: Vec::new(),
    };
    let preferred = masks().filter(|(_, preferred)| *preferred).map(|(mask, _)| mask);
    let preference = Preference::Listed(preferred.collect());
    Hints { universe: machine.all(), demands: Vec::new(), shape: Some(shape), preference }
}
