//! The ledger rebuilt from what runs, and what started unpinned while we were away put right.
//!
//! In order: records that hold up, cpusets that speak for themselves, seats remembered for containers that
//! have stopped, then the containers that should have been pinned and are not. Nothing that runs is ever stopped, and neither its mems nor its GPUs change.

use super::annotated::{POOLED_GPU, Understood};
use super::create::{shared_role, takes_a_seat};
use super::state::Role;
use super::step::{key, verdict};
use super::understand::{self, Moment};
use super::words::{describe, sentence};
use super::{Decision, Observed, Outcome, Settings, State, Verdict, devices, sandbox};
use crate::engine::{self, GPU};
use crate::ledger::{RECORD_ANNOTATION, Record};
use crate::model::{
    ContainerFacts, ContainerId, ContainerKind, ContainerRequest, ContainerState, CpuSet, DeviceRequest,
    NodeSet, Placement, PodFacts, Scope,
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
    state.forget();
    state.pods = pods.into_iter().map(|pod| (pod.id.clone(), pod)).collect();
    let mut running = Vec::new();
    for facts in containers.iter().filter(|facts| facts.state != ContainerState::Stopped) {
        if let Some(pod) = state.pods.get(&facts.sandbox).cloned() {
            running.push(Running::look(pod, facts, observed.get(&facts.id), state, settings));
        }
    }
    let mut outcome = Outcome::default();
    let rest = each(running, |one| by_record(state, one, &mut outcome));
    let rest = each(rest, |one| by_cpuset(state, one, &mut outcome));
    for hint in hints.iter().filter(|hint| rest.iter().all(|one| key(&one.pod, one.facts) != hint.key)) {
        recall(state, hint);
    }
    let rest = each(rest, |one| repair(state, one, settings, &mut outcome));
    for one in rest {
        outcome.verdicts.push(one.shared_line());
        one.join_pool(state, settings);
    }
    outcome.updates = state.spread(settings);
    outcome
}

/// The ones that `take` does not take.
fn each<'a>(all: Vec<Running<'a>>, mut take: impl FnMut(&Running<'a>) -> bool) -> Vec<Running<'a>> {
    all.into_iter().filter(|one| !take(one)).collect()
}

/// A container that runs, with all that is known of it.
struct Running<'a> {
    pod: PodFacts,
    facts: &'a ContainerFacts,
    understood: Option<Understood>,
    /// Why it never counts as one of ours.
    exempt: Option<String>,
    /// The CPUs it really has; what the runtime's configuration says where its cgroup could not be read.
    cpus: Option<CpuSet>,
}

impl<'a> Running<'a> {
    fn look(
        pod: PodFacts,
        facts: &'a ContainerFacts,
        observed: Option<&Observed>,
        state: &State,
        settings: &Settings,
    ) -> Self {
        Self {
            understood: understand::understand(&pod, facts, Moment::Running, &state.topology, settings).ok(),
            exempt: understand::exemption(&pod, Some(facts), settings),
            cpus: observed.and_then(|seen| seen.cpus.clone()).or_else(|| configured(facts)),
            pod,
            facts,
        }
    }

    /// What the runtime was last told, by its configuration.
    fn told(&self) -> Option<CpuSet> {
        // A configuration the cgroup does not follow is as good as never told.
        configured(self.facts).filter(|cpus| self.cpus.as_ref().is_none_or(|real| real == cpus))
    }

    /// How many exclusive CPUs it should have: none for those that never get any.
    fn due(&self) -> Option<u32> {
        self.request()?.exclusive_cpus()
    }

    fn request(&self) -> Option<&ContainerRequest> {
        self.understood.as_ref().filter(|_| self.exempt.is_none()).map(|understood| &understood.request)
    }

    fn line(&self, decision: Decision, reason: String) -> Verdict {
        let request = self.understood.as_ref().map(|u| describe(&u.request)).unwrap_or_default();
        Verdict { request, ..verdict(&self.pod, Some(self.facts), decision, reason) }
    }

    fn join_pool(&self, state: &mut State, settings: &Settings) {
        let role = shared_role(&self.pod, None, settings);
        state.track(key(&self.pod, self.facts), self.facts, &self.pod.id, role);
        state.live.entry(self.facts.id.clone()).and_modify(|live| live.told = self.told());
    }

    fn shared_line(&self) -> Verdict {
        match &self.exempt {
            Some(why) => self.line(Decision::Exempt, why.clone()),
            None => self.line(Decision::Shared, "shared pool".into()),
        }
    }

    /// The allocation it carries, if it is its own and the container's cgroup and devices agree with it.
    fn record(&self) -> Option<Placement> {
        let record = Record::parse(self.facts.annotations.get(RECORD_ANNOTATION)?).ok()?;
        if record.key != key(&self.pod, self.facts) || record.id != self.facts.id {
            return None;
        }
        let placement = record.placement().clone();
        let count = u32::try_from(placement.cpus.len()).unwrap_or(u32::MAX);
        let due = self.due().unwrap_or(0);
        let cpus_hold = count == due && (due == 0 || self.cpus.as_ref() == Some(&placement.cpus));
        (cpus_hold && self.delivered(&placement)).then_some(placement)
    }

    /// Whether the devices of a placement are among those its environment shows.
    fn delivered(&self, placement: &Placement) -> bool {
        let shown = devices::env(self.facts, devices::VISIBLE).unwrap_or_default();
        let gpus =
            placement.devices.iter().filter(|(resource, _)| matches!(resource.as_str(), GPU | POOLED_GPU));
        gpus.flat_map(|(_, ids)| ids).all(|id| shown.split(',').any(|one| one.trim() == id.as_str()))
    }
}

