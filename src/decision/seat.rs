//! Where a container sits: on what was given to it, on what is ours to choose, or nowhere.

use super::annotated::{POOLED_GPU, Understood};
use super::swap::swap;
use super::{
    AnnotationPool, CpuAuthority, Edit, GpuPlacement, Settings, State, check_eligible, devices, kubelet,
    sandbox,
};
use crate::engine::{self, GPU, Seat};
use crate::ledger::Holding;
use crate::model::{
    ContainerFacts, ContainerKey, ContainerRequest, DeviceId, DeviceRequest, MemoryManager, Placement,
    PodFacts, Policy, Qos, Reason, Rejection, ResourceName,
};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Where a container sits, and on which of its pod's nodes.
pub(super) struct Seated {
    pub(super) placement: Placement,
    pub(super) seat: Option<Seat>,
    /// What is to be changed for it to have the GPUs of its placement and not those it was given.
    pub(super) swap: Option<Edit>,
}

/// Seats a container; `None` is one about which nothing has a place.
pub(super) fn seat(
    state: &State,
    pod: &PodFacts,
    container: &ContainerFacts,
    understood: &Understood,
    settings: &Settings,
) -> Result<Option<Seated>, Box<Rejection>> {
    check_claims(state, pod, container, understood)?;
    if settings.authority == CpuAuthority::Kubelet {
        return kubelet::seat(state, pod, container, understood, settings);
    }
    let (request, policy) = (&understood.request, &understood.policy);
    if !takes_a_seat(request, policy) {
        return Ok(None);
    }
    let none = BTreeSet::new();
    let given = place(state, pod, request, policy, none, settings);
    let seated = match (settings.gpu_placement, &given) {
        (GpuPlacement::Keep, _) | (GpuPlacement::Repair, Ok(_)) => given?,
        (GpuPlacement::Repair | GpuPlacement::Choose, _) => {
            swapped(state, pod, container, understood, given, settings)?
        }
    };
    check_eligible(request, settings.ineligible)?;
    Ok(Some(seated))
}

/// Whether there is anything about a container that has a place.
pub(super) fn takes_a_seat(request: &ContainerRequest, policy: &Policy) -> bool {
    let memory = request.qos == Qos::Guaranteed
        && policy.memory == MemoryManager::Static
        && (request.memory.0 > 0 || !request.hugepages.is_empty());
    memory || request.exclusive_cpus().is_some() || !request.devices.is_empty()
}

fn place(
    state: &State,
    pod: &PodFacts,
    request: &ContainerRequest,
    policy: &Policy,
    avoid: BTreeSet<DeviceId>,
    settings: &Settings,
) -> Result<Seated, Box<Rejection>> {
    let key = ContainerKey::new(pod.uid.clone(), request.name.clone());
    let mut occupancy = state.occupancy_for(&key);
    let chooses = chooses_gpus(request);
    if chooses {
        let in_use =
            avoid.into_iter().chain(state.claimed_beside(&key).into_iter().map(|(_, gpu)| gpu)).collect();
        occupancy = Cow::Owned(occupancy.into_owned().without(GPU.into(), in_use));
    }
    let named = |mut rejection: Rejection| {
        rejection.container = Some(request.name.clone());
        if let Some((user, gpu)) = state.claimed_beside(&key).first().filter(|_| chooses) {
            let user = state.called(user);
            rejection.text = format!("{}; GPU {gpu} counts as in use: {user} names it", rejection.text);
        }
        Box::new(rejection)
    };
    let seat = sandbox::seat(state, &occupancy, pod, request, settings, policy).map_err(named)?;
    let machine = state.ledger.machine();
    let placement = engine::admit_container(machine, &occupancy, &pod.uid, request, seat.as_ref(), policy)
        .map_err(named)?;
    Ok(Seated { placement, seat, swap: None })
}

