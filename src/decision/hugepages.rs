//! Huge pages that are really there. A promise is bookkeeping against the node's total; pages that something
//! outside the books uses (a virtual machine, DPDK on the host) are gone all the same, and a container placed on
//! them would die of SIGBUS at its first touch.

use super::State;
use super::annotations::names_any_hugepages;
use crate::engine::Occupancy;
use crate::model::{
    Bytes, ContainerFacts, ContainerId, ContainerKey, HugepageSize, MemoryKind, NodeId, PodFacts,
};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Bytes of huge pages by node and page size.
pub type PagesByNode = BTreeMap<(NodeId, HugepageSize), Bytes>;

/// What was read of the machine's huge pages a moment ago.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pages {
    /// `free_hugepages` of each node.
    pub free: PagesByNode,
    /// What containers with a promise use (`hugetlb.<size>.numa_stat`); one that is not listed, and a size that is
    /// not listed of one that is, could not be read.
    pub in_use: BTreeMap<ContainerId, PagesByNode>,
}

/// Whether a container's huge pages are to be looked for elsewhere: its limits tell of none, as they do where the
/// runtime hides them.
#[must_use]
pub fn hides_hugepages(container: &ContainerFacts) -> bool {
    container.resources.hugepage_limits.iter().all(|(_, bytes)| *bytes == 0)
}

/// Whether a container is to get huge pages, as far as can be told before anything is decided.
#[must_use]
pub fn wants_hugepages(pod: &PodFacts, container: &ContainerFacts) -> bool {
    !hides_hugepages(container)
        || !container.hugepages.mounted.is_empty()
        || names_any_hugepages(&pod.annotations)
}

impl State {
    /// Running containers that hold a promise of huge pages, with their cgroups: whose use is worth reading.
    pub fn hugepage_holders(&self) -> impl Iterator<Item = (&ContainerId, &str)> {
        self.live.iter().filter_map(|(id, live)| {
            let holding = self.ledger.get(&live.key)?;
            let promised = holding.placement.page_sizes().next().is_some();
            promised.then_some((id, live.cgroups_path.as_str()))
        })
    }

    /// What is taken as a container meets it that nobody knows yet: of huge pages no more is free than really is.
    #[must_use]
    pub fn occupancy(&self) -> Cow<'_, Occupancy> {
        self.occupancy_for(&ContainerKey::new("".into(), "".into()))
    }

    /// The occupancy as `key` meets it: of huge pages no more than are really free, less what others have been
    /// promised and do not use yet. Its own promise does not stand in its own way.
    pub(super) fn occupancy_for(&self, key: &ContainerKey) -> Cow<'_, Occupancy> {
        let occupancy = self.ledger.occupancy();
        if self.pages.free.is_empty() {
            return Cow::Borrowed(occupancy);
        }
        let mut limits = self.pages.free.clone();
        for (holder, holding) in self.ledger.iter().filter(|(holder, _)| *holder != key) {
            for block in &holding.placement.memory {
                // What several nodes hold together is nowhere in particular.
                let (MemoryKind::Hugepages(size), Some(node), 1) =
                    (block.kind, block.nodes.first(), block.nodes.len())
                else {
                    continue;
                };
                let Some(limit) = limits.get_mut(&(node, size)) else { continue };
                let untouched = self.untouched(holder, holding.id.as_ref(), (node, size), block.bytes);
                limit.0 = limit.0.saturating_sub(untouched);
            }
        }
        let limits =
            limits.into_iter().map(|((node, size), bytes)| ((node, MemoryKind::Hugepages(size)), bytes));
        Cow::Owned(occupancy.clone().limited_to(self.ledger.machine(), &limits.collect()))
    }

    /// What a holder has been promised and does not use yet. Where its use is not known nothing is taken off: the
    /// free pages may be less by it already, and the books count the promise in any case.
    fn untouched(
        &self,
        holder: &ContainerKey,
        id: Option<&ContainerId>,
        place: (NodeId, HugepageSize),
        promised: Bytes,
    ) -> u64 {
        let running = id.filter(|id| self.live.get(id).is_some_and(|live| live.key == *holder));
        let used = match running {
            // Nobody runs there: nothing is used, and all of it is still to come.
            None => Some(Bytes(0)),
            Some(id) => self.pages.in_use.get(id).and_then(|used| used.get(&place)).copied(),
        };
        used.map_or(0, |used| promised.0.saturating_sub(used.0))
    }
}
