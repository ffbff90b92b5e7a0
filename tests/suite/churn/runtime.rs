//! A runtime small enough to be believed: pods, containers, what their specs say and what their cgroups have.
//! It does what it is told and knows nothing of placements.

use maitred::decision::{CpusetUpdate, Edit, Observed};
use maitred::ledger::RECORD_ANNOTATION;
use maitred::model::*;
use std::collections::BTreeMap;

pub const VISIBLE: &str = "NVIDIA_VISIBLE_DEVICES";

/// A sandbox.
#[derive(Debug, Clone)]
pub struct SimPod {
    pub facts: PodFacts,
    pub stopped: bool,
}

/// A container attempt.
#[derive(Debug, Clone)]
pub struct SimContainer {
    /// As the kubelet asked for it: what a new attempt starts from.
    pub asked: ContainerFacts,
    /// As it was made.
    pub facts: ContainerFacts,
    pub alive: bool,
    /// Its end has not been told yet.
    pub stop_pending: bool,
    /// Its cgroup.
    pub cpus: CpuSet,
    /// Something that was to change it got lost, or nobody was asked about it: nothing is owed before the next
    /// look at its cgroup.
    pub stale: bool,
}

/// The runtime.
#[derive(Debug, Clone, Default)]
pub struct Runtime {
    pub online: CpuSet,
    pub pods: BTreeMap<String, SimPod>,
    pub containers: BTreeMap<ContainerId, SimContainer>,
    pub made: u32,
}

impl Runtime {
    pub fn fresh(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    pub fn alive(&self) -> impl Iterator<Item = (&ContainerId, &SimContainer)> {
        self.containers.iter().filter(|(_, container)| container.alive)
    }

    pub fn pod_of(&self, container: &SimContainer) -> PodFacts {
        self.pods[&container.facts.sandbox].facts.clone()
    }

    /// Makes a container, by an edit where there is one.
    pub fn make(&mut self, asked: ContainerFacts, edit: Option<&Edit>, stale: bool) {
        let mut facts = asked.clone();
        if let Some(edit) = edit {
            facts.resources.cpus = edit.cpus.as_ref().map_or(facts.resources.cpus, ToString::to_string);
            facts.resources.mems = edit.mems.as_ref().map_or(facts.resources.mems, ToString::to_string);
            for (name, value) in &edit.env {
                facts.env.retain(|entry| !entry.starts_with(&format!("{name}=")));
                facts.env.push(format!("{name}={value}"));
            }
            facts
                .annotations
                .extend(edit.record.clone().map(|record| (RECORD_ANNOTATION.to_owned(), record)));
        }
        let cpus = self.effective(&facts.resources.cpus);
        let container = SimContainer { asked, facts, alive: true, stop_pending: false, cpus, stale };
        self.containers.insert(container.facts.id.clone(), container);
    }

    /// An empty list is no change from what the parent has, which is everything online.
    fn effective(&self, list: &str) -> CpuSet {
        let wanted: CpuSet = list.parse().unwrap();
        if wanted.is_empty() { self.online.clone() } else { wanted.intersection(&self.online) }
    }

    /// Carries out updates through the runtime: spec and cgroup. `lose` says which get lost.
    pub fn update(&mut self, updates: &[CpusetUpdate], lose: impl Fn(&ContainerId) -> bool) {
        for update in updates {
            let Some(container) = self.containers.get_mut(&update.id).filter(|c| c.alive) else { continue };
            if lose(&update.id) {
                container.stale = true;
                continue;
            }
            container.facts.resources.cpus = update.cpus.to_string();
            container.cpus = update.cpus.clone();
        }
    }

    /// Carries out direct writes: the cgroup alone.
    pub fn write(&mut self, writes: &[CpusetUpdate]) {
        for write in writes {
            if let Some(container) = self.containers.get_mut(&write.id).filter(|c| c.alive) {
                container.cpus = write.cpus.clone();
                container.stale = false;
            }
        }
    }

    /// Somebody's update with the plugin's answer laid over it. The whole spec is applied, not what changed.
    pub fn resize(&mut self, id: &ContainerId, wanted: &Resources, edit: Option<&Edit>) {
        let Some(container) = self.containers.get_mut(id) else { return };
        let mut list = wanted.cpus.clone();
        if let Some(cpus) = edit.and_then(|edit| edit.cpus.as_ref()) {
            list = cpus.to_string();
        }
        if !list.is_empty() {
            container.facts.resources.cpus = list;
        }
        let spec = container.facts.resources.cpus.clone();
        if !spec.is_empty() {
            container.cpus = spec.parse::<CpuSet>().unwrap().intersection(&self.online);
        }
    }

    /// What is read from the cgroups.
    pub fn observed(&self) -> BTreeMap<ContainerId, Observed> {
        let seen = |container: &SimContainer| Observed { cpus: Some(container.cpus.clone()), mems: None };
        self.alive().map(|(id, container)| (id.clone(), seen(container))).collect()
    }
}
