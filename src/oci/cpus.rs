//! CPUs into the cgroups of containers: what others are given, and what of the shared ones there is room for.

use super::OciError;
use super::desk::Desk;
use crate::decision::CpusetUpdate;
use crate::host::HostError;
use crate::model::{ContainerId, CpuSet};
use std::collections::BTreeMap;

impl Desk {
    /// Gives other containers their CPUs; the last word on each counts. The cgroup comes first: who dies between
    /// the two leaves a note of more than the container has, never of less.
    pub(super) fn write(&self, updates: &[CpusetUpdate]) {
        let last: BTreeMap<&ContainerId, &CpusetUpdate> =
            updates.iter().map(|update| (&update.id, update)).collect();
        let mut told = BTreeMap::new();
        for update in last.into_values() {
            match self.write_one(update) {
                Ok(()) => drop(told.insert(&update.id, &update.cpus)),
                Err(error) if error.is_gone() => {}
                Err(error) => {
                    tracing::warn!(container_id = %update.id, %error, "a container's cpuset was not written");
                }
            }
        }
        if let Err(error) = self.store.note_told(&told) {
            tracing::warn!(%error, "new cpusets are not noted");
        }
    }

    fn write_one(&self, update: &CpusetUpdate) -> Result<(), HostError> {
        let path = &update.cgroups_path;
        // With nothing left the kernel's own words say so.
        let room = self.cgroups.room_for(path, &update.cpus).ok().filter(|room| !room.is_empty());
        let cpus = room.as_ref().unwrap_or(&update.cpus);
        self.cgroups.write_cpuset(path, cpus, update.mems.as_ref())?;
        tracing::debug!(container_id = %update.id, %cpus, "cpuset written");
        Ok(())
    }

    /// Fails where a container could not have all of its CPUs where it is put: cgroup v1 would not start it, and v2 would
    /// start it on others.
    pub(super) fn must_fit(&self, cgroups: &[String], own: Option<&CpuSet>) -> Result<(), OciError> {
        let (Some(cgroup), Some(own)) = (cgroups.first(), own) else { return Ok(()) };
        let room = self.cgroups.room_for(cgroup, own)?;
        match room == *own {
            true => Ok(()),
            false => Err(OciError::Narrow { cgroup: cgroup.clone(), own: own.clone(), room }),
        }
    }

    /// Those of the shared CPUs that a container can have where it is put; `None` leaves it on what it gets there.
    pub(super) fn room(&self, cgroups: &[String], shared: Option<CpuSet>) -> Option<CpuSet> {
        let (path, shared) = (cgroups.first()?, shared?);
        match self.cgroups.room_for(path, &shared) {
            Ok(room) if room.is_empty() => {
                tracing::warn!(cgroup = %path, %shared, "the cgroup above has none of the shared CPUs: left as it is");
                None
            }
            Ok(room) => Some(room),
            Err(error) => {
                tracing::debug!(%error, "taken as it is");
                Some(shared)
            }
        }
    }
}
