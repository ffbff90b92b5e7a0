//! Containers that are in the books already: placed before, let through without a decision, ended.

use super::OciError;
use super::books::{Entries, raw};
use super::desk::{Changing, Desk, Place, Seated};
use super::edit::Change;
use super::facts::Party;
use super::hook::in_cgroup;
use super::namesake;
use super::neighbours::Neighbours;
use crate::decision::{CpusetUpdate, Edit, Known, Mode};
use crate::ledger::Record;
use crate::model::{ContainerId, CpuSet, DeviceId, Placement};
use crate::store::{Allocation, By, Process};
use std::collections::BTreeSet;

type Living = Vec<(Allocation, Known)>;

impl Desk {
    /// Somebody has placed that very container: it is where they put it, or goes there now; without CPUs of its own, to
    /// the shared ones as they are by now.
    pub(super) fn stand(
        &self,
        mut entries: Entries,
        at: usize,
        place: Place,
        change: Changing<'_>,
    ) -> Result<Seated, OciError> {
        if self.config.mode != Mode::Enforce {
            return Ok(Seated::Fine);
        }
        let (mut allocation, known) = entries.living.swap_remove(at);
        let placement = known.record.placement().clone();
        let theirs = allocation.by == By::Nri;
        let shares = placement.cpus.is_empty() && !theirs;
        let (cpus, writes) = match placement.cpus.is_empty() {
            false => (Some(placement.cpus), Vec::new()),
            true if theirs => (known.told, Vec::new()),
            true => {
                let (cpus, writes) = self.shared_cpus(entries, &allocation, known, &place)?;
                (self.room(&place.cgroups, cpus), writes)
            }
        };
        tracing::debug!(container_id = %allocation.id, by = ?allocation.by, "placed already: verified");
        let mems = Some(placement.mems).filter(|mems| !mems.is_empty());
        let edit = Edit { cpus: cpus.clone(), mems, ..Edit::default() };
        change(&Change { edit: &edit, shares, stands: true })?;
        // Where one runs already no other is made: its runtime will say so, or put it into the same cgroup.
        let runs = !place.made && self.books().populated(&allocation);
        if !theirs && !runs {
            allocation.holders.retain(|holder| !place.made && self.books().process_lives(*holder));
            allocation.holders.extend(place.holder);
            (allocation.cgroups, allocation.stopped) = (place.cgroups, false);
            allocation.told = cpus.or(allocation.told);
            self.store.keep(&allocation)?;
        }
        self.write(&writes);
        Ok(Seated::Fine)
    }

    /// The CPUs of one that shares, and what is to be written of others.
    fn shared_cpus(
        &self,
        mut entries: Entries,
        allocation: &Allocation,
        known: Known,
        place: &Place,
    ) -> Result<(Option<CpuSet>, Vec<CpusetUpdate>), OciError> {
        let mut state = self.state()?;
        let settings = self.config.settings(state.ledger().machine().reserved().clone(), self.features);
        let before = known.told.clone();
        // Told nothing yet, it is told now.
        let cgroups_path = place.cgroups.first().cloned();
        let known = Known { cgroups_path, told: None, runs: true, ..known };
        entries.living.push((allocation.clone(), known));
        let writes = self.take_in(&mut state, entries, &settings)?;
        let (own, others): (Vec<_>, Vec<_>) = writes.into_iter().partition(|write| write.id == allocation.id);
        Ok((own.into_iter().last().map(|write| write.cpus).or(before), others))
    }

    /// A container on the shared CPUs has been made: what those are by now is written.
    pub(super) fn settle(&self, id: &ContainerId, mut place: Place) -> Result<(), OciError> {
        let _turn = self.store.turn(self.config.failure.deadline)?;
        let entries = self.books().read()?;
        let Some(at) = namesake::itself(&self.books(), &entries.living, id, &place) else { return Ok(()) };
        // A runtime may have put its processes into a cgroup below the one that has the limits.
        if let Some(cgroup) = namesake::cgroup(&self.books(), &entries.living[at].0, &place) {
            place.cgroups = vec![cgroup];
        }
        let cgroup = place.cgroups.first().cloned().unwrap_or_default();
        self.stand(entries, at, place, &mut |change| in_cgroup(&self.cgroups, &cgroup, change.edit)).map(drop)
    }

