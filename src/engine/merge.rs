//! From the hints of all resources to one node set: what the Topology Manager's policies decide.
//!
//! The kubelet tries every combination of one hint per resource. A merged hint is preferred only if all
//! its parts are preferred and the same set, so the preferred ones are simply the sets that every
//! resource prefers. Only best-effort needs one that is not preferred. Those are the intersections of
//! one set per resource: up to [`EXACT`] nodes they are computed as one AND-convolution per resource,
//! beyond it best-effort takes the narrowest set of the resource that needs the most nodes.

use super::hints::{Common, Hints};
use super::machine::Machine;
use super::mask::Mask;
use super::search::{Budget, EXACT};
use crate::model::{Policy, TopologyPolicy};
use std::cmp::Reverse;

/// The nodes for everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Merged {
    /// The nodes; `None` is no affinity.
    pub(super) affinity: Option<Mask>,
    /// Whether every resource prefers them.
    pub(super) preferred: bool,
}

impl Merged {
    /// Nothing is aligned, and nothing is claimed to be.
    pub(super) const FREE: Self = Self { affinity: None, preferred: false };
}

/// Merges hints by the policy; `None` is not admitted. Resources without locality have no hints here.
pub(super) fn merge(machine: &Machine, hints: &[Hints], policy: &Policy) -> Option<Merged> {
    if policy.topology == TopologyPolicy::None {
        return Some(Merged::FREE);
    }
    let single = policy.topology == TopologyPolicy::SingleNumaNode;
    let closest = policy.prefer_closest && !single;
    if let Some(mask) = preferred(machine, hints, single, closest) {
        // To the single-node policy the whole machine is no affinity.
        let affinity = (!single || mask != machine.all()).then_some(mask);
        return Some(Merged { affinity, preferred: true });
    }
    (policy.topology == TopologyPolicy::BestEffort)
        .then(|| Merged { affinity: Some(any(machine, hints, closest)), preferred: false })
}

/// The best set that all resources prefer.
fn preferred(machine: &Machine, hints: &[Hints], single: bool, closest: bool) -> Option<Mask> {
    if hints.is_empty() {
        return Some(machine.all());
    }
    let all: Vec<&Hints> = hints.iter().collect();
    let common = Common::new(&all, &[]);
    let mut budget = Budget::new(machine.nodes().len());
    let accept = |mask| hints.iter().all(|hints| hints.prefers(machine, mask));
    if single {
        return best_of_size(machine, &common, 1, closest, &mut budget, &accept);
    }
    let fixed = hints.iter().filter_map(Hints::size);
    let (least, most) = (fixed.clone().min(), fixed.max());
    let sizes = least.unwrap_or(1)..=most.unwrap_or(machine.nodes().len());
    if least != most || !hints.iter().all(Hints::possible) {
        return None;
    }
    sizes.into_iter().find_map(|size| best_of_size(machine, &common, size, closest, &mut budget, &accept))
}

fn best_of_size(
    machine: &Machine,
    common: &Common,
    size: usize,
    closest: bool,
    budget: &mut Budget,
    accept: &dyn Fn(Mask) -> bool,
) -> Option<Mask> {
    let rank = |mask: Mask| (if closest { machine.spread(mask) } else { 0 }, mask);
    let mut best: Option<Mask> = None;
    common.each_of_size(size, budget, &mut |mask| {
        if !accept(mask) {
            return true;
        }
        if best.is_none_or(|best| rank(mask) < rank(best)) {
            best = Some(mask);
        }
        closest
    });
    best
}

/// The best set that is preferred by not all of them.
fn any(machine: &Machine, hints: &[Hints], closest: bool) -> Mask {
    let hints: Vec<&Hints> = hints.iter().filter(|hints| hints.possible()).collect();
    let nodes = machine.nodes().len();
    if hints.is_empty() {
        return machine.all();
    }
    if nodes > EXACT {
        return roughly(machine, &hints);
    }
    let mut reached = vec![0u64; 1 << nodes];
    reached[(1 << nodes) - 1] = 1;
    let mut aim = 0;
    for hints in hints {
        let members: Vec<u64> =
            (0..1u128 << nodes).map(|mask| u64::from(contains(hints, Mask(mask)))).collect();
        let sizes = (0..1u128 << nodes).filter(|mask| members[index(*mask)] > 0);
        aim = aim.max(sizes.map(|mask| Mask(mask).count()).min().unwrap_or(0));
        reached = intersections(reached, members, nodes);
    }
    let rank = |mask: &Mask| {
        let size = mask.count();
        // Of the size aimed at, else below it and as large as possible, else as small as possible.
        let near = if size <= aim { (false, aim - size) } else { (true, size) };
        (near, if closest { machine.spread(*mask) } else { 0 }, *mask)
    };
    let masks = (1..1u128 << nodes).filter(|mask| reached[index(*mask)] > 0).map(Mask);
    masks.min_by_key(rank).unwrap_or_else(|| machine.all())
}

fn contains(hints: &Hints, mask: Mask) -> bool {
    #[cfg(test)]
    super::work::step();
    hints.contains(mask)
}

fn index(mask: u128) -> usize {
    usize::try_from(mask).unwrap_or(usize::MAX)
}

/// Marks every intersection of a set marked in `a` with one marked in `b`.
fn intersections(mut a: Vec<u64>, mut b: Vec<u64>, nodes: usize) -> Vec<u64> {
    let over_supersets = |sets: &mut [u64], op: fn(u64, u64) -> u64| {
        for node in 0..nodes {
            for mask in (0..sets.len()).filter(|mask| mask >> node & 1 == 0) {
                sets[mask] = op(sets[mask], sets[mask | 1 << node]);
            }
        }
    };
    // Counts stay below 2^24, so nothing wraps.
    over_supersets(&mut a, |less, more| less + more);
    over_supersets(&mut b, |less, more| less + more);
    a.iter_mut().zip(b).for_each(|(a, b)| *a *= b);
    over_supersets(&mut a, |less, more| less - more);
    a.iter().map(|count| (*count).min(1)).collect()
}

/// The narrowest set of the resource that needs the most nodes; one that suits every resource, if any.
fn roughly(machine: &Machine, hints: &[&Hints]) -> Mask {
    let narrowest = |hints: &&Hints| hints.narrowest(machine, Mask::EMPTY);
    let widest = hints.iter().filter_map(narrowest).min_by_key(|mask| (Reverse(mask.count()), *mask));
    let Some(widest) = widest else { return machine.all() };
    let all = Common::new(hints, &[]);
    let mut budget = Budget::new(machine.nodes().len());
    all.first_of_size(widest.count(), &mut budget).unwrap_or(widest)
}
