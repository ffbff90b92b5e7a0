//! One event in, one outcome out.

use super::annotated::invalid;
use super::{
    CpuAuthority, CpusetUpdate, Decision, Edit, Event, Mode, Outcome, Reply, Settings, State, Verdict,
};
use super::{create, elsewhere, encoded, sandbox, synchronize, understand};
use crate::model::{
    Bytes, ContainerFacts, ContainerKey, MemoryKind, NodeSet, PodAllotment, PodFacts, Reason, Rejection,
    Resources,
};

/// Decides about one event and remembers what it decided.
pub fn step(state: &mut State, event: Event, settings: &Settings) -> Outcome {
    let mut outcome = match event {
        Event::Synchronize { pods, containers, observed, hints } => {
            synchronize::synchronize(state, pods, &containers, &observed, &hints, settings)
        }
        Event::RunPod(pod) => sandbox::run(state, pod, settings),
        Event::Create(pod, container) if settings.mode == Mode::Off => {
            create::let_through(state, &pod, &container)
        }
        Event::Create(pod, container) => create::create(state, &pod, &container, settings),
        Event::Started(pod, container) => synchronize::started(state, pod, &container, settings),
        Event::Pages(pages) => {
            state.pages = pages;
            Outcome::default()
        }
        Event::Elsewhere(known) => elsewhere::elsewhere(state, known, settings),
        Event::Allotted(pod, allotment) => {
            state.allot(pod, allotment);
            Outcome::default()
        }
        Event::Devices(devices) => {
            state.refresh(*devices);
            Outcome { writes: state.spread(settings), ..Outcome::default() }
        }
        Event::Observe(observed) => observe(state, &observed, settings),
        Event::Update(pod, container, wanted) => update(state, &pod, &container, &wanted, settings),
        Event::Stop(pod, container) => {
            stop(state, &pod, &container);
            Outcome { updates: state.spread(settings), ..Outcome::default() }
        }
        Event::Remove(pod, container) => {
            stop(state, &pod, &container);
            Outcome { writes: state.spread(settings), ..Outcome::default() }
        }
        Event::StopPod(pod) | Event::RemovePod(pod) => {
            sandbox::stop(state, &pod, "the pod has ended", settings)
        }
        Event::Ended { sandboxes, before } => sandbox::ended(state, &sandboxes, &before, settings),
        Event::Abandon(id) => {
            state.live.remove(&id);
            state.ledger.abandon(&id);
            state.untell();
            Outcome::default()
        }
    };
    outcome.write_elsewhere(state, settings);
    match settings.mode {
        Mode::Enforce => {}
        Mode::Audit => outcome.only_say(),
        Mode::Off => {
            outcome.only_say();
            state.untell();
        }
    }
    outcome
}

impl Outcome {
    /// Nothing is done, everything is said.
    fn only_say(&mut self) {
        self.reply = Reply::Nothing;
        self.updates.clear();
        self.writes.clear();
        self.quotas.clear();
        self.verdicts.iter_mut().for_each(|verdict| verdict.simulated = true);
    }
}

/// The key a container's holdings stand under.
pub(super) fn key(pod: &PodFacts, container: &ContainerFacts) -> ContainerKey {
    ContainerKey::new(pod.uid.clone(), container.name.clone())
}

/// A log line about a pod, or about a container of it.
pub(super) fn verdict(
    pod: &PodFacts,
    container: Option<&ContainerFacts>,
    decision: Decision,
    reason: String,
) -> Verdict {
    Verdict {
        pod: pod.name.clone(),
        namespace: pod.namespace.clone(),
        pod_uid: pod.uid.clone(),
        container: container.map(|c| c.name.clone()),
        container_id: container.map(|c| c.id.clone()),
        decision,
        simulated: false,
        warn: false,
        reason,
        request: String::new(),
        placement: None,
        memory_policy: None,
        rejection: None,
        ineligible: false,
        rival: false,
    }
}

/// The log line of a refusal.
pub(super) fn refused(pod: &PodFacts, container: Option<&ContainerFacts>, rejection: &Rejection) -> Verdict {
    Verdict {
        rejection: Some(Box::new(rejection.clone())),
        ..verdict(pod, container, Decision::Rejected, rejection.to_string())
    }
}

/// Its CPUs go to the shared pool, its seat stays closed to others while the pod lives.
fn stop(state: &mut State, pod: &PodFacts, container: &ContainerFacts) {
    let live = state.live.remove(&container.id);
    // Made with a cpuset of ours and given up before it ran: another plugin may have set that too.
    if let Some(live) = live.filter(|live| live.unproven) {
        state.spurned.insert(live.key);
    }
    state.ledger.lend(&key(pod, container), &container.id);
}

fn observe(
    state: &mut State,
    observed: &std::collections::BTreeMap<crate::model::ContainerId, super::Observed>,
    settings: &Settings,
) -> Outcome {
    let writes = state.stale(observed, settings);
    let verdicts = writes.iter().filter_map(|write| repaired(state, write, observed)).collect();
    Outcome { writes, verdicts, ..Outcome::default() }
}

