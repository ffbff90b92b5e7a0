//! The entry points: decide, and where the answer is no, have it explained.

use super::explain::explain;
use super::merge::{Merged, merge};
use super::need::Need;
use super::offer::Offer;
use super::refuse::{Failure, Refusal};
use super::{Machine, Occupancy};
use crate::model::{
    ContainerKey, ContainerName, ContainerRequest, NodeSet, Placement, PodRequest, PodUid, Policy, Reason,
    Rejection, Scope, TopologyPolicy, UnknownLocality,
};
use std::borrow::Cow;

/// The nodes chosen for a whole pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// The nodes; `None` is no preference.
    pub affinity: Option<NodeSet>,
    /// Whether it is the best the policy knows.
    pub preferred: bool,
}

/// Seats every container of a pod, in order; the scope is the policy's.
///
/// # Errors
/// The rejection, with its evidence.
pub fn admit_pod(
    machine: &Machine,
    occupancy: &Occupancy,
    pod: &PodRequest,
    policy: &Policy,
) -> Result<Vec<(ContainerName, Placement)>, Rejection> {
    let seated = seat_pod(machine, occupancy, pod, policy);
    seated.map_err(|refusal| explain_pod(machine, occupancy, pod, policy, &refusal))
}

/// Chooses the nodes for a pod of which only sums may be known, and reserves nothing.
///
/// # Errors
/// The rejection, with its evidence.
pub fn choose_seat(
    machine: &Machine,
    occupancy: &Occupancy,
    pod: &PodRequest,
    policy: &Policy,
) -> Result<Seat, Rejection> {
    let merged = align_pod(machine, occupancy, pod, policy)
        .map_err(|refusal| explain_pod(machine, occupancy, pod, policy, &refusal))?;
    Ok(Seat { affinity: merged.affinity.map(|mask| machine.node_set(mask)), preferred: merged.preferred })
}

/// Seats one container: on the pod's seat where there is one, else aligned by itself. What it already
/// holds it gets again if that is still what it asks for; else it is seated as if it held nothing.
///
/// # Errors
/// The rejection, with its evidence.
pub fn admit_container(
    machine: &Machine,
    occupancy: &Occupancy,
    pod: &PodUid,
    container: &ContainerRequest,
    seat: Option<&Seat>,
    policy: &Policy,
) -> Result<Placement, Rejection> {
    let seat = seat.map(|seat| Merged {
        affinity: seat.affinity.as_ref().map(|nodes| machine.mask(nodes)),
        preferred: seat.preferred,
    });
    let bound = seat.is_some_and(|seat| seat.affinity.is_some());
    seat_container(machine, occupancy, pod, container, seat, policy).map_err(|refusal| {
        let nodes = |weaker: &Policy| {
            // No policy takes a container off its pod's nodes.
            let free = (!bound).then_some(weaker)?;
            let placed = seat_container(machine, occupancy, pod, container, None, free).ok()?;
            Some(machine.used_by(&placed))
        };
        let mut rejection = explain((machine, occupancy), pod, policy, &refusal, &nodes);
        if bound && rejection.reason == Reason::UnexpectedAdmission {
            rejection.reason = Reason::TopologyAffinity;
        }
        rejection
    })
}

fn explain_pod(
    machine: &Machine,
    occupancy: &Occupancy,
    pod: &PodRequest,
    policy: &Policy,
    refusal: &Refusal,
) -> Rejection {
    explain((machine, occupancy), &pod.uid, policy, refusal, &|weaker| {
        pod_nodes(machine, occupancy, pod, weaker)
    })
}

/// The nodes a pod would use under another policy, if that admits it.
fn pod_nodes(machine: &Machine, occupancy: &Occupancy, pod: &PodRequest, policy: &Policy) -> Option<NodeSet> {
    let placed = seat_pod(machine, occupancy, pod, policy).ok()?;
    Some(placed.iter().fold(NodeSet::new(), |nodes, (_, placed)| nodes.union(&machine.used_by(placed))))
}

fn seat_pod(
    machine: &Machine,
    occupancy: &Occupancy,
    pod: &PodRequest,
    policy: &Policy,
) -> Result<Vec<(ContainerName, Placement)>, Box<Refusal>> {
    // What the pod holds already it keeps: after a restart there may be no room to choose nodes again.
    let settled = pod
        .containers
        .iter()
        .all(|container| held(machine, occupancy, &pod.key(container), container, policy).is_some());
    let aligned = policy.scope == Scope::Pod && policy.topology != TopologyPolicy::None && !settled;
    let seat = aligned.then(|| align_pod(machine, occupancy, pod, policy)).transpose()?;
    // Most pods have one container: then nothing is booked, and nothing is copied.
    let mut taken = Cow::Borrowed(occupancy);
    let mut placements = Vec::with_capacity(pod.containers.len());
    for (before, container) in pod.containers.iter().enumerate() {
        if let (Some(last), Some((_, placement))) = (pod.containers[..before].last(), placements.last()) {
            taken.to_mut().reserve(machine, pod.key(last), last.kind, placement);
        }
        let placed = seat_container(machine, &taken, &pod.uid, container, seat, policy);
        let placement = placed.map_err(|refusal| match &taken {
            Cow::Borrowed(_) => refusal,
            Cow::Owned(taken) => refusal.with(taken),
        })?;
        placements.push((container.name.clone(), placement));
    }
    Ok(placements)
}

