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

/// What tells that a sandbox has ended. What was not there when it was found (a virtual machine's cgroup has another
/// name) says nothing by its absence, but for the pod's own cgroup: the kubelet makes that before anything of the pod,
/// and a pod can end between the runtime's listing and our look.
#[derive(Debug)]
struct Marks {
    /// The sandbox's cgroup, where it was there.
    own: Option<String>,
    /// The pod's.
    pod: String,
    /// Whether that was there.
    seen: bool,
}

impl Found {
    /// Begins anew with these pods; those that have ended already are taken from among them.
    pub fn begin(&mut self, pods: &mut Vec<PodFacts>, containers: &[ContainerFacts], cgroups: &dyn Cgroups) {
        let live = |pod: &PodFacts| {
            containers.iter().any(|one| one.sandbox == pod.id && one.state != ContainerState::Stopped)
        };
        pods.retain(|pod| live(pod) || !gone(cgroups.is_pod_there(&pod.cgroup_parent), &pod.cgroup_parent));
        self.0 = pods.iter().map(|pod| (pod.id.clone(), Marks::of(pod, cgroups))).collect();
    }

    /// Decides about an event. What begins, and what would be refused, is not held up by pods that have ended.
    pub fn step(
        &self,
        state: &mut State,
        event: Event,
        settings: &Settings,
        cgroups: &dyn Cgroups,
    ) -> Outcome {
        if comes_late(state, &event, cgroups) {
            return Outcome::default();
        }
        let mut over = match &event {
            Event::RunPod(pod) => self.release(pod, state, settings, cgroups),
            _ => None,
        };
        let again = match &event {
            Event::Create(pod, _) if !self.0.is_empty() => Some((pod.clone(), event.clone())),
            _ => None,
        };
        let mut outcome = decision::step(state, event, settings);
        if let Some((pod, again)) = again.filter(|_| is_refused(&outcome)) {
            over = self.release(&pod, state, settings, cgroups);
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

    /// Takes what has ended out of a living pod's way.
    fn release(
        &self,
        living: &PodFacts,
        state: &mut State,
        settings: &Settings,
        cgroups: &dyn Cgroups,
    ) -> Option<Outcome> {
        let ended = self.ended(state, cgroups, there(cgroups.is_pod_there(&living.cgroup_parent)));
        (!ended.is_empty()).then(|| decision::step(state, Event::Ended(ended), settings))
    }

    /// The sandboxes that have ended since: their cgroup is gone, and those of all their containers. Whether we see a
    /// living pod's cgroup where the kubelet says it is tells whether one that we never saw is not there.
    /// What has ended stays watched: a create that was on its way can still bring it back.
    fn ended(&self, state: &State, cgroups: &dyn Cgroups, sees_living: bool) -> Vec<String> {
        let over = |(sandbox, marks): &(&String, &Marks)| {
            let mut containers = state.cgroups_in(sandbox);
            state.knows_sandbox(sandbox)
                && marks.are_gone(cgroups, sees_living)
                && containers.all(|path| gone(cgroups.is_there(path), path))
        };
        self.0.iter().filter(over).map(|(sandbox, _)| sandbox.clone()).collect()
    }
}

impl Marks {
    fn of(pod: &PodFacts, cgroups: &dyn Cgroups) -> Self {
        Self {
            own: there(cgroups.is_there(&pod.cgroups_path)).then(|| pod.cgroups_path.clone()),
            pod: pod.cgroup_parent.clone(),
            seen: there(cgroups.is_pod_there(&pod.cgroup_parent)),
        }
    }

    fn are_gone(&self, cgroups: &dyn Cgroups, sees_living: bool) -> bool {
        let own = self.own.as_ref().is_some_and(|path| gone(cgroups.is_there(path), path));
        own || (self.seen || sees_living) && gone(cgroups.is_pod_there(&self.pod), &self.pod)
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

/// Whether a cgroup is known to be there.
fn there(found: Result<bool, super::BoxError>) -> bool {
    found.unwrap_or(false)
}

/// Whether a cgroup is known not to be there. One that is not named, or cannot be looked for, may well be.
fn gone(found: Result<bool, super::BoxError>, path: &str) -> bool {
    !path.is_empty() && matches!(found, Ok(false))
}
