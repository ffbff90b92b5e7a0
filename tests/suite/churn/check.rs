//! What must hold after every step.

use super::node::{Node, edit};
use super::runtime::{SimContainer, VISIBLE};
use maitred::decision::{Outcome, Reply};
use maitred::ledger::HoldingState;
use maitred::model::*;
use std::collections::{BTreeMap, BTreeSet};

impl Node {
    /// Who counts on us is seated whole or refused.
    pub(super) fn check_answer(&self, pod: &PodFacts, asked: &ContainerFacts, outcome: &Outcome) {
        let opted_out = pod.annotations.contains_key("exclusive.maitred.io");
        let milli = asked.resources.shares.unwrap() * 1000 / 1024;
        let whole = milli > 0 && milli.is_multiple_of(1000) && pod.cgroup_parent.starts_with("/kubepods/pod");
        if !whole || opted_out || matches!(outcome.reply, Reply::Refuse(_)) {
            return;
        }
        let cpus = edit(outcome).and_then(|edit| edit.cpus.clone()).expect("whole CPUs or a refusal");
        assert_eq!(cpus.len() as u64 * 1000, milli, "{asked:?}");
        assert!(cpus.is_subset(&self.topology.cpus) && cpus.is_disjoint(&self.settings.reserved), "{cpus}");
        if pod.annotations.get("gpus.maitred.io").is_some_and(|count| count == "1") {
            let env = &edit(outcome).unwrap().env;
            assert!(env.len() == 1 && env[0].0 == VISIBLE && env[0].1.starts_with("GPU-"), "{env:?}");
        }
    }

    /// What containers hold that run as they should.
    pub(super) fn held_by_the_living(
        &self,
    ) -> BTreeMap<ContainerKey, (CpuSet, BTreeMap<ResourceName, BTreeSet<DeviceId>>)> {
        let steady = |id: &ContainerId| {
            let container = self.runtime.containers.get(id);
            container.is_some_and(|container| container.alive && !container.stale)
        };
        let held = self.state.ledger().iter().filter(|(_, held)| held.id.as_ref().is_some_and(steady));
        held.filter(|_| self.enforces())
            .map(|(key, held)| (key.clone(), (held.placement.cpus.clone(), held.placement.devices.clone())))
            .collect()
    }

    /// What must hold after every step.
    pub fn check(&self) {
        let mut exclusive: BTreeMap<&ContainerId, &CpuSet> = BTreeMap::new();
        for (key, holding) in self.state.ledger().iter() {
            let Some(id) = holding.id.as_ref().filter(|_| holding.state != HoldingState::Lent) else {
                continue;
            };
            if !holding.placement.cpus.is_empty() && self.runtime.containers.get(id).is_some_and(|c| c.alive)
            {
                exclusive.insert(id, &holding.placement.cpus);
            }
            let others = self.state.ledger().iter().filter(|(other, _)| *other != key);
            for (other, held) in others {
                // What an init container had is its successors'.
                let init = [holding.kind, held.kind].contains(&ContainerKind::Init);
                if init && key.pod == other.pod {
                    continue;
                }
                assert!(held.placement.cpus.is_disjoint(&holding.placement.cpus), "{key} and {other} share");
            }
        }
        self.check_gpus();
        self.check_devices();
        self.check_pods();
        if !self.enforces() {
            return;
        }
        for (id, container) in self.runtime.alive() {
            self.check_cgroup(id, container, &exclusive);
        }
    }

    fn check_cgroup(
        &self,
        id: &ContainerId,
        found: &SimContainer,
        exclusive: &BTreeMap<&ContainerId, &CpuSet>,
    ) {
        assert!(!found.cpus.is_empty(), "{id} has no CPU");
        if found.stale {
            return;
        }
        match exclusive.get(id) {
            Some(own) => assert_eq!(found.cpus, **own, "{id} does not have its own CPUs"),
            None => {
                let taken = exclusive.values().fold(CpuSet::new(), |all, cpus| all.union(cpus));
                let on = found.cpus.intersection(&taken);
                assert!(on.is_empty(), "{id} is on CPUs {on} of others");
            }
        }
    }

