//! The pinning everyone forgets: a GPU, NIC or hugepages, and no exclusive CPUs.

use super::{Ineligible, words};
use crate::model::{ContainerRequest, Reason, Rejection};

/// Whether something of a container has a place and its CPUs have none.
fn lacks_cpus(request: &ContainerRequest) -> bool {
    let has_place = !request.devices.is_empty() || !request.hugepages.is_empty();
    has_place && request.exclusive_cpus().is_none()
}

/// The same, without its having asked for that.
pub(super) fn is_ineligible(request: &ContainerRequest) -> bool {
    lacks_cpus(request) && !request.opt_out
}

/// What the owner's rule says of a container that fits otherwise.
///
/// # Errors
/// The refusal, where the rule is [`Ineligible::Reject`] and the container is one of these.
pub fn check_eligible(request: &ContainerRequest, rule: Ineligible) -> Result<(), Box<Rejection>> {
    // Having asked for it is no way around the owner's rule.
    if rule != Ineligible::Reject || !lacks_cpus(request) {
        return Ok(());
    }
    let text = format!(
        "asks for {} but gets no exclusive CPUs (policy.ineligible = reject): expected a Guaranteed pod with whole CPUs",
        words::describe(request)
    );
    Err(Box::new(Rejection::of_container(Reason::InvalidRequest, request.name.clone(), text)))
}
