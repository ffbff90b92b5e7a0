//! One container about to be made.

use super::annotated::{POOLED_GPU, Understood, invalid};
use super::ineligible::is_ineligible;
use super::seat::{self, Seated};
use super::state::Role;
use super::step::{key, refused, verdict};
use super::understand::{self, Moment};
use super::words::{describe, placed_line, sentence, shared_line};
use super::{
    CpuAuthority, Decision, Edit, Ineligible, Mode, Outcome, Reply, Settings, State, Unrequested, Verdict,
    delivery, devices, hidden_pages, sandbox,
};
use crate::engine::GPU;
use crate::ledger::{RECORD_ANNOTATION, Record};
use crate::model::{
    ContainerFacts, ContainerKind, CpuSet, DeviceRequest, NodeSet, Placement, PodFacts, Rejection,
};
use std::collections::BTreeSet;

/// Seats a container, or refuses it.
pub(super) fn create(
    state: &mut State,
    pod: &PodFacts,
    container: &ContainerFacts,
    settings: &Settings,
) -> Outcome {
    state.pods.entry(pod.id.clone()).or_insert_with(|| pod.clone());
    let container = &*hidden_pages::shown(state, pod, container);
    let understood = forged(container).and_then(|()| {
        let known = state.known(&pod.uid, &container.name);
        understand::understand(pod, container, Moment::Making, known, &state.topology, settings)
    });
    let understood = understood.and_then(|understood| {
        let within = hidden_pages::within_pod(state, pod, container, &understood.request);
        within.map(|()| understood).map_err(|text| invalid(&container.name, text))
    });
    if let Ok(understood) = &understood {
        state.make_way(pod, understood);
    }
    let placed = understood
        .and_then(|understood| Ok((seat::seat(state, pod, container, &understood, settings)?, understood)));
    match (placed, understand::exemption(pod, Some(container), settings)) {
        (Ok((seated, understood)), None) => {
            let untold = hidden_pages::untold(state, pod, container);
            let mut outcome = settle(state, pod, container, seated, &understood, settings);
            if let (Some(untold), Some(line)) = (untold, outcome.verdicts.first_mut())
                && line.decision != Decision::Rejected
            {
                line.reason = format!("{}; {untold}", line.reason);
                line.warn = true;
            }
            outcome
        }
        (Err(rejection), None) => refuse(pod, container, rejection, state, settings),
        (would_be, Some(why)) => share_exempt(state, pod, container, would_be, &why, settings),
    }
}

/// maitred is off on this node: the container is made as it came.
pub(super) fn let_through(state: &mut State, pod: &PodFacts, container: &ContainerFacts) -> Outcome {
    state.pods.entry(pod.id.clone()).or_insert_with(|| pod.clone());
    state.track(key(pod, container), container, &pod.id, Role::Shared(None));
    hold_given(state, pod, container);
    let line = verdict(pod, Some(container), Decision::Exempt, "maitred is off on this node".into());
    Outcome { verdicts: vec![Verdict { warn: true, ..line }], ..Outcome::default() }
}

/// A container that arrives with a record did not get it from us.
fn forged(container: &ContainerFacts) -> Result<(), Box<Rejection>> {
    match container.annotations.get(RECORD_ANNOTATION) {
        None => Ok(()),
        Some(_) => Err(invalid(
            &container.name,
            format!("annotation {RECORD_ANNOTATION:?} is set: expected it absent, only maitred writes it"),
        )),
    }
}

fn settle(
    state: &mut State,
    pod: &PodFacts,
    container: &ContainerFacts,
    seated: Option<Seated>,
    understood: &Understood,
    settings: &Settings,
) -> Outcome {
    let hidden = hidden(container, understood, settings);
    let Some(Seated { mut placement, seat, swap }) = seated else {
        let line = shared_line(pod, container, understood, hidden.is_some());
        return hide(hidden, share(state, pod, container, None, line, settings));
    };
    let swapped = swap.is_some();
    let mut edit = edit_of(state, container, understood, &placement, settings);
    let hides = hidden.is_some();
    edit.env.extend(hidden);
    if let Some(swap) = swap {
        let Edit { env, annotations, remove_mounts, mounts, remove_devices, devices, cdi_devices, .. } = swap;
        edit = Edit { env, annotations, remove_mounts, mounts, remove_devices, devices, cdi_devices, ..edit };
    }
    let delivered = match deliver(&mut edit, container, understood, &placement, settings) {
        Ok(delivered) => delivered,
        Err(rejection) => return refuse(pod, container, rejection, state, settings),
    };
    placement.policy.clone_from(&edit.memory_policy);
    let key = key(pod, container);
    state.ledger.reserve(key.clone(), Some(container.id.clone()), understood.request.kind, placement.clone());
    state.sandbox_of.insert(key.clone(), pod.id.clone());
    if let Some(seat) = seat {
        state.ledger.set_seat(pod.uid.clone(), seat);
    }
    let line = placed_line(pod, container, understood, &placement, (swapped, hides));
    let line = Verdict { memory_policy: delivered, ..line };
    edit.record = Some(Record::new(&key, &container.id, &placement).to_json());
    if placement.cpus.is_empty() {
        let near = (settings.ineligible == Ineligible::Align && is_ineligible(&understood.request))
            .then(|| placement.affinity.clone())
            .flatten();
        return merge(edit, share(state, pod, container, near, line, settings));
    }
    state.track(key, container, &pod.id, Role::Exclusive);
    state.tell(&container.id, &placement.cpus);
    let updates = state.spread(settings);
    let quotas = pod_quota(state, pod, settings).into_iter().collect();
    let reply = Reply::Adjust(Box::new(edit));
    Outcome { reply, updates, quotas, verdicts: vec![line], ..Outcome::default() }
}

