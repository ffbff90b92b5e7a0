//! The entry points.

use super::merge::{Merged, merge};
use super::need::Need;
use super::offer::Offer;
use super::refuse::Failure;
use super::{Machine, Occupancy};
use crate::model::{
    ContainerKey, ContainerName, ContainerRequest, NodeSet, Placement, PodRequest, PodUid, Policy, Rejection,
    Scope, TopologyPolicy, UnknownLocality,
};

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
    let aligned = policy.scope == Scope::Pod && policy.topology != TopologyPolicy::None;
    let seat = aligned.then(|| choose_seat(machine, occupancy, pod, policy)).transpose()?;
    let mut taken = occupancy.clone();
    let mut placements = Vec::with_capacity(pod.containers.len());
    for container in &pod.containers {
        let placement = admit_container(machine, &taken, &pod.uid, container, seat.as_ref(), policy)?;
        taken.reserve(machine, pod.key(container), container.kind, &placement);
        placements.push((container.name.clone(), placement));
    }
    Ok(placements)
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
    let offer = Offer::new(machine, occupancy, &pod.uid, policy);
    let need = Need::of_pod(machine, pod, policy).map_err(|failure| offer.refuse(None, None, failure))?;
    let merged = offer.align(&need).map_err(|failure| offer.refuse(None, Some((&need, None)), failure))?;
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
    let key = ContainerKey::new(pod.clone(), container.name.clone());
    let Some(held) = occupancy.placement(&key) else {
        return admit_new(machine, occupancy, pod, container, seat, policy);
    };
    if let Ok(need) = Need::of(machine, container, policy)
        && need.is_met_by(machine, held)
    {
        return Ok(held.clone());
    }
    let mut without = occupancy.clone();
    without.release(machine, &key);
    admit_new(machine, &without, pod, container, seat, policy)
}

fn admit_new(
    machine: &Machine,
    occupancy: &Occupancy,
    pod: &PodUid,
    container: &ContainerRequest,
    seat: Option<&Seat>,
    policy: &Policy,
) -> Result<Placement, Rejection> {
    let offer = Offer::new(machine, occupancy, pod, policy);
    let name = Some(&container.name);
    let need = Need::of(machine, container, policy).map_err(|failure| offer.refuse(name, None, failure))?;
    let seat = seat.map(|seat| Merged {
        affinity: seat.affinity.as_ref().map(|nodes| machine.mask(nodes)),
        preferred: seat.preferred,
    });
    let placed = offer.place(&need, seat);
    placed.map_err(|failure| offer.refuse(name, Some((&need, seat)), failure))
}

impl Offer<'_> {
    /// Aligns, unless the nodes are chosen already, and takes.
    pub(super) fn place(&self, need: &Need, seat: Option<Merged>) -> Result<Placement, Failure> {
        let merged = match seat {
            Some(seat) => seat,
            None => self.align(need)?,
        };
        self.allocate(need, merged)
    }

    /// Chooses the nodes.
    pub(super) fn align(&self, need: &Need) -> Result<Merged, Failure> {
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
            let known = |id| table.and_then(|table| table.mask(id)).is_some_and(|mask| !mask.is_empty());
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
