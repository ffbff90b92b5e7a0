//! What must hold whenever nobody is about to do anything.

use super::node::Node;
use super::sim::{Container, Phase, Sim};
use maitred::model::*;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// What is written after an answer is there a moment later; so long it need not take on any machine.
const PATIENCE: Duration = Duration::from_secs(5);

pub fn exempt(pod: &PodFacts) -> bool {
    pod.namespace == "kube-system" || pod.annotations.contains_key("kubernetes.io/config.source")
}

/// How many CPUs of its own it must have, or not be made.
pub fn due(pod: &PodFacts, asked: &ContainerFacts) -> Option<usize> {
    let milli = asked.resources.shares.unwrap() * 1000 / 1024;
    let whole = milli > 0 && milli.is_multiple_of(1000) && pod.cgroup_parent.starts_with("/kubepods/pod");
    let counts = whole && !exempt(pod) && !pod.annotations.contains_key("exclusive.maitred.io");
    counts.then_some(milli as usize / 1000)
}

impl Node {
    /// Waits until everything is as it must be; if it does not come about, what is wrong.
    pub async fn check(&self, when: &str) {
        let (begin, reserved) = (Instant::now(), self.reserved());
        loop {
            let found = self.sim.borrow_mut().faults(&reserved);
            match found {
                None => return,
                Some(fault) => assert!(begin.elapsed() < PATIENCE, "{when}: {fault}"),
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub fn reserved(&self) -> CpuSet {
        let sim = self.sim.borrow();
        let state = super::world::empty(&self.config, &sim.world.topology);
        state.ledger().machine().reserved().clone()
    }
}

impl Sim {
    /// The first thing that is not as it must be.
    fn faults(&mut self, reserved: &CpuSet) -> Option<String> {
        self.take_in(reserved);
        let sum =
            |sets: &mut dyn Iterator<Item = &CpuSet>| sets.fold(CpuSet::new(), |all, set| all.union(set));
        let taken =
            sum(&mut self.containers.values().filter(|one| !one.told).filter_map(|one| one.own.as_ref()));
        let perhaps = taken.union(&sum(&mut self.vague.iter()));
        let online = &self.world.topology.cpus;
        let or_reserved = |set: CpuSet| if set.is_empty() { reserved.clone() } else { set };
        let (most, least) =
            (or_reserved(online.difference(&taken)), or_reserved(online.difference(&perhaps)));
        let things = self.world.things();
        for (id, one) in self.containers.iter().filter(|(_, one)| one.phase == Phase::Running && !one.stale) {
            let has = things.cgroups[&one.made.cgroups_path].cpus.clone();
            let right = match (&one.own, self.pods[&one.made.sandbox].facts.namespace.as_str()) {
                (Some(own), _) => has == *own,
                (None, "reserved") => has == *reserved,
                (None, _) => has.is_subset(&most) && least.is_subset(&has),
            };
            if !right {
                drop(things);
                let others: Vec<String> = self.seats.keys().map(|key| self.story(key)).collect();
                let story = self.story(&self.key(&one.made));
                return Some(format!(
                    "{id} has CPUs {has}, shared are {least} to {most}: {story}\n{others:#?}"
                ));
            }
        }
        None
    }

    /// What nobody was asked about gets CPUs of its own afterwards, where there are any.
    pub fn take_in(&mut self, reserved: &CpuSet) {
        let of_others = |sim: &Self, key: &ContainerKey| {
            let seats = sim.seats.iter().filter(|(other, _)| *other != key);
            seats.fold(reserved.clone(), |all, (_, seat)| all.union(&seat.cpus))
        };
        let unasked = |one: &&Container| one.unasked && one.own.is_none() && one.phase != Phase::Over;
        let found: Vec<Container> = self.containers.values().filter(unasked).cloned().collect();
        for one in found {
            let (key, pod) = (self.key(&one.made), self.pod_of(&one.made));
            let cgroup = self.world.things().cgroups.get(&one.made.cgroups_path).map(|one| one.cpus.clone());
            let cpus = cgroup.unwrap_or_else(|| one.made.resources.cpus.parse().unwrap());
            let fits = due(&pod, &one.asked).is_some_and(|due| cpus.len() == due);
            if fits && cpus.is_disjoint(&of_others(self, &key)) {
                self.seats.remove(&key);
                self.sit(&key, &one.made.id, Some(cpus.clone()), BTreeSet::new());
                self.containers.get_mut(&one.made.id).unwrap().own = Some(cpus);
            }
        }
    }
}