fn repaired(
    state: &State,
    write: &CpusetUpdate,
    observed: &std::collections::BTreeMap<crate::model::ContainerId, super::Observed>,
) -> Option<Verdict> {
    let live = state.live.get(&write.id)?;
    let pod = state.pods.get(&live.sandbox)?;
    let found = observed.get(&write.id)?.cpus.as_ref()?;
    let reason = format!("its cgroup has CPUs {found}, it should have {}: written", write.cpus);
    Some(Verdict {
        container: Some(live.key.container.clone()),
        container_id: Some(write.id.clone()),
        ..verdict(pod, None, Decision::Repaired, reason)
    })
}

/// Somebody changes a running container: a placement is answered with the placement, a resize of it is refused.
fn update(
    state: &mut State,
    pod: &PodFacts,
    container: &ContainerFacts,
    wanted: &Resources,
    settings: &Settings,
) -> Outcome {
    let Some(live) = state.live.get(&container.id) else { return Outcome::default() };
    let holding = state.ledger.get(&live.key).filter(|holding| holding.id.as_ref() == Some(&container.id));
    let placement = holding.map(|holding| &holding.placement);
    let by_kubelet = settings.authority == CpuAuthority::Kubelet;
    let resized = placement.and_then(|placement| resized(placement, wanted, by_kubelet));
    if let Some(text) = resized.filter(|_| understand::exemption(pod, Some(container), settings).is_none()) {
        return refuse(pod, container, text);
    }
    let cpus = state.wanted(live, &state.pool(settings), settings);
    let touches_mems = placement.filter(|_| !wanted.mems.is_empty());
    let mems = touches_mems.map(|placement| placement.mems.clone()).filter(|mems: &NodeSet| !mems.is_empty());
    let exclusive = placement.is_some_and(|placement| !placement.cpus.is_empty() && !by_kubelet);
    let drop_quota = exclusive && settings.drop_cfs_quota && wanted.quota.is_some_and(|quota| quota > 0);
    // The runtime applies its whole configuration, not only what is asked for; where a cgroup was written
    // directly, that still has older CPUs.
    let unset = wanted.cpus.is_empty() && container.resources.cpus.is_empty();
    let everything = cpus.as_ref().is_none_or(|cpus| *cpus == state.topology.cpus && unset);
    if everything && mems.is_none() && !drop_quota {
        return Outcome::default();
    }
    if let Some(cpus) = &cpus {
        state.tell(&container.id, cpus);
    }
    let edit = Edit { cpus, mems, drop_quota, ..Edit::default() };
    Outcome { reply: Reply::Adjust(Box::new(edit)), ..Outcome::default() }
}

/// What a resize would change of a placement, in words. Absent and zero are "leave it"; CPUs that the kubelet gave
/// are the kubelet's to change.
fn resized(placement: &crate::model::Placement, wanted: &Resources, by_kubelet: bool) -> Option<String> {
    let held = placement.cpus.len() as u64 * 1000;
    let milli = encoded::cpu_milli(wanted);
    if held > 0 && milli > 0 && milli != held && !by_kubelet {
        return Some(format!(
            "a resize from {held}m to {milli}m CPU would undo its placement on CPUs {}; recreate the pod instead",
            placement.cpus
        ));
    }
    let promised = placement.memory.iter().filter(|block| block.kind == MemoryKind::Memory);
    let promised = promised.map(|block| block.bytes.0).fold(0, u64::saturating_add);
    let limit = wanted.memory_limit.and_then(|limit| u64::try_from(limit).ok()).unwrap_or(0);
    (promised > 0 && limit > 0 && limit != promised).then(|| {
        format!(
            "a resize of memory from {} to {} would undo its placement on nodes {}; recreate the pod instead",
            Bytes(promised),
            Bytes(limit),
            placement.mems
        )
    })
}

fn refuse(pod: &PodFacts, container: &ContainerFacts, text: String) -> Outcome {
    let rejection = invalid(&container.name, text);
    Outcome {
        verdicts: vec![refused(pod, Some(container), &rejection)],
        reply: Reply::Refuse(rejection),
        ..Outcome::default()
    }
}

/// Whether the kubelet gave it devices: then where it runs matters.
fn has_devices(allotment: Option<&PodAllotment>, container: &ContainerFacts) -> bool {
    let own = allotment.and_then(|pod| pod.containers.get(&container.name));
    own.is_some_and(|own| own.devices.values().any(|ids| !ids.is_empty()))
}

/// The answer where nothing could be decided: refuse those who would otherwise run unpinned without knowing,
/// let all others through. Needs no state: it is what is left when the state cannot be reached.
#[must_use]
pub fn failure(event: &Event, allotment: Option<&PodAllotment>, settings: &Settings, why: &str) -> Outcome {
    let Event::Create(pod, container) = event else { return Outcome::default() };
    let spared = settings.mode != Mode::Enforce
        || settings.failure == super::FailurePolicy::Admit
        || understand::exemption(pod, Some(container), settings).is_some()
        || !(understand::counts_on_us(pod, container) || has_devices(allotment, container));
    let text = format!("maitred could not decide: {why}");
    if spared {
        let admitted = verdict(pod, Some(container), Decision::Undecided, format!("{text}; let through"));
        return Outcome { verdicts: vec![Verdict { warn: true, ..admitted }], ..Outcome::default() };
    }
    let rejection = Rejection::of_container(Reason::Internal, container.name.clone(), text);
    Outcome {
        verdicts: vec![refused(pod, Some(container), &rejection)],
        reply: Reply::Refuse(Box::new(rejection)),
        ..Outcome::default()
    }
}
