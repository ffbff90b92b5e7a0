//! The runtime's and the kubelet's memory: pods, containers, what their specs say, and what has been told.

use super::check::due;
use super::messages;
use super::world::{Cgroup, Place, World};
use crate::churn::runtime::VISIBLE;
use maitred::ledger::{RECORD_ANNOTATION, Record};
use maitred::model::*;
use maitred::nri::proto::{self, ContainerAdjustment, ContainerUpdate, LinuxResources, PodSandbox};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A sandbox.
#[derive(Debug, Clone)]
pub struct Pod {
    pub facts: PodFacts,
    pub stopped: bool,
    /// The life of containerd that made it: a later one tells of no end of it.
    pub made_in: u32,
}

/// Where in its life an attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It has a spec and no cgroup.
    Made,
    Running,
    Over,
}

/// An attempt.
#[derive(Debug, Clone)]
pub struct Container {
    /// As the kubelet asks for it.
    pub asked: ContainerFacts,
    /// As it was made.
    pub made: ContainerFacts,
    pub phase: Phase,
    /// Its end has been told.
    pub told: bool,
    /// CPUs of its own.
    pub own: Option<CpuSet>,
    /// What maitred said it should have got lost, and nobody has looked since.
    pub stale: bool,
    /// Made while nobody was asked.
    pub unasked: bool,
}

/// What a container holds while its pod lives.
#[derive(Debug, Clone, Default)]
pub struct Seat {
    pub cpus: CpuSet,
    pub gpus: BTreeSet<String>,
    pub id: Option<ContainerId>,
    /// It was given to one that ran already: the next attempt may need what that could not be given any more.
    pub found: bool,
}

/// All of it.
pub struct Sim {
    pub world: Arc<World>,
    pub pods: BTreeMap<String, Pod>,
    pub containers: BTreeMap<ContainerId, Container>,
    pub seats: BTreeMap<ContainerKey, Seat>,
    /// Those that are being made: the kubelet makes no second one beside them.
    pub making: BTreeSet<ContainerKey>,
    pub numbers: u32,
    /// containerd's.
    pub life: u32,
    /// Whose update gets lost next.
    pub lose: Option<u8>,
    /// Which pod ends when it has been listed at the next registration.
    pub doom: Option<u8>,
    /// The store has been emptied since the last registration.
    pub store_lost: bool,
    /// CPUs of containers whose end only their cgroups tell: maitred may know or not.
    pub vague: Vec<CpuSet>,
}

pub fn nth<T>(all: impl IntoIterator<Item = T>, which: u8) -> Option<T> {
    let mut all: Vec<T> = all.into_iter().collect();
    (!all.is_empty()).then(|| all.swap_remove(usize::from(which) % all.len()))
}

impl Sim {
    pub fn new(world: &Arc<World>) -> Self {
        Self {
            world: Arc::clone(world),
            pods: BTreeMap::new(),
            containers: BTreeMap::new(),
            seats: BTreeMap::new(),
            making: BTreeSet::new(),
            numbers: 0,
            life: 0,
            lose: None,
            doom: None,
            store_lost: false,
            vague: Vec::new(),
        }
    }

