//! What is read of huge pages before a container is decided about that is to get some.

use super::handler::Cgroups;
use crate::decision::{Event, Pages, State, hides_hugepages, wants_hugepages};
use crate::model::HugepageHints;

/// The machine's huge pages, where the event is about a container that is to get some; what its limits do not tell
/// is put into the event.
pub(super) fn read(cgroups: &dyn Cgroups, event: &mut Event, state: &State) -> Option<Pages> {
    let Event::Create(pod, container) = event else { return None };
    if hides_hugepages(container) {
        let hints = cgroups.hugepage_hints(&pod.cgroup_parent, &container.mounts);
        container.hugepages = hints.unwrap_or_else(|error| {
            tracing::warn!(container_id = %container.id, %error, "its huge pages cannot be told");
            HugepageHints::default()
        });
    }
    wants_hugepages(pod, container).then(|| free(cgroups, state))
}

/// The huge pages that are really free; nothing is known of them where they cannot be read, and the books alone
/// decide.
fn free(cgroups: &dyn Cgroups, state: &State) -> Pages {
    let holders: Vec<_> = state.hugepage_holders().map(|(id, path)| (id.clone(), path.to_owned())).collect();
    cgroups.hugepages(&holders).unwrap_or_else(|error| {
        tracing::warn!(%error, "free huge pages cannot be read: deciding by what was promised alone");
        Pages::default()
    })
}
