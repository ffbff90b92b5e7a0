//! Who is in a container's cgroup, above or below it: one cpuset binds them all, so none of them can have CPUs of its
//! own.

use super::OciError;
use super::desk::Place;
use crate::decision::Known;
use crate::host::Cgroups;
use crate::model::ContainerId;
use crate::store::Allocation;

/// A container that runs, and where.
struct Neighbour {
    id: ContainerId,
    cgroup: String,
    /// It has CPUs of its own.
    owns: bool,
}

/// All that run.
pub(super) struct Neighbours(Vec<Neighbour>);

impl Neighbours {
    pub fn of(living: &[(Allocation, Known)]) -> Self {
        let runs = living.iter().filter(|(_, known)| known.runs);
        let neighbour = |(one, known): &(Allocation, Known)| {
            let owns = !known.record.placement().cpus.is_empty();
            Some(Neighbour { id: one.id.clone(), cgroup: known.cgroups_path.clone()?, owns })
        };
        Self(runs.filter_map(neighbour).collect())
    }

    /// Fails where `id` and another would be bound by one cpuset, and either has CPUs of its own; `shares` is that `id`
    /// has none.
    pub fn keep_apart(
        &self,
        id: &ContainerId,
        place: &Place,
        shares: bool,
        there: &Cgroups,
    ) -> Result<(), OciError> {
        for other in self.0.iter().filter(|other| other.owns || !shares) {
            let bound = |cgroup: &&String| {
                there.is_within(cgroup, &other.cgroup) || there.is_within(&other.cgroup, cgroup)
            };
            if let Some(cgroup) = place.cgroups.iter().find(bound) {
                return Err(OciError::Together {
                    id: id.clone(),
                    cgroup: cgroup.clone(),
                    other: other.id.clone(),
                });
            }
        }
        Ok(())
    }
}
