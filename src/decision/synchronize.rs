//! The ledger rebuilt from what runs, and what started unpinned while we were away put right.
//!
//! In order: records that hold up, cpusets that speak for themselves, records whose cpuset somebody changed, seats
//! remembered for containers that have stopped, then the containers that should have been pinned and are not.
//! Nothing that runs is ever stopped, and neither its mems nor its GPUs change.

use super::annotated::{self};
use super::create::hold_given;
use super::running::{Running, as_it_runs};
use super::seat::takes_a_seat;
use super::state::Role;
use super::step::key;
use super::words::sentence;
use super::{CpuAuthority, Decision, Mode, Observed, Outcome, Settings, State, Verdict, sandbox};
use crate::engine::{self, Seat};
use crate::ledger::Record;
use crate::model::{
    ContainerFacts, ContainerId, ContainerKind, ContainerState, NodeSet, Placement, PodFacts, Scope,
};
use std::collections::BTreeMap;

pub(super) fn synchronize(
    state: &mut State,
    pods: Vec<PodFacts>,
    containers: &[ContainerFacts],
    observed: &BTreeMap<ContainerId, Observed>,
    hints: &[Record],
    settings: &Settings,
) -> Outcome {
    state.forget(settings);
    state.pods = pods.into_iter().map(|pod| (pod.id.clone(), pod)).collect();
    let live = containers.iter().filter(|facts| facts.state != ContainerState::Stopped);
    let running = live.map(|facts| {
        let pod = state.pods.get(&facts.sandbox).cloned().unwrap_or_else(|| nobody(&facts.sandbox));
        let remembered = hints.iter().find(|hint| hint.id == facts.id && hint.key == key(&pod, facts));
        Running { remembered, ..Running::look(pod, facts, observed.get(&facts.id), state, settings) }
    });
    let mut running: Vec<Running<'_>> = running.collect();
    // Who was promised something before keeps it, whoever was let on to it unasked since.
    running.sort_by_key(|one| one.own_record().is_none());
    let mut outcome = Outcome::default();
    take_in(state, running, hints, settings, &mut outcome);
    outcome.updates = state.spread(settings);
    outcome
}

/// A container has started. One that was never decided about, because it was made while nobody was asked or
/// let through when no decision came in time, is taken in like those that ran before us.
pub(super) fn started(
    state: &mut State,
    pod: PodFacts,
    container: &ContainerFacts,
    settings: &Settings,
) -> Outcome {
    let key = key(&pod, container);
    if let Some(live) = state.live.get_mut(&container.id) {
        live.unproven = false;
        state.ledger.confirm(&key, &container.id);
        return Outcome::default();
    }
    state.pods.entry(pod.id.clone()).or_insert_with(|| pod.clone());
    if settings.mode == Mode::Off {
        state.track(key, container, &pod.id, Role::Shared(None));
        hold_given(state, &pod, container);
        return Outcome::default();
    }
    let running = vec![Running::look(pod, container, None, state, settings)];
    let mut outcome = Outcome::default();
    take_in(state, running, &[], settings, &mut outcome);
    // This answer carries no updates.
    outcome.writes = state.spread(settings);
    outcome
}

/// A pod nobody has told of: its containers can only be shared ones.
fn nobody(sandbox: &str) -> PodFacts {
    PodFacts {
        id: sandbox.to_owned(),
        uid: "".into(),
        name: String::new(),
        namespace: String::new(),
        annotations: BTreeMap::new(),
        runtime_handler: String::new(),
        cgroup_parent: String::new(),
        cgroups_path: String::new(),
        resources: None,
    }
}

fn take_in(
    state: &mut State,
    running: Vec<Running<'_>>,
    hints: &[Record],
    settings: &Settings,
    outcome: &mut Outcome,
) {
    let rest = each(running, |one| by_record(state, one, settings, outcome));
    let rest = each(rest, |one| by_cpuset(state, one, settings, outcome));
    let rest = each(rest, |one| by_lost_cpuset(state, one, settings, outcome));
    for hint in hints.iter().filter(|hint| rest.iter().all(|one| key(&one.pod, one.facts) != hint.key)) {
        recall(state, hint, settings);
    }
    let rest = each(rest, |one| repair(state, one, settings, outcome));
    for one in rest {
        let line = one.shared_line();
        keep_the_rest(state, &one, settings, outcome, line);
    }
}