    /// Nothing could be decided about a container, and it starts all the same: from now on it shares, and makes room as
    /// others do. It is not our turn, so nothing that is there already is touched.
    pub(super) fn let_through(&self, party: &Party, place: Place, change: Changing<'_>) {
        if self.config.mode != Mode::Enforce || (party.in_kubernetes && self.kubelet_decides()) {
            return;
        }
        let kept = self.keep_undecided(party, place).and_then(|is_new| match is_new {
            true => change(&Change { edit: &Edit::default(), shares: true, stands: false }),
            false => Ok(()),
        });
        if let Err(error) = kept {
            tracing::warn!(container_id = %party.container.id, %error, "it was let through, and nobody will know of it");
        }
    }

    /// Tells whether nobody has known of it.
    fn keep_undecided(&self, party: &Party, place: Place) -> Result<bool, OciError> {
        let (key, id) = (party.key(), &party.container.id);
        let known = |one: &Allocation| namesake::is_of(&one.id, id) || one.key == key;
        let living = self.books().read()?.living;
        if living.iter().any(|(one, _)| known(one)) {
            return Ok(false);
        }
        Neighbours::of(&living).keep_apart(id, &place, true, &self.cgroups)?;
        let claims = self.state().map(|state| state.claims_of(&key, &party.container)).unwrap_or_default();
        let record = Record::new(&key, id, &Placement::default());
        let allocation = self.entry(party, place, &record, claims);
        self.store.keep(&allocation)?;
        Ok(true)
    }

    /// The allocation of a container by its record; nothing is known of what its cgroup was given.
    pub(super) fn entry(
        &self,
        party: &Party,
        place: Place,
        record: &Record,
        claims: BTreeSet<DeviceId>,
    ) -> Allocation {
        let reserved = self.config.cpu.reserved_namespaces.contains(&party.pod.namespace);
        Allocation {
            key: record.key.clone(),
            id: record.id.clone(),
            by: self.by,
            holders: place.holder.into_iter().collect(),
            cgroups: place.cgroups,
            pod_cgroup: party.in_kubernetes.then(|| party.pod.cgroup_parent.clone()),
            stopped: false,
            reserved: reserved && record.placement().cpus.is_empty(),
            claims,
            told: None,
            record: raw(record),
        }
    }

    /// The ended container lends what it held while its pod lives, else it gives it back; tells how many have ended.
    /// What the daemon placed is the daemon's to release.
    pub(super) fn end(
        &self,
        living: Living,
        ended: Option<&ContainerId>,
    ) -> Result<(Living, usize), OciError> {
        let (mut rest, mut count) = (Vec::new(), 0);
        for (mut allocation, mut known) in living {
            if ended.is_some_and(|id| self.is_ended(&allocation, id)) {
                count += 1;
                if !allocation.pod_cgroup.as_deref().is_some_and(|pod| self.cgroups.pod_is_there(pod)) {
                    self.store.remove(&allocation.key)?;
                    continue;
                }
                (allocation.stopped, known.runs) = (true, false);
                self.store.keep(&allocation)?;
            }
            rest.push((allocation, known));
        }
        Ok((rest, count))
    }

    /// Whether it is this one whose end was told, and not another of its name.
    fn is_ended(&self, allocation: &Allocation, id: &ContainerId) -> bool {
        let parent = u32::try_from(nix::unistd::getppid().as_raw()).unwrap_or_default();
        // The runtime that tells us has outlived its container; one that lives otherwise is about to make its own.
        // Who calls a precreate hook goes on living, and gives ids that are nobody else's.
        let makes = |holder: &Process| {
            allocation.by == By::Runtime && holder.pid != parent && self.books().process_lives(*holder)
        };
        allocation.by != By::Nri
            && namesake::is_of(&allocation.id, id)
            && !allocation.holders.iter().any(makes)
            && !self.books().populated(allocation)
    }
}