fn chooses_gpus(request: &ContainerRequest) -> bool {
    let counted = |resource: &str| {
        matches!(request.devices.get(&ResourceName::from(resource)), Some(DeviceRequest::Count(_)))
    };
    counted(GPU) || counted(POOLED_GPU)
}

/// Other GPUs than it was given, and what that changes; as it was given where there are none to be had, or where it
/// is not known for certain which it was given.
fn swapped(
    state: &State,
    pod: &PodFacts,
    container: &ContainerFacts,
    understood: &Understood,
    given: Result<Seated, Box<Rejection>>,
    settings: &Settings,
) -> Result<Seated, Box<Rejection>> {
    let (request, policy) = (&understood.request, &understood.policy);
    let Some(own) = whole_gpus(state, understood) else {
        return given.map_err(|why| uncertain(why, understood));
    };
    let key = ContainerKey::new(pod.uid.clone(), request.name.clone());
    let mut other = request.clone();
    let count = u32::try_from(own.len()).unwrap_or(u32::MAX);
    other.devices.insert(GPU.into(), DeviceRequest::Count(count));
    let mut avoid = match &settings.annotation_pool {
        AnnotationPool::Only(pool) => pool.clone(),
        AnnotationPool::None | AnnotationPool::All => BTreeSet::new(),
    };
    if settings.gpu_placement == GpuPlacement::Repair {
        other.prefers.clone_from(&own);
        avoid.extend(state.given_and_not_made(&key));
    }
    let Ok(placed) = place(state, pod, &other, policy, avoid, settings) else { return given };
    let chosen = placed.placement.devices.get(&GPU.into()).cloned().unwrap_or_default();
    if chosen == own {
        return Ok(placed);
    }
    match swap(container, &state.topology, settings.features, &own, &chosen) {
        Ok(edit) => Ok(Seated { swap: Some(edit), ..placed }),
        Err(error) => {
            let text = format!("{} should take the place of {}: {error}", words(&chosen), words(&own));
            Err(Box::new(Rejection::of_container(Reason::UnexpectedAdmission, request.name.clone(), text)))
        }
    }
}

fn words(gpus: &BTreeSet<DeviceId>) -> String {
    let all: Vec<&str> = gpus.iter().map(DeviceId::as_str).collect();
    format!("GPU {}", all.join(", "))
}

/// The GPUs it was given for certain, where they are whole ones of this machine.
fn whole_gpus(state: &State, understood: &Understood) -> Option<BTreeSet<DeviceId>> {
    let Some(DeviceRequest::Exact(ids)) = understood.request.devices.get(&GPU.into()) else { return None };
    let whole = |id: &DeviceId| state.topology.gpus.iter().any(|gpu| gpu.id() == *id && gpu.mig.is_empty());
    (understood.certain && ids.iter().all(whole)).then(|| ids.clone())
}

fn uncertain(mut rejection: Box<Rejection>, understood: &Understood) -> Box<Rejection> {
    if matches!(understood.request.devices.get(&GPU.into()), Some(DeviceRequest::Claimed(_))) {
        rejection.text.push_str(
            "; gpu.placement swaps only GPUs that the kubelet's podresources or device checkpoint tell of",
        );
    }
    rejection
}

/// Nobody has a GPU by naming it: what it names is what the kubelet gave it, or at least nobody else's.
fn check_claims(
    state: &State,
    pod: &PodFacts,
    container: &ContainerFacts,
    understood: &Understood,
) -> Result<(), Box<Rejection>> {
    // A privileged container can use every GPU without naming any; this is for the device plugins among them.
    if container.resources.every_device || understood.claimed_gpus.is_empty() {
        return Ok(());
    }
    let refuse = |text: String| {
        let name = understood.request.name.clone();
        Err(Box::new(Rejection::of_container(Reason::UnexpectedAdmission, name, text)))
    };
    let mut claims = understood.claimed_gpus.iter();
    if understood.certain {
        return match claims.find(|claim| !is_granted(state, claim, understood)) {
            None => Ok(()),
            Some(gpu) => refuse(match state.given_to(gpu, &pod.uid) {
                Some(holder) => {
                    let holder = state.called(&holder);
                    format!("it claims GPU {gpu}, which the kubelet gave to {holder}")
                }
                None => format!("it claims GPU {gpu}, which the kubelet did not give it"),
            }),
        };
    }
    claims.find_map(|gpu| Some((gpu, holder(state, gpu, pod)?))).map_or(Ok(()), |(gpu, holder)| {
        refuse(format!("it claims GPU {gpu}, which was given to {}", state.called(&holder)))
    })
}