/// The ones that `take` does not take.
fn each<'a>(all: Vec<Running<'a>>, mut take: impl FnMut(&Running<'a>) -> bool) -> Vec<Running<'a>> {
    all.into_iter().filter(|one| !take(one)).collect()
}

fn adopt(
    state: &mut State,
    one: &Running<'_>,
    placement: Placement,
    settings: &Settings,
    outcome: &mut Outcome,
    line: Verdict,
) -> bool {
    let key = key(&one.pod, one.facts);
    if state.ledger.adopt(key.clone(), one.facts.id.clone(), one.kind(), placement.clone()).is_err() {
        return false;
    }
    state.sandbox_of.insert(key.clone(), one.pod.id.clone());
    state.track(key, one.facts, &one.pod.id, one.role(&placement, settings));
    state.live.entry(one.facts.id.clone()).and_modify(|live| live.told = one.told());
    let scope = annotated::scope(&one.pod, &one.facts.name, settings);
    remember_seat(state, &one.pod, scope, &placement);
    outcome.verdicts.push(Verdict { placement: Some(placement), ..line });
    true
}

/// The pod's nodes are those its first container sits on.
fn remember_seat(state: &mut State, pod: &PodFacts, scope: Scope, placement: &Placement) {
    // Who holds only what it was given was not seated: that says nothing about where the rest of the pod belongs.
    let seated = placement.affinity.is_some() || !placement.cpus.is_empty() || !placement.memory.is_empty();
    if scope == Scope::Pod && seated && state.ledger.seat(&pod.uid).is_none() {
        let seat = Seat { affinity: placement.affinity.clone(), preferred: placement.preferred };
        state.ledger.set_seat(pod.uid.clone(), seat);
    }
}

fn by_record(state: &mut State, one: &Running<'_>, settings: &Settings, outcome: &mut Outcome) -> bool {
    let follows =
        |placement: &Placement| placement.cpus.is_empty() || one.cpus.as_ref() == Some(&placement.cpus);
    let Some(placement) = one.record().filter(follows) else { return false };
    let line = one.line(Decision::Adopted, format!("by its record: {}", sentence(&placement)));
    adopt(state, one, placement, settings, outcome, line)
}

/// A cpuset of just the right size that is nobody else's is a placement, whoever made it; the shared pool itself
/// is not, however large it is.
fn by_cpuset(state: &mut State, one: &Running<'_>, settings: &Settings, outcome: &mut Outcome) -> bool {
    let (Some(due), Some(cpus)) = (one.due(), &one.cpus) else { return false };
    let allowed = state.topology.cpus.difference(state.ledger.machine().reserved());
    let pool = state.ledger.shared_pool(&settings.policy.cpu);
    // What the kubelet keeps for the system need not be what we do.
    let allowed =
        if settings.authority == CpuAuthority::Kubelet { state.topology.cpus.clone() } else { allowed };
    if cpus.len() != due as usize || !cpus.is_subset(&allowed) || pool.is_subset(cpus) {
        return false;
    }
    let nodes = state.topology.nodes_of(cpus);
    let mems: NodeSet = one.facts.resources.mems.parse().unwrap_or_default();
    let placement = Placement {
        preferred: nodes.len() == 1,
        affinity: Some(nodes),
        cpus: cpus.clone(),
        mems,
        ..one.holds()
    };
    let line = one.line(Decision::Adopted, format!("by its cpuset: {}", sentence(&placement)));
    adopt(state, one, placement, settings, outcome, line)
}

/// Somebody changed its cpuset while nobody looked. Its memory and its GPUs are where they were, so it goes back.
fn by_lost_cpuset(state: &mut State, one: &Running<'_>, settings: &Settings, outcome: &mut Outcome) -> bool {
    if settings.authority == CpuAuthority::Kubelet {
        return false;
    }
    let Some(placement) = one.record().filter(|placement| !placement.cpus.is_empty()) else { return false };
    let reason = format!("its cpuset was changed: back to {}", sentence(&placement));
    let line = one.line(Decision::Repaired, reason);
    let taken = adopt(state, one, placement, settings, outcome, line);
    forget_told(state, one, taken);
    taken
}

/// What it has now is not what it should have: an update goes out.
fn forget_told(state: &mut State, one: &Running<'_>, taken: bool) {
    if taken {
        state.live.entry(one.facts.id.clone()).and_modify(|live| live.told = None);
    }
}

/// A container that has stopped in a pod that lives: its seat is lent, as it was.
fn recall(state: &mut State, hint: &Record, settings: &Settings) {
    let pod = state.pods.values().find(|pod| pod.uid == hint.key.pod).cloned();
    let (Some(pod), None) = (pod, state.ledger.get(&hint.key)) else { return };
    let kind = ContainerKind::Unknown;
    let placement = hint.placement().clone();
    if state.ledger.adopt(hint.key.clone(), hint.id.clone(), kind, placement).is_ok() {
        state.ledger.lend(&hint.key, &hint.id);
        let scope = annotated::scope(&pod, &hint.key.container, settings);
        remember_seat(state, &pod, scope, hint.placement());
        state.sandbox_of.insert(hint.key.clone(), pod.id);
    }
}

/// What should have been pinned and is not: pinned now where its CPUs are free, else named.
fn repair(state: &mut State, one: &Running<'_>, settings: &Settings, outcome: &mut Outcome) -> bool {
    let (Ok(understood), Some(_)) = (&one.understood, one.due()) else { return false };
    if settings.authority == CpuAuthority::Kubelet {
        return false;
    }
    let request = as_it_runs(&understood.request, &one.without_cpus());
    if !takes_a_seat(&request, &understood.policy) {
        return false;
    }
    let seat =
        sandbox::seat(state, state.ledger.occupancy(), &one.pod, &request, settings, &understood.policy);
    let placed = seat.and_then(|seat| {
        let (machine, occupancy) = (state.ledger.machine(), state.ledger.occupancy());
        engine::admit_container(machine, occupancy, &one.pod.uid, &request, seat.as_ref(), &understood.policy)
    });
    match placed {
        Ok(mut placement) => {
            placement.devices.extend(one.holds().devices);
            let line = one.line(Decision::Repaired, format!("ran unpinned: {}", sentence(&placement)));
            let taken = adopt(state, one, placement, settings, outcome, line);
            forget_told(state, one, taken);
            taken
        }
        Err(rejection) => {
            let reason = format!("runs unpinned and cannot be pinned without a restart: {rejection}");
            let line = Verdict { warn: true, ..one.line(Decision::Shared, reason) };
            keep_the_rest(state, one, settings, outcome, line);
            true
        }
    }
}

/// It gets no CPUs of its own; what else it was given when it was made stays its own.
fn keep_the_rest(
    state: &mut State,
    one: &Running<'_>,
    settings: &Settings,
    outcome: &mut Outcome,
    line: Verdict,
) {
    let (held, conflict) = state.ledger.uncontested(&key(&one.pod, one.facts), one.kind(), one.holds());
    let line = match conflict {
        Some(conflict) => Verdict { warn: true, reason: format!("{}; {conflict}", line.reason), ..line },
        None => line,
    };
    let holds = !held.devices.is_empty() || !held.memory.is_empty();
    if holds && adopt(state, one, held, settings, outcome, line.clone()) {
        return;
    }
    state.track(key(&one.pod, one.facts), one.facts, &one.pod.id, one.role(&Placement::default(), settings));
    state.live.entry(one.facts.id.clone()).and_modify(|live| live.told = one.told());
    outcome.verdicts.push(line);
}
