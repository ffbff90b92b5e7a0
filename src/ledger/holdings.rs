//! The ledger: an occupancy, and the life of each holding in it.

use crate::engine::{Machine, Occupancy, Seat, shared_pool};
use crate::model::{
    ContainerId, ContainerKey, ContainerKind, CpuOptions, CpuSet, DeviceId, Placement, PodUid, ResourceName,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where in its life a holding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldingState {
    /// Answered, not yet seen to run.
    Decided,
    /// Its container runs.
    Confirmed,
    /// Its container stopped: the CPUs are lent to the shared pool until it is made again.
    Lent,
}

/// What a container holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The attempt; `None` where it is not known (a plan).
    pub id: Option<ContainerId>,
    /// The part it plays in its pod.
    pub kind: ContainerKind,
    /// What it holds.
    pub placement: Placement,
    /// Where in its life it is.
    pub state: HoldingState,
}

/// Why a running container's placement cannot be taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// Another container holds some of the CPUs.
    #[error("CPUs {cpus} are held by {holder}")]
    Cpus {
        /// The CPUs in question.
        cpus: CpuSet,
        /// Who holds them.
        holder: ContainerKey,
    },
    /// Another container holds a device.
    #[error("{resource} {id} is held by {holder}")]
    Device {
        /// The resource.
        resource: ResourceName,
        /// The device.
        id: DeviceId,
        /// Who holds it.
        holder: ContainerKey,
    },
    /// The machine does not have the CPUs.
    #[error("CPUs {cpus} are not online: the machine has {online}")]
    Offline {
        /// The CPUs in question.
        cpus: CpuSet,
        /// The machine's.
        online: CpuSet,
    },
}

impl Conflict {
    /// Takes from a placement what this is about; less of it each time.
    fn leave(&self, placement: &mut Placement) {
        match self {
            Self::Offline { cpus, .. } | Self::Cpus { cpus, .. } => {
                placement.cpus = placement.cpus.difference(cpus);
            }
            Self::Device { resource, id, .. } => {
                if let Some(ids) = placement.devices.get_mut(resource) {
                    ids.remove(id);
                }
                placement.devices.retain(|_, ids| !ids.is_empty());
            }
        }
    }
}

/// A holding and what a new attempt that comes to nothing falls back to.
#[derive(Debug, Clone)]
struct Entry {
    now: Holding,
    /// What an earlier attempt held; kept only until the new one runs.
    before: Option<Holding>,
}

/// The occupancy and the life of its holdings.
#[derive(Debug, Clone)]
pub struct Ledger {
    machine: Arc<Machine>,
    occupancy: Occupancy,
    entries: BTreeMap<ContainerKey, Entry>,
    seats: BTreeMap<PodUid, Seat>,
    generation: u64,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new(machine: Arc<Machine>) -> Self {
        let occupancy = Occupancy::new(&machine);
        Self { machine, occupancy, entries: BTreeMap::new(), seats: BTreeMap::new(), generation: 0 }
    }

    /// The machine it is about.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What is taken.
    #[must_use]
    pub fn occupancy(&self) -> &Occupancy {
        &self.occupancy
    }

    /// What a container holds.
    #[must_use]
    pub fn get(&self, key: &ContainerKey) -> Option<&Holding> {
        self.entries.get(key).map(|entry| &entry.now)
    }

