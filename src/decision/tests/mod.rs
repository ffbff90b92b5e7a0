//! The reducer as a runtime sees it. CPU 0 is reserved; what the machine is stands in `testing`.

mod adoption;
mod allotments;
mod answers;
mod anything;
mod choosing;
mod elsewhere;
mod found;
mod kubelet;
mod life;
mod memory;
mod others;
mod rivals;
mod seating;
mod sparing;
mod swapping;
mod tricks;

use super::testing::{container, limits, machine, pod, settings, whole};
use super::*;
use crate::engine::Reserve;
use crate::ledger::{RECORD_ANNOTATION, Record};
use crate::model::*;
use std::collections::BTreeMap;
use std::sync::Arc;

struct Node {
    state: State,
    settings: Settings,
}

impl Node {
    fn new() -> Self {
        Self::with(settings())
    }

    fn with(settings: Settings) -> Self {
        Self::over(machine(), settings)
    }

    fn over(machine: Topology, settings: Settings) -> Self {
        let reserve = Reserve { cpus: Some(settings.reserved.clone()), memory: BTreeMap::new() };
        let state = State::new(Arc::new(machine), &reserve, &settings.annotation_pool).unwrap();
        Self { state, settings }
    }

    fn step(&mut self, event: Event) -> Outcome {
        step(&mut self.state, event, &self.settings)
    }

    fn create(&mut self, pod: &PodFacts, container: &ContainerFacts) -> Outcome {
        self.step(Event::Create(pod.clone(), container.clone()))
    }

    fn stop(&mut self, pod: &PodFacts, container: &ContainerFacts) -> Outcome {
        self.step(Event::Stop(pod.clone(), container.clone()))
    }

    fn held(&self) -> usize {
        self.state.ledger().iter().count()
    }
}

fn edit(outcome: &Outcome) -> &Edit {
    match &outcome.reply {
        Reply::Adjust(edit) => edit,
        other => panic!("no edit but {other:?}"),
    }
}

fn refusal(outcome: &Outcome) -> String {
    match &outcome.reply {
        Reply::Refuse(rejection) => rejection.to_string(),
        other => panic!("no refusal but {other:?}"),
    }
}

fn cpus(outcome: &Outcome) -> String {
    edit(outcome).cpus.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn updates(outcome: &Outcome) -> Vec<(String, String)> {
    outcome.updates.iter().map(|update| (update.id.to_string(), update.cpus.to_string())).collect()
}

fn line(id: &str, cpus: &str) -> (String, String) {
    (id.to_owned(), cpus.to_owned())
}

/// A container that asks for next to nothing, in a Burstable pod.
fn small(name: &str) -> (PodFacts, ContainerFacts) {
    let pod = PodFacts { cgroup_parent: format!("/kubepods/burstable/pod{name}"), ..pod(name) };
    let mut facts = ContainerFacts { resources: limits(100, 0), ..container(name) };
    facts.oom_score_adj = Some(900);
    (pod, facts)
}

fn on_gpu(mut facts: ContainerFacts, uuid: &str) -> ContainerFacts {
    facts.env.push(format!("NVIDIA_VISIBLE_DEVICES={uuid}"));
    facts
}

fn asking(name: &str, gpus: &str) -> PodFacts {
    let mut pod = pod(name);
    pod.annotations.insert("gpus.maitred.io".into(), gpus.into());
    pod
}

/// What podresources tells of a pod: its containers' devices, one resource each.
fn allotted(pod: &PodFacts, containers: &[(&str, &str, &[&str])]) -> Event {
    let one = |(name, resource, ids): &(&str, &str, &[&str])| {
        let ids = ids.iter().map(|id| ((*id).to_owned(), None)).collect();
        let devices = BTreeMap::from([((*resource).into(), ids)]);
        ((*name).into(), Allotment { devices, ..Allotment::default() })
    };
    let containers = containers.iter().map(one).collect();
    Event::Allotted(pod.uid.clone(), PodAllotment { source: AllotmentSource::PodResources, containers })
}

/// One container of a pod with GPUs of the device plugin's, told by podresources and shown by the environment.
fn given(node: &mut Node, name: &str, cpus: u64, gpus: &[&str]) -> (PodFacts, ContainerFacts) {
    let pod = pod(name);
    node.step(allotted(&pod, &[(name, "nvidia.com/gpu", gpus)]));
    (pod, on_gpu(whole(name, cpus), &gpus.join(",")))
}

fn held_gpus(node: &Node, name: &str) -> Vec<String> {
    let key = ContainerKey::new(PodUid::new(format!("uid-{name}")), name.into());
    let devices =
        node.state.ledger().get(&key).map(|held| held.placement.devices.clone()).unwrap_or_default();
    devices.into_values().flatten().map(|id| id.to_string()).collect()
}

/// What the runtime gives back in Synchronize of a container it made by this edit.
fn made(mut facts: ContainerFacts, sandbox: &PodFacts, outcome: &Outcome) -> ContainerFacts {
    let edit = edit(outcome);
    facts.sandbox = sandbox.id.clone();
    facts.state = ContainerState::Running;
    facts.resources.cpus = edit.cpus.as_ref().map(ToString::to_string).unwrap_or_default();
    facts.resources.mems = edit.mems.as_ref().map(ToString::to_string).unwrap_or_default();
    if let Some(record) = &edit.record {
        facts.annotations.insert(RECORD_ANNOTATION.into(), record.clone());
    }
    for (name, value) in &edit.env {
        facts.env.push(format!("{name}={value}"));
    }
    facts
}

fn synchronize(pods: &[&PodFacts], containers: &[&ContainerFacts]) -> Event {
    let seen = |facts: &&ContainerFacts| {
        let all = || "0-15".parse().unwrap();
        let cpus: CpuSet = facts.resources.cpus.parse().unwrap();
        let cpus = if cpus.is_empty() { all() } else { cpus };
        (facts.id.clone(), Observed { cpus: Some(cpus), mems: None })
    };
    Event::Synchronize {
        pods: pods.iter().map(|pod| (*pod).clone()).collect(),
        containers: containers.iter().map(|facts| (*facts).clone()).collect(),
        observed: containers.iter().map(seen).collect(),
        hints: Vec::new(),
    }
}