/// The CPUs the runtime's configuration has.
fn configured(facts: &ContainerFacts) -> Option<CpuSet> {
    facts.resources.cpus.parse().ok().filter(|cpus: &CpuSet| !cpus.is_empty())
}

fn adopt(
    state: &mut State,
    one: &Running<'_>,
    placement: Placement,
    outcome: &mut Outcome,
    line: Verdict,
) -> bool {
    let key = key(&one.pod, one.facts);
    let exclusive = !placement.cpus.is_empty();
    let kind = ContainerKind::Unknown;
    if state.ledger.adopt(key.clone(), one.facts.id.clone(), kind, placement.clone()).is_err() {
        return false;
    }
    let role = if exclusive { Role::Exclusive } else { Role::Shared(None) };
    state.sandbox_of.insert(key.clone(), one.pod.id.clone());
    state.track(key, one.facts, &one.pod.id, role);
    let told = if exclusive { one.cpus.clone() } else { one.told() };
    state.live.entry(one.facts.id.clone()).and_modify(|live| live.told = told);
    remember_seat(state, one, &placement);
    outcome.verdicts.push(Verdict { placement: Some(placement), ..line });
    true
}

/// The pod's nodes are those its first container sits on.
fn remember_seat(state: &mut State, one: &Running<'_>, placement: &Placement) {
    let scope = one.understood.as_ref().map(|understood| understood.policy.scope);
    if scope == Some(Scope::Pod) && state.ledger.seat(&one.pod.uid).is_none() {
        let seat = engine::Seat { affinity: placement.affinity.clone(), preferred: placement.preferred };
        state.ledger.set_seat(one.pod.uid.clone(), seat);
    }
}

fn by_record(state: &mut State, one: &Running<'_>, outcome: &mut Outcome) -> bool {
    let Some(placement) = one.record() else { return false };
    let line = one.line(Decision::Adopted, format!("by its record: {}", sentence(&placement)));
    adopt(state, one, placement, outcome, line)
}

/// A cpuset of just the right size that is nobody else's is a placement, whoever made it.
fn by_cpuset(state: &mut State, one: &Running<'_>, outcome: &mut Outcome) -> bool {
    let (Some(due), Some(cpus)) = (one.due(), &one.cpus) else { return false };
    let allowed = state.topology.cpus.difference(state.ledger.machine().reserved());
    if cpus.len() != due as usize || !cpus.is_subset(&allowed) {
        return false;
    }
    let nodes = state.topology.nodes_of(cpus);
    let mems: NodeSet = one.facts.resources.mems.parse().unwrap_or_default();
    let placement = Placement {
        preferred: nodes.len() == 1,
        affinity: Some(nodes),
        cpus: cpus.clone(),
        mems,
        ..Placement::default()
    };
    let line = one.line(Decision::Adopted, format!("by its cpuset: {}", sentence(&placement)));
    adopt(state, one, placement, outcome, line)
}

/// A container that has stopped in a pod that lives: its seat is lent, as it was.
fn recall(state: &mut State, hint: &Record) {
    let sandbox = state.pods.values().find(|pod| pod.uid == hint.key.pod).map(|pod| pod.id.clone());
    let (Some(sandbox), None) = (sandbox, state.ledger.get(&hint.key)) else { return };
    let kind = ContainerKind::Unknown;
    let placement = hint.placement().clone();
    if state.ledger.adopt(hint.key.clone(), hint.id.clone(), kind, placement).is_ok() {
        state.ledger.lend(&hint.key, &hint.id);
        state.sandbox_of.insert(hint.key.clone(), sandbox);
    }
}

/// What should have been pinned and is not: pinned now where its CPUs are free, else named.
fn repair(state: &mut State, one: &Running<'_>, settings: &Settings, outcome: &mut Outcome) -> bool {
    let Some(understood) = one.understood.as_ref().filter(|_| one.exempt.is_none()) else { return false };
    let request = as_it_runs(&understood.request);
    if one.due().is_none() || !takes_a_seat(&request, &understood.policy) {
        return false;
    }
    let seat = sandbox::seat(state, state.ledger.occupancy(), &one.pod, &request, &understood.policy);
    let placed = seat.and_then(|seat| {
        let (machine, occupancy) = (state.ledger.machine(), state.ledger.occupancy());
        engine::admit_container(machine, occupancy, &one.pod.uid, &request, seat.as_ref(), &understood.policy)
    });
    match placed {
        Ok(placement) => {
            let line = one.line(Decision::Repaired, format!("ran unpinned: {}", sentence(&placement)));
            let taken = adopt(state, one, placement, outcome, line);
            // What it has now is not what it should have: the update goes out with the reply.
            state.live.entry(one.facts.id.clone()).and_modify(|live| live.told = None);
            taken
        }
        Err(rejection) => {
            let reason = format!("runs unpinned and cannot be pinned without a restart: {rejection}");
            let line = Verdict { warn: true, ..one.line(Decision::Shared, reason) };
            outcome.verdicts.push(line);
            one.join_pool(state, settings);
            true
        }
    }
}

/// Devices cannot be given to a container that runs: only those it has count, as its environment shows them.
fn as_it_runs(request: &ContainerRequest) -> ContainerRequest {
    let mut request = request.clone();
    request.devices.retain(|_, wanted| !matches!(wanted, DeviceRequest::Count(_)));
    request
}
