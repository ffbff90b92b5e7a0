//! The ledger rebuilt from what runs, and what started unpinned while we were away put right.
//!
//! In order: records that hold up, cpusets that speak for themselves, records whose cpuset somebody changed, seats
//! remembered for containers that have stopped, then the containers that should have been pinned and are not.
//! Nothing that runs is ever stopped, and neither its mems nor its GPUs change.

use super::annotated::{self, POOLED_GPU, Understood};
use super::create::shared_role;
use super::devices::Claims;
use super::ineligible::is_ineligible;
use super::seat::takes_a_seat;
use super::state::Role;
use super::step::{key, verdict};
use super::understand::{self, Moment};
use super::words::{describe, sentence};
use super::{
    CpuAuthority, Decision, Ineligible, Mode, Observed, Outcome, Settings, State, Verdict, devices, sandbox,
};
use crate::engine::{self, GPU, Seat};
use crate::ledger::{RECORD_ANNOTATION, Record};
use crate::model::{
    ContainerFacts, ContainerId, ContainerKind, ContainerRequest, ContainerState, CpuSet, DeviceId,
    DeviceRequest, NodeSet, Placement, PodFacts, Rejection, Scope,
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
    let running = running.collect();
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
    if state.live.contains_key(&container.id) {
        state.ledger.confirm(&key, &container.id);
        return Outcome::default();
    }
    state.pods.entry(pod.id.clone()).or_insert_with(|| pod.clone());
    if settings.mode == Mode::Off {
        state.track(key, container, &pod.id, Role::Shared(None));
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

/// A container that runs, with all that is known of it.
struct Running<'a> {
    pod: PodFacts,
    facts: &'a ContainerFacts,
    understood: Result<Understood, Box<Rejection>>,
    /// The devices it shows.
    shown: Claims,
    /// Why it never counts as one of ours.
    exempt: Option<String>,
    /// The CPUs it really has; what the runtime's configuration says where its cgroup could not be read.
    cpus: Option<CpuSet>,
    /// What is remembered of this very attempt: one that was taken in when it ran carries no record.
    remembered: Option<&'a Record>,
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
            understood: {
                let known = state.known(&pod.uid, &facts.name);
                understand::understand(&pod, facts, Moment::Running, known, &state.topology, settings)
            },
            shown: devices::claims(facts, &state.topology).unwrap_or_default(),
            exempt: understand::exemption(&pod, Some(facts), settings),
            cpus: observed.and_then(|seen| seen.cpus.clone()).or_else(|| configured(facts)),
            pod,
            facts,
            remembered: None,
        }
    }

    /// What the runtime was last told, by its configuration.
    fn told(&self) -> Option<CpuSet> {
        match configured(self.facts) {
            // A configuration the cgroup does not follow is as good as never told.
            Some(cpus) => Some(cpus).filter(|cpus| self.cpus.as_ref().is_none_or(|real| real == cpus)),
            // Never told anything, it has what it has, and that may be just right.
            None => self.cpus.clone(),
        }
    }

    /// How many exclusive CPUs it should have: none for those that never get any. Its limits alone tell where
    /// the rest of it cannot be followed.
    fn due(&self) -> Option<u32> {
        if self.exempt.is_some() {
            return None;
        }
        match &self.understood {
            Ok(understood) => understood.request.exclusive_cpus(),
            Err(_) => understand::limits(&self.pod, self.facts).exclusive_cpus(),
        }
    }

    fn request(&self) -> Option<&ContainerRequest> {
        self.understood.as_ref().ok().map(|understood| &understood.request)
    }

    fn line(&self, decision: Decision, reason: String) -> Verdict {
        let request = self.request().map(describe).unwrap_or_default();
        Verdict { request, ..verdict(&self.pod, Some(self.facts), decision, reason) }
    }

    fn shared_line(&self) -> Verdict {
        match (&self.exempt, &self.understood) {
            (Some(why), _) => self.line(Decision::Exempt, why.clone()),
            (None, Ok(_)) => self.line(Decision::Shared, "shared pool".into()),
            (None, Err(rejection)) => {
                let reason = format!("shared pool; would have been refused: {rejection}");
                Verdict { warn: true, ..self.line(Decision::Shared, reason) }
            }
        }
    }

    /// The allocation it carries, else the one remembered of it, if it is its own and the container's devices
    /// agree with it. Nobody else can have written it: the id was not known before the container was made.
    fn own_record(&self) -> Option<Placement> {
        let carried = self.facts.annotations.get(RECORD_ANNOTATION).and_then(|text| Record::parse(text).ok());
        let own = |record: &Record| record.key == key(&self.pod, self.facts) && record.id == self.facts.id;
        let record = carried.filter(own).or_else(|| self.remembered.cloned())?;
        Some(record.placement().clone()).filter(|placement| self.delivered(placement))
    }

    /// Its own record, if that has as many CPUs as it should have.
    fn record(&self) -> Option<Placement> {
        let due = self.due().unwrap_or(0) as usize;
        self.own_record().filter(|placement| placement.cpus.len() == due)
    }

    /// What it holds whatever its CPUs are: the GPUs and the memory it was given when it was made.
    fn without_cpus(&self) -> Placement {
        let held = self.own_record().unwrap_or_default();
        Placement { cpus: CpuSet::new(), ..held }
    }

    /// Whether the GPUs of a placement are among those it shows. Of a replica the GPU is shown.
    fn delivered(&self, placement: &Placement) -> bool {
        let shown = self.shown.gpus();
        let shows = |id: &DeviceId| {
            let gpu = id.as_str().split_once("::").map_or(id.as_str(), |(gpu, _)| gpu);
            let gpu = DeviceId::new(gpu);
            shown.is_some_and(|shown| shown.contains(id) || shown.contains(&gpu))
        };
        let gpus =
            placement.devices.iter().filter(|(resource, _)| matches!(resource.as_str(), GPU | POOLED_GPU));
        gpus.flat_map(|(_, ids)| ids).all(shows)
    }

    /// The part it plays in its pod, as far as it is known.
    fn kind(&self) -> ContainerKind {
        self.request().map_or(ContainerKind::Unknown, |request| request.kind)
    }

    /// The devices it holds: by its record, else by the kubelet's books.
    fn holds(&self, state: &State) -> Placement {
        let mut held = self.without_cpus();
        for (resource, ids) in state.exact_devices(&key(&self.pod, self.facts)) {
            let gpus = resource.as_str() == GPU && held.devices.keys().any(|own| own.as_str() == POOLED_GPU);
            if !gpus {
                held.devices.entry(resource).or_insert(ids);
            }
        }
        held
    }

    /// Where its CPUs come from once it holds that.
    fn role(&self, placement: &Placement, settings: &Settings) -> Role {
        if !placement.cpus.is_empty() {
            return Role::Exclusive;
        }
        let aligned = settings.ineligible == Ineligible::Align && self.request().is_some_and(is_ineligible);
        shared_role(&self.pod, placement.affinity.clone().filter(|_| aligned), settings)
    }
}