/// The pod's own cgroup, once the exclusive CPUs of its containers are all that it asks for: its quota would
/// throttle them as theirs would.
fn pod_quota(state: &State, pod: &PodFacts, settings: &Settings) -> Option<String> {
    let asked = sandbox::sums(pod).cpu_milli;
    let of_pod = state.ledger.iter().filter(|(key, _)| key.pod == pod.uid);
    let held: usize = of_pod.map(|(_, holding)| holding.placement.cpus.len()).sum();
    let ours = settings.drop_cfs_quota && settings.authority == CpuAuthority::Maitred;
    let all = ours && asked > 0 && held as u64 * 1000 == asked;
    all.then(|| pod.cgroup_parent.clone())
}

/// What hides the GPUs that a container is shown and did not ask for: all of them, or all but its own.
fn hidden(
    container: &ContainerFacts,
    understood: &Understood,
    settings: &Settings,
) -> Option<(String, String)> {
    let hides = settings.unrequested == Unrequested::Hide
        && devices::env_shows_all(container)
        && understood.every_gpu
        && !container.resources.every_device;
    let own = |resource: &str| understood.request.devices.get(&resource.into());
    let value = match own(GPU).or_else(|| own(POOLED_GPU)) {
        None => "void".to_owned(),
        Some(DeviceRequest::Exact(ids) | DeviceRequest::Claimed(ids)) => {
            let ids: BTreeSet<&str> = ids.iter().map(|id| replicated(id.as_str())).collect();
            ids.into_iter().collect::<Vec<_>>().join(",")
        }
        // Those are chosen, and written for it.
        Some(DeviceRequest::Count(_)) => return None,
    };
    hides.then(|| (devices::VISIBLE.to_owned(), value))
}

/// NVIDIA's runtime knows no replicas, only what they are replicas of.
fn replicated(id: &str) -> &str {
    id.split_once("::").map_or(id, |(whole, _)| whole)
}

/// The same for one of the shared pool.
fn hide(hidden: Option<(String, String)>, mut shared: Outcome) -> Outcome {
    if let Some(variable) = hidden {
        let edit = Edit { env: vec![variable], ..Edit::default() };
        shared = merge(edit, shared);
    }
    shared
}

/// A container of the shared pool that also holds memory or devices: both edits.
fn merge(mut edit: Edit, mut shared: Outcome) -> Outcome {
    if let Reply::Adjust(pool) = shared.reply {
        edit.cpus = pool.cpus;
    }
    shared.reply = Reply::Adjust(Box::new(edit));
    shared
}

fn edit_of(
    state: &State,
    container: &ContainerFacts,
    understood: &Understood,
    placement: &Placement,
    settings: &Settings,
) -> Edit {
    let mems = Some(placement.mems.clone()).filter(|mems| !mems.is_empty());
    let exclusive = !placement.cpus.is_empty() && settings.authority == CpuAuthority::Maitred;
    Edit {
        cpus: exclusive.then(|| placement.cpus.clone()),
        drop_quota: exclusive && settings.drop_cfs_quota && container.resources.quota.is_some_and(|q| q > 0),
        env: chosen_gpus(state, understood, placement).into_iter().collect(),
        mems,
        ..Edit::default()
    }
}

/// Puts the memory policy into the edit; the log's words for it, `None` where there is none.
fn deliver(
    edit: &mut Edit,
    container: &ContainerFacts,
    understood: &Understood,
    placement: &Placement,
    settings: &Settings,
) -> Result<Option<String>, Box<Rejection>> {
    let Some(mode) = understood.memory_mode.filter(|_| !placement.mems.is_empty()) else { return Ok(None) };
    let delivered = delivery::deliver(edit, mode, container, placement, settings);
    delivered.map(Some).map_err(|text| invalid(&container.name, text))
}

/// The variable that names the GPUs we chose, by UUID in the order of their index.
fn chosen_gpus(state: &State, understood: &Understood, placement: &Placement) -> Option<(String, String)> {
    let resource = [GPU, POOLED_GPU].into_iter().find(|resource| {
        matches!(understood.request.devices.get(&(*resource).into()), Some(DeviceRequest::Count(_)))
    })?;
    let chosen = placement.devices.get(&resource.into())?;
    let by_index = state.topology.gpus.iter().filter_map(|gpu| gpu.uuid.as_deref());
    let uuids: Vec<&str> = by_index.filter(|uuid| chosen.contains(&(*uuid).into())).collect();
    Some((devices::VISIBLE.to_owned(), uuids.join(",")))
}