fn align_pod(
    machine: &Machine,
    occupancy: &Occupancy,
    pod: &PodRequest,
    policy: &Policy,
) -> Result<Merged, Box<Refusal>> {
    let offer = Offer::new(machine, occupancy, &pod.uid, policy);
    let refuse = |need: Option<&Need>, failure| Refusal::new(None, need, None, failure);
    let need = Need::of_pod(machine, pod, policy).map_err(|failure| refuse(None, failure))?;
    offer.align(&need).map_err(|failure| refuse(Some(&need), failure))
}

fn seat_container(
    machine: &Machine,
    occupancy: &Occupancy,
    pod: &PodUid,
    container: &ContainerRequest,
    seat: Option<Merged>,
    policy: &Policy,
) -> Result<Placement, Box<Refusal>> {
    let key = ContainerKey::new(pod.clone(), container.name.clone());
    if occupancy.placement(&key).is_none() {
        return seat_new(machine, occupancy, pod, container, seat, policy);
    }
    if let Some(held) = held(machine, occupancy, &key, container, policy) {
        return Ok(held.clone());
    }
    let mut without = occupancy.clone();
    without.release(machine, &key);
    seat_new(machine, &without, pod, container, seat, policy).map_err(|refusal| refusal.with(&without))
}

/// What a container holds, if it is what it asks for.
fn held<'a>(
    machine: &Machine,
    occupancy: &'a Occupancy,
    key: &ContainerKey,
    container: &ContainerRequest,
    policy: &Policy,
) -> Option<&'a Placement> {
    let held = occupancy.placement(key)?;
    let need = Need::of(machine, container, policy).ok()?;
    need.is_met_by(machine, held).then_some(held)
}

fn seat_new(
    machine: &Machine,
    occupancy: &Occupancy,
    pod: &PodUid,
    container: &ContainerRequest,
    seat: Option<Merged>,
    policy: &Policy,
) -> Result<Placement, Box<Refusal>> {
    let refuse = |need: Option<&Need>, failure| Refusal::new(Some(&container.name), need, seat, failure);
    let need = Need::of(machine, container, policy).map_err(|failure| refuse(None, failure))?;
    let placed = Offer::new(machine, occupancy, pod, policy).place(&need, seat);
    placed.map_err(|failure| refuse(Some(&need), failure))
}

impl Offer<'_> {
    /// Aligns, unless the nodes are chosen already, and takes.
    pub(super) fn place(&self, need: &Need, seat: Option<Merged>) -> Result<Placement, Failure> {
        let merged = match seat {
            Some(seat) => self.check_locality(need).map(|()| seat)?,
            None => self.align(need)?,
        };
        self.allocate(need, merged)
    }

    /// Chooses the nodes.
    fn align(&self, need: &Need) -> Result<Merged, Failure> {
        if self.policy.topology == TopologyPolicy::None {
            return Ok(Merged::FREE);
        }
        self.check_locality(need)?;
        merge(self.machine, &self.hints(need), self.policy).ok_or(Failure::Affinity)
    }

    /// A device that is not known to be anywhere is not known to be near.
    fn check_locality(&self, need: &Need) -> Result<(), Failure> {
        let strict =
            matches!(self.policy.topology, TopologyPolicy::Restricted | TopologyPolicy::SingleNumaNode);
        let matters = strict && self.policy.unknown_locality == UnknownLocality::Reject;
        if !matters || self.machine.nodes().len() < 2 {
            return Ok(());
        }
        for (resource, need) in &need.devices {
            let table = self.machine.devices.get(resource);
            let known = |id| self.machine.place(resource, id).is_some_and(|mask| !mask.is_empty());
            if let Some(id) = need.named().find(|id| !known(id)) {
                return Err(Failure::UnknownLocality { resource: resource.clone(), id: Some(id.clone()) });
            }
            let free = table.map(|table| self.free_devices(resource, table, need)).unwrap_or_default();
            let known = free.iter().filter(|(_, mask)| !mask.is_empty()).count();
            if known < need.count && known < free.len() {
                return Err(Failure::UnknownLocality { resource: resource.clone(), id: None });
            }
        }
        Ok(())
    }
}
