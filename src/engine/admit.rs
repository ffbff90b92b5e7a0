//! The entry points.

use super::{Machine, Occupancy};
use crate::model::{
    ContainerName, ContainerRequest, NodeSet, Placement, PodRequest, PodUid, Policy, Rejection,
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
    _machine: &Machine,
    _occupancy: &Occupancy,
    _pod: &PodRequest,
    _policy: &Policy,
) -> Result<Vec<(ContainerName, Placement)>, Rejection> {
    todo!()
}

/// Chooses the nodes for a pod of which only sums may be known, and reserves nothing.
///
/// # Errors
/// The rejection, with its evidence.
pub fn choose_seat(
    _machine: &Machine,
    _occupancy: &Occupancy,
    _pod: &PodRequest,
    _policy: &Policy,
) -> Result<Seat, Rejection> {
    todo!()
}

/// Seats one container: on the pod's seat where there is one, else aligned by itself.
///
/// # Errors
/// The rejection, with its evidence.
pub fn admit_container(
    _machine: &Machine,
    _occupancy: &Occupancy,
    _pod: &PodUid,
    _container: &ContainerRequest,
    _seat: Option<&Seat>,
    _policy: &Policy,
) -> Result<Placement, Rejection> {
    todo!()
}
