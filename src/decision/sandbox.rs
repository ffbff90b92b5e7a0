//! Pods as a whole: whether there is a table for them at all, and the end of what they held.

use super::step::{refused, verdict};
use super::{Decision, GpuPlacement, Outcome, Reply, Settings, State, Verdict, encoded, understand};
use crate::engine::{self, GPU, Occupancy, Seat};
use crate::model::{
    Bytes, ContainerKey, ContainerKind, ContainerName, ContainerRequest, MemoryManager, PodFacts, PodRequest,
    PodUid, Policy, Qos, Rejection, Scope, TopologyPolicy,
};
use std::borrow::Cow;

/// A sandbox is refused only when the devices that the kubelet gave its containers are nowhere together, or a
/// Guaranteed pod's memory fits nowhere; whatever else does not fit is refused at its container, with a better
/// reason. Nothing is reserved.
pub(super) fn run(state: &mut State, pod: PodFacts, settings: &Settings) -> Outcome {
    let refusal = no_room(state, &pod, settings).err();
    let exempt = understand::exemption(&pod, None, settings);
    let mut outcome = Outcome::default();
    if let Some(rejection) = refusal {
        match exempt {
            Some(why) => {
                let reason = format!("{why}; would have been refused: {rejection}");
                let line = verdict(&pod, None, Decision::Exempt, reason);
                outcome.verdicts.push(Verdict { warn: true, rejection: Some(rejection), ..line });
            }
            None => {
                outcome.verdicts.push(refused(&pod, None, &rejection));
                outcome.reply = Reply::Refuse(rejection);
                return outcome;
            }
        }
    }
    state.pods.insert(pod.id.clone(), pod);
    outcome
}

fn no_room(state: &State, pod: &PodFacts, settings: &Settings) -> Result<(), Box<Rejection>> {
    // An annotation may loosen this for a trusted namespace; its containers then say so themselves.
    let sits_as_one =
        settings.policy.scope == Scope::Pod && !settings.trusted_namespaces.contains(&pod.namespace);
    let memory_counts = encoded::qos(&pod.cgroup_parent) == Qos::Guaranteed
        && settings.policy.memory == MemoryManager::Static;
    let sum = sums(pod);
    let memory = Some(sum.memory).filter(|memory| memory_counts && memory.0 > 0);
    let devices = others(state, pod, &"".into(), settings);
    if !sits_as_one || (memory.is_none() && devices.is_none()) || state.holds(pod) {
        return Ok(());
    }
    let memory = memory.unwrap_or(Bytes(0));
    let sum = ContainerRequest { opt_out: true, cpu_milli: 0, memory, ..sum };
    let request = whole_pod(pod, std::iter::once(sum).chain(devices).collect());
    engine::choose_seat(state.ledger.machine(), state.ledger.occupancy(), &request, &settings.policy)
        .map(|_| ())
        .map_err(|rejection| Box::new(Rejection { container: None, ..rejection }))
}

/// What the kubelet says the pod's containers sum up to, as one container.
pub(super) fn sums(pod: &PodFacts) -> ContainerRequest {
    let resources = pod.resources.clone().unwrap_or_default();
    let memory = resources.memory_limit.and_then(|limit| u64::try_from(limit).ok());
    let qos = encoded::qos(&pod.cgroup_parent);
    ContainerRequest {
        cpu_milli: encoded::cpu_milli(&resources),
        memory: Bytes(memory.unwrap_or(0)),
        ..ContainerRequest::nothing(pod.name.as_str().into(), ContainerKind::App, qos)
    }
}

/// What the kubelet gave a pod's other containers; GPUs that we may swap say nothing yet.
fn others(
    state: &State,
    pod: &PodFacts,
    own: &ContainerName,
    settings: &Settings,
) -> Option<ContainerRequest> {
    let mut others = state.others_of_pod(&pod.uid, own)?;
    if settings.gpu_placement != GpuPlacement::Keep {
        others.devices.remove(&GPU.into());
    }
    Some(others).filter(|others| !others.devices.is_empty())
}

fn whole_pod(pod: &PodFacts, containers: Vec<ContainerRequest>) -> PodRequest {
    PodRequest { uid: pod.uid.clone(), namespace: pod.namespace.clone(), name: pod.name.clone(), containers }
}