    pub fn fresh(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    pub fn pod_of(&self, container: &ContainerFacts) -> PodFacts {
        self.pods[&container.sandbox].facts.clone()
    }

    /// Whether containerd tells of that sandbox's end: only of those that it has made since it was started.
    pub fn speaks_of(&self, sandbox: &str) -> bool {
        self.pods[sandbox].made_in == self.life
    }

    pub fn key(&self, container: &ContainerFacts) -> ContainerKey {
        ContainerKey::new(self.pod_of(container).uid, container.name.clone())
    }

    /// Those whose processes run or may begin to.
    pub fn alive(&self) -> impl Iterator<Item = (&ContainerId, &Container)> {
        self.containers.iter().filter(|(_, one)| one.phase != Phase::Over)
    }

    pub fn choose(&self, which: u8, is: impl Fn(&Container) -> bool) -> Option<Container> {
        nth(self.containers.values().filter(|one| is(one)), which).cloned()
    }

    /// Makes a container as the plugin wants it, or as it came.
    pub fn make(&mut self, asked: ContainerFacts, adjust: Option<&ContainerAdjustment>) {
        let mut made = ContainerFacts { state: ContainerState::Created, ..asked.clone() };
        let key = self.key(&asked);
        let (mut own, mut gpus) = (None, BTreeSet::new());
        if let Some(adjust) = adjust {
            adopt(&mut made.resources, &adjust.linux.resources);
            for variable in &adjust.env {
                made.env.retain(|entry| !entry.starts_with(&format!("{}=", variable.key)));
                made.env.push(format!("{}={}", variable.key, variable.value));
                if variable.key == VISIBLE {
                    gpus = variable.value.split(',').map(str::to_owned).collect();
                }
            }
            made.annotations.extend(adjust.annotations.clone());
            if let Some(text) = adjust.annotations.get(RECORD_ANNOTATION) {
                let record = Record::parse(text).unwrap();
                assert_eq!((&record.key, &record.id), (&key, &asked.id), "a record of somebody else");
                own = Some(record.placement().cpus.clone()).filter(|cpus| !cpus.is_empty());
            }
            self.sit(&key, &asked.id, own.clone(), gpus);
        } else {
            // Whoever runs under its name has left the seat.
            self.seats.remove(&key);
        }
        // The new attempt answers for what the old one had.
        let old = self.containers.values_mut().filter(|one| one.phase == Phase::Over);
        old.filter(|one| one.made.sandbox == asked.sandbox && one.made.name == asked.name)
            .for_each(|one| one.own = None);
        let unasked = adjust.is_none();
        let container =
            Container { asked, made, phase: Phase::Made, told: false, own, stale: unasked, unasked };
        let (id, sandbox) = (container.made.id.clone(), container.made.sandbox.clone());
        self.containers.insert(id.clone(), container);
        // Its pod has been stopped while it was made.
        if self.pods[&sandbox].stopped {
            self.end(&id);
            let speaks = self.speaks_of(&sandbox);
            let container = self.containers.get_mut(&id).unwrap();
            container.told = true;
            if !speaks {
                self.vague.extend(container.own.take());
            }
            self.seats.remove(&key);
        }
    }

    /// Nothing that one container holds is another's, and a new attempt sits where the last one sat.
    pub fn sit(&mut self, key: &ContainerKey, id: &ContainerId, own: Option<CpuSet>, gpus: BTreeSet<String>) {
        let found = self.containers.contains_key(id);
        let seat = Seat { cpus: own.unwrap_or_default(), gpus, id: Some(id.clone()), found };
        for (other, held) in self.seats.iter().filter(|(other, _)| *other != key) {
            assert!(
                seat.cpus.is_disjoint(&held.cpus),
                "{key} gets CPUs {}, {other} has {}; {}",
                seat.cpus,
                held.cpus,
                self.story(other)
            );
            assert!(
                seat.gpus.is_disjoint(&held.gpus),
                "{key} gets {:?}, {other} has {:?}",
                seat.gpus,
                held.gpus
            );
        }
        if let Some(before) = self.seats.get(key).filter(|before| !before.cpus.is_empty() && !before.found) {
            assert_eq!(seat.cpus, before.cpus, "{key} has lost its seat");
        }
        self.seats.insert(key.clone(), seat);
    }

    /// What is known of a container under that name.
    pub fn story(&self, key: &ContainerKey) -> String {
        let attempts = self.containers.values().filter(|one| self.key(&one.made) == *key);
        let attempts = attempts.map(|one| {
            let Container { phase, told, own, stale, unasked, .. } = one;
            format!("{} {phase:?} told {told} own {own:?} stale {stale} unasked {unasked}", one.made.id)
        });
        let attempts: Vec<String> = attempts.collect();
        let pod = self.pods.values().find(|pod| pod.facts.uid == key.pod);
        let pod = pod.map(|pod| (pod.stopped, pod.made_in, self.life));
        let stored = self.world.things().store.contains_key(key);
        format!("{key}: {attempts:?}, pod {pod:?}, stored {stored}, seat {:?}", self.seats.get(key))
    }

    /// Its command runs: from now on it has a cgroup, and huge pages that it asked for it uses.
    pub fn start(&mut self, id: &ContainerId) {
        let container = self.containers.get_mut(id).unwrap();
        container.phase = Phase::Running;
        container.made.state = ContainerState::Running;
        let facts = container.made.clone();
        let online = &self.world.topology.cpus;
        let set: CpuSet = facts.resources.cpus.parse().unwrap();
        let cpus = if set.is_empty() { online.clone() } else { set.intersection(online) };
        let mut things = self.world.things();
        let pages = match container.unasked {
            true => BTreeMap::new(),
            false => touch(&facts, self.world.free(&things)),
        };
        let cgroup = Cgroup { id: id.clone(), cpus, pages };
        things.cgroups.insert(facts.cgroups_path, cgroup);
    }

    /// Its processes are gone, and its cgroup with them.
    pub fn end(&mut self, id: &ContainerId) {
        let container = self.containers.get_mut(id).unwrap();
        container.phase = Phase::Over;
        container.made.state = ContainerState::Stopped;
        self.world.things().cgroups.remove(&container.made.cgroups_path);
    }

    /// Carries out updates of containers: the spec, and the cgroup where there is one.
    pub fn update(&mut self, updates: &[ContainerUpdate]) {
        let lost = self.lose.take().and_then(|which| nth(updates.iter(), which));
        let lost = lost.map(|update| update.container_id.clone());
        for update in updates {
            assert!(!update.container_id.is_empty() && update.ignore_failure, "{update:?}");
            let resources = &update.linux.resources;
            assert!(!resources.cpu.cpus.is_empty() && resources.cpu.mems.is_empty(), "{update:?}");
            let id = ContainerId::new(&*update.container_id);
            let Some(container) = self.containers.get_mut(&id).filter(|one| one.phase != Phase::Over) else {
                self.too_late(&id, &resources.cpu.cpus);
                continue;
            };
            if lost.as_ref() == Some(&update.container_id) {
                container.stale = true;
                continue;
            }
            container.made.resources.cpus = resources.cpu.cpus.clone();
            self.apply(&id);
        }
    }

    /// What was listed as unasked for and has ended since may have got CPUs of its own, until that is found out.
    fn too_late(&mut self, id: &ContainerId, cpus: &str) {
        let Some(one) = self.containers.get(id).filter(|one| one.unasked && one.own.is_none()) else {
            return;
        };
        let cpus: CpuSet = cpus.parse().unwrap();
        if due(&self.pods[&one.made.sandbox].facts, &one.asked) == Some(cpus.len()) {
            self.vague.push(cpus);
        }
    }

    /// Somebody's update with the plugin's answer laid over it; containerd applies the whole spec.
    pub fn resize(&mut self, id: &ContainerId, wanted: &Resources, own: Option<&ContainerUpdate>) {
        let Some(container) = self.containers.get_mut(id).filter(|one| one.phase != Phase::Over) else {
            return;
        };
        if !wanted.cpus.is_empty() {
            container.made.resources.cpus = wanted.cpus.clone();
        }
        if let Some(own) = own {
            adopt(&mut container.made.resources, &own.linux.resources);
        }
        self.apply(id);
    }

    /// The spec's CPUs reach the cgroup.
    fn apply(&self, id: &ContainerId) {
        let facts = &self.containers[id].made;
        let set: CpuSet = facts.resources.cpus.parse().unwrap();
        if let Some(cgroup) = self.world.things().cgroups.get_mut(&facts.cgroups_path)
            && !set.is_empty()
        {
            cgroup.cpus = set.intersection(&self.world.topology.cpus);
        }
    }

    /// What containerd tells at a registration; what is over by then is known after it. A pod may end right afterwards,
    /// and where containerd did not make it nobody tells of that.
    pub fn list(&mut self, reserved: &CpuSet) -> (Vec<PodSandbox>, Vec<proto::Container>) {
        self.vague.clear();
        let pods = self.pods.values().map(|pod| messages::pod(&pod.facts)).collect();
        let containers = self.alive().map(|(_, one)| messages::container(&one.made)).collect();
        if let Some(which) = self.doom.take() {
            let silent = |pod: &&Pod| !pod.stopped && !self.speaks_of(&pod.facts.id);
            let doomed = nth(self.pods.values().filter(silent), which).map(|pod| pod.facts.id.clone());
            if let Some(id) = doomed {
                self.take_in(reserved);
                self.end_pod(&id, false);
            }
        }
        (pods, containers)
    }

    /// The plugin knows all there is: what has ended, and what it was never asked about.
    pub fn synchronized(&mut self, reserved: &CpuSet) {
        for container in self.containers.values_mut() {
            container.told |= container.phase == Phase::Over;
            container.stale = false;
        }
        if std::mem::take(&mut self.store_lost) {
            let alive: BTreeSet<ContainerId> = self.alive().map(|(id, _)| id.clone()).collect();
            self.seats.retain(|_, seat| seat.id.as_ref().is_some_and(|id| alive.contains(id)));
        }
        self.take_in(reserved);
    }

    /// The plugin looks at all cgroups after such an event.
    pub fn looked_after(&mut self) {
        self.containers.values_mut().for_each(|one| one.stale = false);
    }

    /// A pod's end: its cgroups go, and what it held is free.
    pub fn end_pod(&mut self, id: &str, told: bool) {
        let pod = self.pods.get_mut(id).unwrap();
        pod.stopped = true;
        let (uid, parent) = (pod.facts.uid.clone(), pod.facts.cgroup_parent.clone());
        let own = pod.facts.cgroups_path.clone();
        let of_it: Vec<ContainerId> =
            self.alive().filter(|(_, one)| one.made.sandbox == id).map(|(id, _)| id.clone()).collect();
        of_it.iter().for_each(|id| self.end(id));
        for container in self.containers.values_mut().filter(|one| one.made.sandbox == id && !one.told) {
            container.told = true;
            if !told {
                self.vague.extend(container.own.take());
            }
        }
        self.world.things().pods.remove(&own);
        if self.pods.values().all(|pod| pod.stopped || pod.facts.uid != uid) {
            self.world.things().pods.remove(&parent);
            self.seats.retain(|key, _| key.pod != uid);
        }
    }
}

/// What an answer sets.
fn adopt(resources: &mut Resources, set: &LinuxResources) {
    for (ours, theirs) in [(&mut resources.cpus, &set.cpu.cpus), (&mut resources.mems, &set.cpu.mems)] {
        if !theirs.is_empty() {
            ours.clone_from(theirs);
        }
    }
}

/// The pages a container uses, from the nodes it may use; they must be there.
fn touch(facts: &ContainerFacts, free: BTreeMap<Place, Bytes>) -> BTreeMap<Place, Bytes> {
    let mems: NodeSet = facts.resources.mems.parse().unwrap();
    let mut used = BTreeMap::new();
    for (size, limit) in &facts.resources.hugepage_limits {
        assert_eq!(size, "2MB");
        let mut left = *limit;
        for (place, free) in free.iter().filter(|((node, _), _)| mems.is_empty() || mems.contains(*node)) {
            let here = left.min(free.0);
            used.insert(*place, Bytes(here));
            left -= here;
        }
        let promised = facts.annotations.contains_key(RECORD_ANNOTATION);
        assert!(
            left == 0 || !promised,
            "{} bytes of huge pages promised to {} are not there",
            left,
            facts.id
        );
    }
    used
}