/// The cpuset of the runtime's configuration; `None` where none is set.
fn configured(facts: &ContainerFacts) -> Option<CpuSet> {
    facts.resources.cpus.parse().ok().filter(|cpus: &CpuSet| !cpus.is_empty())
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
    claim(state, one);
    let scope = annotated::scope(&one.pod, &one.facts.name, settings);
    remember_seat(state, &one.pod, scope, &placement);
    outcome.verdicts.push(Verdict { placement: Some(placement), ..line });
    true
}

fn claim(state: &mut State, one: &Running<'_>) {
    if let Ok(understood) = &one.understood {
        state.claim(one.facts, understood);
    }
}

/// The pod's nodes are those its first container sits on.
fn remember_seat(state: &mut State, pod: &PodFacts, scope: Scope, placement: &Placement) {
    if scope == Scope::Pod && state.ledger.seat(&pod.uid).is_none() {
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
        ..one.holds(state)
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
            placement.devices.extend(one.holds(state).devices);
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
    let held = one.holds(state);
    let holds = !held.devices.is_empty() || !held.memory.is_empty();
    if holds && adopt(state, one, held.clone(), settings, outcome, line.clone()) {
        return;
    }
    state.track(key(&one.pod, one.facts), one.facts, &one.pod.id, one.role(&Placement::default(), settings));
    state.live.entry(one.facts.id.clone()).and_modify(|live| live.told = one.told());
    claim(state, one);
    outcome.verdicts.push(line);
}

/// Devices cannot be given to a container that runs: only those it has count, by its record where other GPUs took
/// the place of those the kubelet gave it.
fn as_it_runs(request: &ContainerRequest, held: &Placement) -> ContainerRequest {
    let mut request = request.clone();
    request.devices.retain(|_, wanted| !matches!(wanted, DeviceRequest::Count(_)));
    if let Some(gpus) = held.devices.get(&GPU.into()) {
        request.devices.insert(GPU.into(), DeviceRequest::Exact(gpus.clone()));
    }
    request
}