    /// A pod that must be on one node is, whatever came and went in between.
    fn check_pods(&self) {
        let policy = &self.settings.policy;
        if policy.topology != TopologyPolicy::SingleNumaNode || policy.scope != Scope::Pod || self.was_off {
            return;
        }
        let mut nodes: BTreeMap<&PodUid, NodeSet> = BTreeMap::new();
        for (key, holding) in self.state.ledger().iter() {
            let on = self.topology.nodes_of(&holding.placement.cpus).union(&holding.placement.mems);
            let all = nodes.entry(&key.pod).or_default();
            *all = all.union(&on);
        }
        let lax = |uid: &PodUid| {
            let mut pods = self.runtime.pods.values().filter(|pod| pod.facts.uid == *uid);
            pods.any(|pod| pod.facts.namespace == "trusted")
        };
        let apart = nodes.into_iter().find(|(uid, nodes)| nodes.len() > 1 && !lax(uid));
        assert_eq!(apart, None, "a pod is not on one node");
    }

    /// No device, and nothing that is a part of one, is held by two pods.
    fn check_devices(&self) {
        let held = self.state.ledger().iter().flat_map(|(key, holding)| {
            holding.placement.devices.values().flatten().map(move |id| (key, id.as_str()))
        });
        let held: Vec<_> = held.collect();
        for (at, (key, id)) in held.iter().enumerate() {
            let rival =
                held[at + 1..].iter().find(|(other, theirs)| other.pod != key.pod && overlap(id, theirs));
            assert_eq!(rival, None, "{id} of {key} is held twice");
        }
    }

    /// What is ours to choose is not what a container of another pod names.
    pub(super) fn check_chosen(&self, pod: &PodFacts, asked: &ContainerFacts, outcome: &Outcome) {
        if !pod.annotations.keys().any(|key| key.starts_with("gpus.maitred.io")) {
            return;
        }
        let env = edit(outcome).into_iter().flat_map(|edit| &edit.env);
        let chosen: BTreeSet<&str> = env.flat_map(|(_, list)| list.split(',')).collect();
        let others = self.runtime.alive().filter(|(id, one)| {
            **id != asked.id && self.known.contains(*id) && !one.stale && one.facts.name != asked.name
        });
        for (id, other) in others.filter(|(_, one)| one.facts.sandbox != pod.id) {
            let shown =
                other.asked.env.iter().filter_map(|entry| entry.strip_prefix(VISIBLE)?.strip_prefix('='));
            let taken = shown.flat_map(|list| list.split(',')).find(|gpu| chosen.contains(gpu));
            assert_eq!(taken, None, "{} is given what {id} names", asked.id);
        }
    }

    /// A GPU that was chosen is chosen once.
    fn check_gpus(&self) {
        let mut seen: BTreeMap<&str, &ContainerId> = BTreeMap::new();
        for (id, container) in self.runtime.alive() {
            let chosen = container.facts.env.iter().filter(|entry| !container.asked.env.contains(entry));
            let chosen = chosen.filter_map(|entry| entry.strip_prefix(VISIBLE)?.strip_prefix('='));
            for gpu in chosen.flat_map(|list| list.split(',')) {
                assert!(!gpu.is_empty(), "{id} was given a GPU without a name");
                if let Some(other) = seen.insert(gpu, id) {
                    panic!("{gpu} was given to {id} and {other}");
                }
            }
        }
    }
}

/// Whether one id is the other or a part of it: `GPU-1` has `GPU-1::0` and `MIG-1-0`.
fn overlap(one: &str, other: &str) -> bool {
    let above = |id: &str| -> Vec<String> {
        let base = id.split_once("::").map_or(id, |(base, _)| base);
        let gpu = base
            .strip_prefix("MIG-")
            .and_then(|rest| rest.split_once('-'))
            .map(|(gpu, _)| format!("GPU-{gpu}"));
        [id, base].into_iter().map(str::to_owned).chain(gpu).collect()
    };
    above(one).iter().any(|id| id == other) || above(other).iter().any(|id| id == one)
}