/// Where a container without CPUs of its own has them from.
pub(super) fn shared_role(pod: &PodFacts, near: Option<NodeSet>, settings: &Settings) -> Role {
    match settings.reserved_namespaces.contains(&pod.namespace) {
        true => Role::Reserved,
        false => Role::Shared(near),
    }
}

/// Puts a container into the shared pool (or on the reserved CPUs).
fn share(
    state: &mut State,
    pod: &PodFacts,
    container: &ContainerFacts,
    near: Option<NodeSet>,
    mut line: Verdict,
    settings: &Settings,
) -> Outcome {
    let rival = rival(state, pod, container, settings);
    state.track(key(pod, container), container, &pod.id, shared_role(pod, near, settings));
    if let (Some(_), Some(live)) = (&rival, state.live.get_mut(&container.id)) {
        live.within = container.resources.cpus.parse().ok().filter(|cpus: &CpuSet| !cpus.is_empty());
    }
    if let Some(rival) = &rival {
        // Of one that did not start its own command may be to blame.
        line.rival = !container.resources.cpus.is_empty();
        line.warn |= line.rival;
        line.reason = format!("{}; {rival}", line.reason);
    }
    let cpus =
        state.live.get(&container.id).and_then(|live| state.wanted(live, &state.pool(settings), settings));
    let mut outcome = Outcome { verdicts: vec![line], ..Outcome::default() };
    if let Some(cpus) = cpus {
        state.tell(&container.id, &cpus);
        // The whole machine is what it has anyway: nothing is set where nothing is taken.
        let differs = cpus != state.topology.cpus || !container.resources.cpus.is_empty();
        if differs && rival.is_none() {
            state.live.entry(container.id.clone()).and_modify(|live| live.unproven = true);
            outcome.reply = Reply::Adjust(Box::new(Edit { cpus: Some(cpus), ..Edit::default() }));
        }
    }
    outcome.updates = state.spread(settings);
    outcome
}

/// Who else seems to set cpusets on this node, in words. What two plugins set makes a container fail, also one of the
/// system; so it is made without, and its cgroup is written once it runs.
fn rival(state: &State, pod: &PodFacts, container: &ContainerFacts, settings: &Settings) -> Option<String> {
    if !settings.features.rivals || settings.authority == CpuAuthority::Kubelet {
        return None;
    }
    let set = &container.resources.cpus;
    if !set.is_empty() {
        return Some(format!(
            "its CPUs {set} were set before us, by another NRI plugin or the kubelet: left so, and its cgroup is kept \
             off the CPUs of others once it runs"
        ));
    }
    state.spurned.contains(&key(pod, container)).then(|| {
        "made with a cpuset it did not start the last time, as where another NRI plugin sets one too: made without this \
         time, and its cgroup is written once it runs"
            .to_owned()
    })
}

fn share_exempt(
    state: &mut State,
    pod: &PodFacts,
    container: &ContainerFacts,
    would_be: Result<(Option<Seated>, Understood), Box<Rejection>>,
    why: &str,
    settings: &Settings,
) -> Outcome {
    let (text, rejection) = match would_be {
        Ok((Some(seated), _)) => (format!("{why}; would have been {}", sentence(&seated.placement)), None),
        Ok((None, _)) => (why.to_owned(), None),
        Err(rejection) => (format!("{why}; would have been refused: {rejection}"), Some(rejection)),
    };
    let line = verdict(pod, Some(container), Decision::Exempt, text);
    let line = Verdict { warn: rejection.is_some(), rejection, ..line };
    let shared = share(state, pod, container, None, line, settings);
    hold_given(state, pod, container);
    shared
}

/// What the kubelet gave a container about which nothing is decided is its own as well; where another has it, nothing
/// is said against it.
pub(super) fn hold_given(state: &mut State, pod: &PodFacts, container: &ContainerFacts) {
    let key = key(pod, container);
    let given = Placement { devices: state.exact_devices(&key), ..Placement::default() };
    let kind = ContainerKind::Unknown;
    let (placement, _) = state.ledger.uncontested(&key, kind, given);
    if !placement.devices.is_empty() {
        state.ledger.reserve(key.clone(), Some(container.id.clone()), kind, placement);
        state.sandbox_of.insert(key, pod.id.clone());
    }
}

fn refuse(
    pod: &PodFacts,
    container: &ContainerFacts,
    rejection: Box<Rejection>,
    state: &mut State,
    settings: &Settings,
) -> Outcome {
    let known = state.known(&pod.uid, &container.name);
    let request = understand::understand(pod, container, Moment::Making, known, &state.topology, settings)
        .map(|understood| describe(&understood.request));
    let line = refused(pod, Some(container), &rejection);
    if settings.mode == Mode::Audit {
        // It starts all the same, and is not to be decided about a second time then.
        state.track(key(pod, container), container, &pod.id, Role::Shared(None));
        hold_given(state, pod, container);
    }
    Outcome {
        verdicts: vec![Verdict { request: request.unwrap_or_default(), ..line }],
        reply: Reply::Refuse(rejection),
        ..Outcome::default()
    }
}
