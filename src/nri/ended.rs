//! Pods whose end the runtime does not tell of.
//!
//! containerd sends StopPodSandbox and RemovePodSandbox only for sandboxes it has made since it started itself (its
//! `internal/nri` keeps their states in memory and does not fill them in again): the pods that a registration finds
//! may end without a word. Their cgroups tell.

use super::handler::Cgroups;
use crate::decision::{self, Decision, Event, Outcome, Settings, State};
use crate::model::{ContainerFacts, ContainerState, PodFacts, PodUid};
use std::collections::BTreeMap;

/// The sandboxes that the last registration found.
#[derive(Debug, Default)]
pub(super) struct Found(BTreeMap<String, Marks>);

/// What tells that a sandbox has ended: what was there and is not any more. A sandbox's cgroup that never was (a virtual
/// machine's has another name) says nothing. A pod's that was not there at the first look says something, as a pod can
/// end between the runtime's listing and that look.
#[derive(Debug)]
struct Marks {
    /// The sandbox's cgroup, where it was there.
    own: Option<String>,
    /// The pod's, where it was there or must have been.
    pod: Option<PodCgroup>,
}

#[derive(Debug)]
struct PodCgroup {
    path: String,
    /// Whether it was there; otherwise it counts as gone only while that of the pod that asks is seen.
    seen: bool,
}

impl Found {
    /// Begins anew with these pods; those that have ended already are taken from among them. They are watched all the
    /// same, as all that has ended: a create that was on its way can bring a pod back.
    pub fn begin(&mut self, pods: &mut Vec<PodFacts>, containers: &[ContainerFacts], cgroups: &dyn Cgroups) {
        self.0 = pods.iter().map(|pod| (pod.id.clone(), Marks::of(pod, cgroups))).collect();
        let live = |pod: &PodFacts| {
            containers.iter().any(|one| one.sandbox == pod.id && one.state != ContainerState::Stopped)
        };
        pods.retain(|pod| live(pod) || !gone(cgroups.is_pod_there(&pod.cgroup_parent), &pod.cgroup_parent));
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
        match event {
            Event::RunPod(pod) if self.watches(state) => {
                let over = self.release(&pod, state, settings, cgroups).unwrap_or_default();
                decision::step(state, Event::RunPod(pod), settings).after(over)
            }
            Event::Create(pod, container) if self.watches(state) => {
                let create = || Event::Create(pod.clone(), container.clone());
                let outcome = decision::step(state, create(), settings);
                let over =
                    is_refused(&outcome).then(|| self.release(&pod, state, settings, cgroups)).flatten();
                match over {
                    Some(over) => decision::step(state, create(), settings).after(over),
                    None => outcome,
                }
            }
            event => decision::step(state, event, settings),
        }
    }

    /// Whether any of them is still held for alive.
    fn watches(&self, state: &State) -> bool {
        self.0.keys().any(|sandbox| state.knows_sandbox(sandbox))
    }

    /// Takes what has ended out of a pod's way; `None` where nothing is, or that pod itself has ended.
    fn release(
        &self,
        pod: &PodFacts,
        state: &mut State,
        settings: &Settings,
        cgroups: &dyn Cgroups,
    ) -> Option<Outcome> {
        let sees_pods = has_own_cgroup(pod) && there(cgroups.is_pod_there(&pod.cgroup_parent));
        let over = |(sandbox, marks): &(&String, &Marks)| {
            let mut containers = state.cgroups_in(sandbox);
            state.knows_sandbox(sandbox)
                && marks.are_gone(cgroups, sees_pods)
                && containers.all(|path| gone(cgroups.is_there(path), path))
        };
        let sandboxes: Vec<String> = self.0.iter().filter(over).map(|(sandbox, _)| sandbox.clone()).collect();
        let any = !sandboxes.is_empty() && !sandboxes.contains(&pod.id);
        any.then(|| decision::step(state, Event::Ended { sandboxes, before: pod.uid.clone() }, settings))
    }
}

impl Marks {
    fn of(pod: &PodFacts, cgroups: &dyn Cgroups) -> Self {
        let seen = there(cgroups.is_pod_there(&pod.cgroup_parent));
        let watched = seen || has_own_cgroup(pod);
        Self {
            own: there(cgroups.is_there(&pod.cgroups_path)).then(|| pod.cgroups_path.clone()),
            pod: watched.then(|| PodCgroup { path: pod.cgroup_parent.clone(), seen }),
        }
    }

    fn are_gone(&self, cgroups: &dyn Cgroups, sees_pods: bool) -> bool {
        let own = |path: &String| gone(cgroups.is_there(path), path);
        let pod = |PodCgroup { path, seen }: &PodCgroup| {
            (*seen || sees_pods) && gone(cgroups.is_pod_there(path), path)
        };
        self.own.as_ref().is_some_and(own) || self.pod.as_ref().is_some_and(pod)
    }
}

/// Whether its parent cgroup is the one that the kubelet makes for that pod alone before its sandbox (`syncPod` in
/// pkg/kubelet/kubelet.go). Without `cgroups-per-qos`, and without a kubelet, there is none.
fn has_own_cgroup(pod: &PodFacts) -> bool {
    let name = pod.cgroup_parent.rsplit('/').next().unwrap_or_default();
    PodUid::of_cgroup(name).is_some_and(|named| named == pod.uid)
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
