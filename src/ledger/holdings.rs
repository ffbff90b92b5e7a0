//! The ledger: an occupancy, and the life of each holding in it.

use crate::engine::{Machine, Occupancy, Seat, shared_pool};
use crate::model::{
    ContainerId, ContainerKey, ContainerKind, CpuOptions, CpuSet, DeviceId, Placement, PodUid, ResourceName,
};
use std::collections::BTreeMap;
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

    /// What stands against `key` holding the placement.
    fn conflict(&self, key: &ContainerKey, kind: ContainerKind, placement: &Placement) -> Option<Conflict> {
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
        cpus.or_else(|| others().find_map(|(holder, held)| device_conflict(holder, held, placement)))
    }
}

fn device_conflict(holder: &ContainerKey, held: &Holding, placement: &Placement) -> Option<Conflict> {
    placement.devices.iter().find_map(|(resource, ids)| {
        let theirs = held.placement.devices.get(resource)?;
        let id = ids.intersection(theirs).next()?;
        Some(Conflict::Device { resource: resource.clone(), id: id.clone(), holder: holder.clone() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Reserve;
    use crate::model::{Core, CpuId, NodeId, NumaNode, Package, PackageId, Topology};

    /// Eight CPUs, of which 0 is reserved.
    fn ledger() -> Ledger {
        let cpus: CpuSet = (0..8).map(CpuId).collect();
        let core = |cpu| Core { package: PackageId(0), cpus: CpuSet::single(cpu) };
        let node = NumaNode {
            id: NodeId(0),
            cpus: cpus.clone(),
            memory_bytes: 0,
            hugepages: [].into(),
            distances: [].into(),
        };
        let topology = Topology {
            packages: vec![Package { id: PackageId(0), cpus: cpus.clone() }],
            numa_nodes: vec![node],
            cores: cpus.iter().map(core).collect(),
            cpus,
            ..Topology::default()
        };
        Ledger::new(Arc::new(Machine::new(&topology, &Reserve::default()).unwrap()))
    }

    fn key(pod: &str) -> ContainerKey {
        ContainerKey::new(pod.into(), "main".into())
    }

    fn cpus(list: &str) -> Placement {
        Placement { cpus: list.parse().unwrap(), ..Placement::default() }
    }

    fn decide(ledger: &mut Ledger, pod: &str, id: &str, list: &str) {
        ledger.reserve(key(pod), Some(id.into()), ContainerKind::Unknown, cpus(list));
    }

    fn pool(ledger: &Ledger) -> String {
        ledger.shared_pool(&CpuOptions::default()).to_string()
    }

    #[test]
    fn what_is_decided_leaves_the_pool_and_what_is_lent_returns_to_it() {
        let mut ledger = ledger();
        decide(&mut ledger, "a", "1", "2-3");
        assert_eq!(pool(&ledger), "0-1,4-7");

        assert!(ledger.confirm(&key("a"), &"1".into()));
        assert!(ledger.lend(&key("a"), &"1".into()));

        assert_eq!(pool(&ledger), "0-7");
        assert_eq!(ledger.occupancy().free_cpus(ledger.machine()).to_string(), "1,4-7");
        assert!(!ledger.confirm(&key("a"), &"1".into()));
    }

    #[test]
    fn only_the_current_attempt_counts() {
        let mut ledger = ledger();
        decide(&mut ledger, "a", "1", "2-3");
        ledger.confirm(&key("a"), &"1".into());
        decide(&mut ledger, "a", "2", "2-3");
        let before = ledger.generation();

        assert!(!ledger.lend(&key("a"), &"1".into()));
        assert!(!ledger.confirm(&key("a"), &"1".into()));
        assert!(!ledger.abandon(&"1".into()));

        assert_eq!(ledger.generation(), before);
        assert_eq!(ledger.get(&key("a")).unwrap().state, HoldingState::Decided);
    }

    #[test]
    fn an_abandoned_restart_falls_back_to_what_was_lent() {
        let mut ledger = ledger();
        decide(&mut ledger, "a", "1", "2-3");
        ledger.confirm(&key("a"), &"1".into());
        ledger.lend(&key("a"), &"1".into());
        decide(&mut ledger, "a", "2", "2-3");
        decide(&mut ledger, "a", "3", "2-3");

        assert!(ledger.abandon(&"3".into()));

        let holding = ledger.get(&key("a")).unwrap();
        assert_eq!((holding.state, holding.id.clone()), (HoldingState::Lent, Some("1".into())));
        assert_eq!(pool(&ledger), "0-7");
    }

    #[test]
    fn an_abandoned_first_attempt_leaves_nothing() {
        let mut ledger = ledger();
        decide(&mut ledger, "a", "1", "2-3");

        assert!(ledger.abandon(&"1".into()));

        assert!(ledger.get(&key("a")).is_none());
        assert_eq!(ledger.occupancy(), &Occupancy::new(ledger.machine()));
        assert!(!ledger.abandon(&"1".into()));
    }

    #[test]
    fn what_was_taken_meanwhile_does_not_come_back() {
        let mut ledger = ledger();
        decide(&mut ledger, "a", "1", "2-3");
        ledger.confirm(&key("a"), &"1".into());
        decide(&mut ledger, "a", "2", "4-5");
        decide(&mut ledger, "b", "3", "2-3");

        assert!(ledger.abandon(&"2".into()));

        assert!(ledger.get(&key("a")).is_none());
        assert_eq!(pool(&ledger), "0-1,4-7");
    }

    #[test]
    fn a_pod_gives_everything_back_with_its_seat() {
        let mut ledger = ledger();
        let empty = ledger.occupancy().clone();
        decide(&mut ledger, "a", "1", "2-3");
        ledger.set_seat("a".into(), Seat { affinity: None, preferred: true });

        assert!(ledger.release_pod(&"a".into()));

        assert_eq!((ledger.seat(&"a".into()), ledger.occupancy()), (None, &empty));
        assert!(!ledger.release_pod(&"a".into()));
        assert!(!ledger.release(&key("a")));
    }

    #[test]
    fn only_what_nobody_holds_is_adopted() {
        let mut ledger = ledger();
        let adopt = |ledger: &mut Ledger, pod: &str, list: &str| {
            ledger.adopt(key(pod), "1".into(), ContainerKind::Unknown, cpus(list))
        };

        assert_eq!(adopt(&mut ledger, "a", "2-3"), Ok(()));
        assert_eq!(adopt(&mut ledger, "a", "2-4"), Ok(()));
        let taken = adopt(&mut ledger, "b", "4-5").unwrap_err();
        let offline = adopt(&mut ledger, "b", "7-8").unwrap_err();

        assert_eq!(taken.to_string(), "CPUs 4 are held by a/main");
        assert_eq!(offline.to_string(), "CPUs 8 are not online: the machine has 0-7");
        assert_eq!(ledger.get(&key("a")).unwrap().state, HoldingState::Confirmed);
        assert!(ledger.get(&key("b")).is_none());
    }

    #[test]
    fn a_device_is_adopted_once() {
        let mut ledger = ledger();
        let gpu = |id: &str| Placement {
            devices: [("nvidia.com/gpu".into(), [id.into()].into())].into(),
            ..Placement::default()
        };
        ledger.adopt(key("a"), "1".into(), ContainerKind::Unknown, gpu("GPU-1")).unwrap();

        let error = ledger.adopt(key("b"), "2".into(), ContainerKind::Unknown, gpu("GPU-1")).unwrap_err();

        assert_eq!(error.to_string(), "nvidia.com/gpu GPU-1 is held by a/main");
        assert!(ledger.adopt(key("b"), "2".into(), ContainerKind::Unknown, gpu("GPU-2")).is_ok());
    }
}
