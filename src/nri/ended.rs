//! Pods whose end the runtime does not tell of.
//!
//! containerd sends StopPodSandbox and RemovePodSandbox only for sandboxes it has made since it started itself (its
//! `internal/nri` keeps their states in memory and does not fill them in again): the pods that a registration finds
//! may end without a word. Their cgroups tell.

use super::handler::Cgroups;
use crate::decision::{self, Decision, Event, Outcome, Settings, State};
use crate::model::{ContainerFacts, ContainerState, PodFacts};
use std::collections::BTreeMap;

/// The sandboxes that the last registration found.
#[derive(Debug, Default)]
pub(super) struct Found(BTreeMap<String, Marks>);

/// What of a sandbox was there when it was found. What never was (a virtual machine's cgroup has another name) says
/// nothing by its absence.
#[derive(Debug)]
struct Marks {
    own: Option<String>,
    pod: Option<String>,
}

impl Found {
    /// Begins anew with these pods; those that have ended already are taken from among them.
    pub fn begin(&mut self, pods: &mut Vec<PodFacts>, containers: &[ContainerFacts], cgroups: &dyn Cgroups) {
        let live = |pod: &PodFacts| {
            containers.iter().any(|one| one.sandbox == pod.id && one.state != ContainerState::Stopped)
        };
        pods.retain(|pod| live(pod) || !gone(cgroups.is_pod_there(&pod.cgroup_parent), &pod.cgroup_parent));
        self.0 = pods.iter().filter_map(|pod| Some((pod.id.clone(), Marks::of(pod, cgroups)?))).collect();
    }

    /// Decides about an event. What begins, and what would be refused, is not held up by pods that have ended.
    pub fn step(
        &mut self,
        state: &mut State,
        event: Event,
        settings: &Settings,
        cgroups: &dyn Cgroups,
    ) -> Outcome {
        if comes_late(state, &event, cgroups) {
            return Outcome::default();
        }
        let mut over = match event {
            Event::RunPod(_) => self.release(state, settings, cgroups),
            _ => None,
        };
        let again = matches!(event, Event::Create(..)).then(|| event.clone()).filter(|_| !self.0.is_empty());
        let mut outcome = decision::step(state, event, settings);
        if let Some(again) = again.filter(|_| is_refused(&outcome)) {
            over = self.release(state, settings, cgroups);
            if over.is_some() {
                outcome = decision::step(state, again, settings);
            }
        }
        if let Some(over) = over {
            outcome.writes.splice(0..0, over.writes);
            outcome.verdicts.splice(0..0, over.verdicts);
        }
        outcome
    }

    fn release(&mut self, state: &mut State, settings: &Settings, cgroups: &dyn Cgroups) -> Option<Outcome> {
        let ended = self.ended(state, cgroups);
        (!ended.is_empty()).then(|| decision::step(state, Event::Ended(ended), settings))
    }

    /// The sandboxes that have ended since: their cgroup is gone, and those of all their containers.
    fn ended(&mut self, state: &State, cgroups: &dyn Cgroups) -> Vec<String> {
        self.0.retain(|sandbox, _| state.knows_sandbox(sandbox));
        let over = |(sandbox, marks): (&String, &Marks)| {
            let mut containers = state.cgroups_in(sandbox);
            let over = marks.are_gone(cgroups) && containers.all(|path| gone(cgroups.is_there(path), path));
            over.then(|| sandbox.clone())
        };
        let ended: Vec<String> = self.0.iter().filter_map(over).collect();
        self.0.retain(|sandbox, _| !ended.contains(sandbox));
        ended
    }
}

impl Marks {
    fn of(pod: &PodFacts, cgroups: &dyn Cgroups) -> Option<Self> {
        let there = |found: Result<bool, _>, path: &str| found.unwrap_or(false).then(|| path.to_owned());
        let own = there(cgroups.is_there(&pod.cgroups_path), &pod.cgroups_path);
        let pod = there(cgroups.is_pod_there(&pod.cgroup_parent), &pod.cgroup_parent);
        (own.is_some() || pod.is_some()).then_some(Self { own, pod })
    }

    fn are_gone(&self, cgroups: &dyn Cgroups) -> bool {
        let own = self.own.as_ref().is_some_and(|path| gone(cgroups.is_there(path), path));
        own || self.pod.as_ref().is_some_and(|path| gone(cgroups.is_pod_there(path), path))
    }
}

/// The word that a container has started can wait in the runtime until it has ended and its next attempt runs: that has
/// its seat.
fn comes_late(state: &State, event: &Event, cgroups: &dyn Cgroups) -> bool {
    let Event::Started(pod, container) = event else { return false };
    let path = &container.cgroups_path;
    state.has_other_attempt(&pod.uid, container) && gone(cgroups.is_there(path), path)
}

/// Whether it was refused, or would have been.
fn is_refused(outcome: &Outcome) -> bool {
    outcome.verdicts.iter().any(|verdict| verdict.decision == Decision::Rejected)
}

/// Whether a cgroup is known not to be there. One that is not named, or cannot be looked for, may well be.
fn gone(found: Result<bool, super::BoxError>, path: &str) -> bool {
    !path.is_empty() && matches!(found, Ok(false))
}