/// Whether a name stands for what the container was given: the same device, a part of it, or the GPU whose replica
/// it is.
fn is_granted(state: &State, claim: &DeviceId, understood: &Understood) -> bool {
    let Some(DeviceRequest::Exact(ids) | DeviceRequest::Claimed(ids)) =
        understood.request.devices.get(&GPU.into())
    else {
        return false;
    };
    let shared = |id: &DeviceId| id.as_str().split_once("::").is_some_and(|(gpu, _)| gpu == claim.as_str());
    ids.iter().any(|id| state.machine.is_part(claim, id) || shared(id))
}

/// Whose a GPU is beside the pod, by our books or by the kubelet's.
fn holder(state: &State, gpu: &DeviceId, pod: &PodFacts) -> Option<ContainerKey> {
    let resource = ResourceName::from(GPU);
    let mut rivals = state.ledger.occupancy().rivals(state.ledger.machine(), &resource, gpu);
    let held = rivals.find(|(key, ..)| key.pod != pod.uid).map(|(key, ..)| key.clone());
    held.or_else(|| state.given_to(gpu, &pod.uid))
}

impl State {
    /// GPUs that containers beside this one can use whose they are not by the books, and who they are.
    pub(super) fn claimed_beside(&self, key: &ContainerKey) -> Vec<(&ContainerKey, DeviceId)> {
        let others = self.live.values().filter(|live| live.key != *key);
        let claims = others.flat_map(|live| {
            let claims = live.claims.iter().cloned().chain(self.given_and_not_held(&live.key));
            claims.map(|gpu| (&live.key, gpu))
        });
        let elsewhere = self.elsewhere.iter().filter(|(other, known)| *other != key && known.runs);
        let theirs =
            elsewhere.flat_map(|(key, known)| known.claims.iter().map(move |gpu| (key, gpu.clone())));
        claims.chain(theirs).collect()
    }

    /// GPUs that the kubelet gave a container which holds none, as another had them when it was let in.
    fn given_and_not_held(&self, key: &ContainerKey) -> BTreeSet<DeviceId> {
        let holds = |held: &Holding| held.placement.devices.contains_key(&GPU.into());
        match self.ledger.get(key).is_some_and(holds) {
            true => BTreeSet::new(),
            false => self.exact_devices(key).remove(&GPU.into()).unwrap_or_default(),
        }
    }

    /// What a container can use because it names it, beside what the kubelet gave it.
    #[must_use]
    pub fn claims_of(&self, key: &ContainerKey, container: &ContainerFacts) -> BTreeSet<DeviceId> {
        let given = self.exact_devices(key).remove(&GPU.into()).unwrap_or_default();
        let shown = devices::claims(container, &self.topology).unwrap_or_default();
        let mut named = shown.gpus().cloned().unwrap_or_default();
        named.retain(|name| !given.iter().any(|id| self.machine.overlap(id, name)));
        named
    }

    /// What the kubelet gives a pod is no longer any other pod's whose containers have all stopped.
    pub(super) fn make_way(&mut self, pod: &PodFacts, understood: &Understood) {
        let live: BTreeSet<_> = self.live.values().map(|live| live.key.pod.clone()).collect();
        for (resource, wanted) in &understood.request.devices {
            if let DeviceRequest::Exact(ids) = wanted {
                self.ledger.yield_devices(&pod.uid, resource, ids, &|holder| !live.contains(holder));
            }
        }
    }
}
