//! A node as its containers come and go, with books kept apart from the engine's own.

use super::plan::Step;
use maitred::engine::{Machine, Occupancy, admit_pod};
use maitred::model::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The containers of a pod with their placements, in the order they were admitted.
pub type Containers = Vec<(ContainerName, ContainerKind, Placement)>;

/// What is booked.
#[derive(Default)]
pub struct Booked(pub BTreeMap<PodUid, Containers>);

/// A machine with what is held of it.
pub struct Node {
    pub machine: Machine,
    pub occupancy: Occupancy,
    pub booked: Booked,
}

impl Node {
    pub fn new(machine: Machine) -> Self {
        let occupancy = Occupancy::new(&machine);
        Self { machine, occupancy, booked: Booked::default() }
    }

    /// Admits a pod, if the engine does, or removes one.
    pub fn apply(&mut self, at: usize, step: &Step, policy: &Policy) {
        match step {
            Step::Remove(which) => drop(self.remove(*which)),
            Step::Admit(pod) => {
                let pod = pod.request(at);
                if let Ok(placements) = admit_pod(&self.machine, &self.occupancy, &pod, policy) {
                    self.book(&pod, placements);
                }
            }
        }
    }

    /// Removes a pod; says which it was.
    pub fn remove(&mut self, which: usize) -> Option<PodUid> {
        let uid = self.booked.0.keys().nth(which)?.clone();
        self.occupancy.release_pod(&self.machine, &uid);
        self.booked.0.remove(&uid);
        Some(uid)
    }

    pub fn book(&mut self, pod: &PodRequest, placements: Vec<(ContainerName, Placement)>) {
        let all = pod.containers.iter().zip(placements);
        let all: Containers = all.map(|(request, (name, placed))| (name, request.kind, placed)).collect();
        Booked::reserve(&mut self.occupancy, &self.machine, &pod.uid, &all);
        self.booked.0.insert(pod.uid.clone(), all);
    }
}

impl Booked {
    /// Tells the engine what a pod holds.
    pub fn reserve(occupancy: &mut Occupancy, machine: &Machine, pod: &PodUid, containers: &Containers) {
        for (name, kind, placement) in containers {
            occupancy.reserve(machine, ContainerKey::new(pod.clone(), name.clone()), *kind, placement);
        }
    }

    /// No CPU and no device twice, nothing reserved or offline; init containers may lend to their pod.
    pub fn check_exclusive(&self, machine: &Machine) -> Result<(), TestCaseError> {
        let mut cpus = CpuSet::new();
        let mut devices: BTreeSet<(&ResourceName, &DeviceId)> = BTreeSet::new();
        for containers in self.0.values() {
            let (mut own_cpus, mut own_devices) = (CpuSet::new(), BTreeSet::new());
            let mut lasting = CpuSet::new();
            for (_, kind, placement) in containers {
                if *kind != ContainerKind::Init {
                    prop_assert!(lasting.is_disjoint(&placement.cpus), "{placement:?} within its pod");
                    lasting = lasting.union(&placement.cpus);
                }
                own_cpus = own_cpus.union(&placement.cpus);
                let named = |(name, ids)| Iterator::zip(std::iter::repeat(name), ids);
                own_devices.extend(placement.devices.iter().flat_map(named));
            }
            prop_assert!(cpus.is_disjoint(&own_cpus), "{own_cpus} twice");
            prop_assert!(devices.is_disjoint(&own_devices), "{own_devices:?} twice");
            cpus = cpus.union(&own_cpus);
            devices.extend(own_devices);
        }
        prop_assert!(cpus.is_subset(&machine.online().difference(machine.reserved())));
        Ok(())
    }

    /// Every promised byte is missing somewhere, and no other.
    pub fn check_memory(&self, machine: &Machine, occupancy: &Occupancy) -> Result<(), TestCaseError> {
        for kind in machine.memory_kinds() {
            let total: u64 = machine.nodes().iter().map(|n| machine.allocatable(n, kind).0).sum();
            let free: u64 = machine.nodes().iter().map(|n| occupancy.free_memory(machine, n, kind).0).sum();
            let promised: u64 = self.0.values().map(|containers| pod_memory(containers, kind)).sum();
            prop_assert_eq!(total - free, promised, "{}", kind);
        }
        Ok(())
    }
}

/// What a pod is promised at its peak: by node set, the init container's or the others' sum.
fn pod_memory(containers: &Containers, kind: MemoryKind) -> u64 {
    let mut sums: BTreeMap<NodeSet, (u64, u64)> = BTreeMap::new();
    for (_, container, placement) in containers {
        for block in placement.memory.iter().filter(|block| block.kind == kind) {
            let (init, others) = sums.entry(block.nodes.clone()).or_default();
            match container {
                ContainerKind::Init => *init = (*init).max(block.bytes.0),
                _ => *others += block.bytes.0,
            }
        }
    }
    sums.values().map(|(init, others)| init.max(others)).sum()
}