/// The nodes of a pod in scope pod: chosen from everything known when its first container is placed, kept from
/// then on. The CPU sum only ranks: ten containers of 1500m need no exclusive CPU.
pub(super) fn seat(
    state: &State,
    occupancy: &Occupancy,
    pod: &PodFacts,
    request: &ContainerRequest,
    settings: &Settings,
    policy: &Policy,
) -> Result<Option<Seat>, Rejection> {
    if policy.scope != Scope::Pod || policy.topology == TopologyPolicy::None {
        return Ok(None);
    }
    if let Some(seat) = state.ledger.seat(&pod.uid) {
        return Ok(Some(seat.clone()));
    }
    let key = ContainerKey::new(pod.uid.clone(), request.name.clone());
    let mut room = Cow::Borrowed(occupancy);
    // What it has held since before anybody remembered a seat it will have again.
    if occupancy.placement(&key).is_some() {
        room.to_mut().release(state.ledger.machine(), &key);
    }
    let sum = sums(pod);
    let known = ContainerRequest { memory: request.memory.max(sum.memory), ..request.clone() };
    let whole_sum = sum.cpu_milli / 1000 * 1000;
    let ranked = ContainerRequest { cpu_milli: known.cpu_milli.max(whole_sum), ..known.clone() };
    let choose = |wanted: ContainerRequest| {
        let others = others(state, pod, &request.name, settings);
        let wanted = whole_pod(pod, std::iter::once(wanted).chain(others).collect());
        engine::choose_seat(state.ledger.machine(), &room, &wanted, policy)
    };
    match choose(ranked) {
        Ok(seat) => Ok(Some(seat)),
        Err(_) => choose(known).map(Some),
    }
}

/// The end of a pod: everything it held is free.
pub(super) fn stop(state: &mut State, pod: &PodFacts, why: &str, settings: &Settings) -> Outcome {
    end(state, pod, false, why, settings)
}

/// As [`stop`], of which the runtime did not tell: a sandbox that containerd found when it started has no end for it.
/// Where the pod for which room is made had been in one of them, the kubelet's word about it counts for the next one.
pub(super) fn ended(
    state: &mut State,
    sandboxes: &[String],
    before: &PodUid,
    settings: &Settings,
) -> Outcome {
    let why = "the pod has ended: its cgroup is gone, though the runtime has not told";
    sandboxes.iter().fold(Outcome::default(), |earlier, id| {
        let Some(pod) = state.pods.get(id).cloned() else { return earlier };
        end(state, &pod, pod.uid == *before, why, settings).after(earlier)
    })
}

fn end(state: &mut State, pod: &PodFacts, goes_on: bool, why: &str, settings: &Settings) -> Outcome {
    state.pods.remove(&pod.id);
    state.live.retain(|_, live| live.sandbox != pod.id);
    state.spurned.retain(|key| key.pod != pod.uid);
    let released = match state.has_other_sandbox(&pod.uid, &pod.id) {
        true => release_of_sandbox(state, &pod.id),
        false => {
            if !goes_on {
                state.allotments.remove(&pod.uid);
            }
            state.sandbox_of.retain(|key, _| key.pod != pod.uid);
            state.ledger.release_pod(&pod.uid)
        }
    };
    let mut outcome = Outcome { writes: state.spread(settings), ..Outcome::default() };
    if released {
        outcome.verdicts.push(verdict(pod, None, Decision::Released, why.into()));
    }
    outcome
}

fn release_of_sandbox(state: &mut State, sandbox: &str) -> bool {
    let of_it = |held_under: &String| held_under == sandbox;
    let keys: Vec<_> =
        state.sandbox_of.iter().filter(|(_, s)| of_it(s)).map(|(key, _)| key.clone()).collect();
    for key in &keys {
        state.ledger.release(key);
        state.sandbox_of.remove(key);
    }
    !keys.is_empty()
}

impl State {
    /// Whether a pod holds anything.
    pub(super) fn holds(&self, pod: &PodFacts) -> bool {
        self.ledger.iter().any(|(key, _)| key.pod == pod.uid)
    }
}