    /// All holdings, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&ContainerKey, &Holding)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.now))
    }

    /// Books a decision; it replaces what the key held before.
    pub fn reserve(
        &mut self,
        key: ContainerKey,
        id: Option<ContainerId>,
        kind: ContainerKind,
        placement: Placement,
    ) {
        // A decision that never came to run leaves nothing to fall back to but what it replaced.
        let before = self.entries.remove(&key).and_then(|entry| match entry.now.state {
            HoldingState::Decided => entry.before,
            HoldingState::Confirmed | HoldingState::Lent => Some(entry.now),
        });
        self.put(key, Holding { id, kind, placement, state: HoldingState::Decided }, before);
    }

    fn put(&mut self, key: ContainerKey, now: Holding, before: Option<Holding>) {
        self.occupancy.reserve(&self.machine, key.clone(), now.kind, &now.placement);
        self.entries.insert(key, Entry { now, before });
        self.generation += 1;
    }

    fn current(&mut self, key: &ContainerKey, id: &ContainerId) -> Option<&mut Entry> {
        self.entries.get_mut(key).filter(|entry| entry.now.id.as_ref() == Some(id))
    }

    /// The attempt runs. False where it is not the current one, or was stopped already.
    pub fn confirm(&mut self, key: &ContainerKey, id: &ContainerId) -> bool {
        let Some(entry) = self.current(key, id) else { return false };
        let decided = entry.now.state == HoldingState::Decided;
        if decided {
            entry.now.state = HoldingState::Confirmed;
            entry.before = None;
        }
        let confirmed = entry.now.state == HoldingState::Confirmed;
        self.generation += u64::from(decided);
        confirmed
    }

    /// Takes back the decision for that very attempt. What the key held before comes back, lent: a new
    /// attempt is only made of a container that stopped. Where that is no longer free it is gone.
    pub fn abandon(&mut self, id: &ContainerId) -> bool {
        let decided =
            |entry: &Entry| entry.now.state == HoldingState::Decided && entry.now.id.as_ref() == Some(id);
        let hit = self.entries.iter().find(|(_, entry)| decided(entry));
        let Some(key) = hit.map(|(key, _)| key.clone()) else { return false };
        let before = self.entries.remove(&key).and_then(|entry| entry.before);
        self.occupancy.release(&self.machine, &key);
        self.generation += 1;
        if let Some(before) = before
            && self.conflict(&key, before.kind, &before.placement).is_none()
        {
            self.put(key, Holding { state: HoldingState::Lent, ..before }, None);
        } else if !self.entries.keys().any(|other| other.pod == key.pod) {
            // Nobody sits there: the next attempt must not be bound to nodes that may be full by then.
            self.seats.remove(&key.pod);
        }
        true
    }

    /// The attempt stopped: its CPUs join the shared pool and stay closed to other exclusive placements.
    /// False where it is not the current one.
    pub fn lend(&mut self, key: &ContainerKey, id: &ContainerId) -> bool {
        let Some(entry) = self.current(key, id) else { return false };
        let lent = entry.now.state == HoldingState::Lent;
        entry.now.state = HoldingState::Lent;
        entry.before = None;
        self.generation += u64::from(!lent);
        true
    }

    /// The container gives everything back. False where it held nothing.
    pub fn release(&mut self, key: &ContainerKey) -> bool {
        let held = self.entries.remove(key).is_some();
        if held {
            self.occupancy.release(&self.machine, key);
            self.generation += 1;
        }
        held
    }

    /// The pod gives everything back, its seat too. False where it had nothing.
    pub fn release_pod(&mut self, pod: &PodUid) -> bool {
        let before = self.entries.len();
        self.entries.retain(|key, _| key.pod != *pod);
        let had_seat = self.seats.remove(pod).is_some();
        let had = had_seat || self.entries.len() < before;
        if had {
            self.occupancy.release_pod(&self.machine, pod);
            self.generation += 1;
        }
        had
    }

    /// The CPUs of containers without exclusive ones: online, not held by a container that may run, and
    /// under strict-cpu-reservation not reserved.
    #[must_use]
    pub fn shared_pool(&self, options: &CpuOptions) -> CpuSet {
        let held = self.iter().filter(|(_, holding)| holding.state != HoldingState::Lent);
        let held = held.fold(CpuSet::new(), |all, (_, holding)| all.union(&holding.placement.cpus));
        shared_pool(&self.machine, &held, options)
    }

    /// The pod's nodes.
    #[must_use]
    pub fn seat(&self, pod: &PodUid) -> Option<&Seat> {
        self.seats.get(pod)
    }

    /// Fixes the pod's nodes.
    pub fn set_seat(&mut self, pod: PodUid, seat: Seat) {
        self.seats.insert(pod, seat);
        self.generation += 1;
    }

    /// Another number after every change.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Takes over what a running container was found to hold; it replaces what the key held before.
    ///
    /// # Errors
    /// Another container holds some of it, or the machine does not have it; nothing changes then.
    pub fn adopt(
        &mut self,
        key: ContainerKey,
        id: ContainerId,
        kind: ContainerKind,
        placement: Placement,
    ) -> Result<(), Conflict> {
        if let Some(conflict) = self.conflict(&key, kind, &placement) {
            return Err(conflict);
        }
        self.put(key, Holding { id: Some(id), kind, placement, state: HoldingState::Confirmed }, None);
        Ok(())
    }

    /// What of a placement nothing stands against, and the first thing that stood against some of it. A container that
    /// runs with all of it keeps the rest: a conflict about one GPU does not make the others free.
    #[must_use]
    pub fn uncontested(
        &self,
        key: &ContainerKey,
        kind: ContainerKind,
        mut placement: Placement,
    ) -> (Placement, Option<Conflict>) {
        let mut first = None;
        while let Some(conflict) = self.conflict(key, kind, &placement) {
            conflict.leave(&mut placement);
            first.get_or_insert(conflict);
        }
        (placement, first)
    }

    /// What stands against `key` holding the placement.
    #[must_use]
    pub fn conflict(
        &self,
        key: &ContainerKey,
        kind: ContainerKind,
        placement: &Placement,
    ) -> Option<Conflict> {
        let online = self.machine.online();
        let missing = placement.cpus.difference(online);
        if !missing.is_empty() {
            return Some(Conflict::Offline { cpus: missing, online: online.clone() });
        }
        let init = |kind| kind == ContainerKind::Init;
        // Init containers and those that follow them in their pod share what they hold.
        let shares = |other: &ContainerKey, held: &Holding| {
            other == key || (other.pod == key.pod && (init(kind) || init(held.kind)))
        };
        let others = || self.iter().filter(|(other, held)| !shares(other, held));
        let cpus = others().find_map(|(holder, held)| {
            let cpus = held.placement.cpus.intersection(&placement.cpus);
            (!cpus.is_empty()).then(|| Conflict::Cpus { cpus, holder: holder.clone() })
        });
        cpus.or_else(|| {
            self.device_conflict(key, placement, &|other| {
                self.get(other).is_some_and(|held| shares(other, held))
            })
        })
    }

    fn device_conflict(
        &self,
        key: &ContainerKey,
        placement: &Placement,
        shares: &dyn Fn(&ContainerKey) -> bool,
    ) -> Option<Conflict> {
        let devices =
            placement.devices.iter().flat_map(|(resource, ids)| ids.iter().map(move |id| (resource, id)));
        devices.into_iter().find_map(|(resource, id)| {
            // Within a pod the kubelet may give a device again: an init container's to one that follows it.
            let again =
                |other: &ContainerKey, theirs: &ResourceName| other.pod == key.pod && theirs == resource;
            let mut rivals = self.occupancy.rivals(&self.machine, resource, id);
            let (holder, ..) = rivals.find(|(other, theirs, _)| !shares(other) && !again(other, theirs))?;
            Some(Conflict::Device { resource: resource.clone(), id: id.clone(), holder: holder.clone() })
        })
    }

    /// Devices, and parts of them, that were given to `pod` are no longer held by others whose containers have all
    /// stopped.
    pub fn yield_devices(
        &mut self,
        pod: &PodUid,
        resource: &ResourceName,
        ids: &BTreeSet<DeviceId>,
        is_stopped: &dyn Fn(&PodUid) -> bool,
    ) {
        let lent = |entry: &Entry| entry.now.state == HoldingState::Lent;
        let given = |id: &DeviceId| ids.iter().any(|given| self.machine.overlap(given, id));
        let held = |entry: &Entry| {
            entry.now.placement.devices.get(resource).is_some_and(|own| own.iter().any(given))
        };
        let stopped = |pod: &PodUid| {
            self.entries.iter().filter(|(key, _)| key.pod == *pod).all(|(_, entry)| lent(entry))
        };
        let losers: Vec<ContainerKey> = self
            .entries
            .iter()
            .filter(|(key, entry)| {
                key.pod != *pod && held(entry) && stopped(&key.pod) && is_stopped(&key.pod)
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in &losers {
            let Some(mut entry) = self.entries.remove(key) else { continue };
            let own = entry.now.placement.devices.entry(resource.clone()).or_default();
            own.retain(|id| !ids.iter().any(|given| self.machine.overlap(given, id)));
            entry.now.placement.devices.retain(|_, own| !own.is_empty());
            self.occupancy.reserve(&self.machine, key.clone(), entry.now.kind, &entry.now.placement);
            self.entries.insert(key.clone(), entry);
            self.generation += 1;
        }
    }

    /// Everything that is held, on a machine whose devices have changed.
    pub fn move_to(&mut self, machine: Arc<Machine>) {
        self.occupancy = Occupancy::new(&machine);
        for (key, entry) in &self.entries {
            self.occupancy.reserve(&machine, key.clone(), entry.now.kind, &entry.now.placement);
        }
        self.machine = machine;
        self.generation += 1;
    }
}
