//! A container that was found running: what is known of it, and what it holds.

use super::annotated::{POOLED_GPU, Understood};
use super::create::shared_role;
use super::devices::Claims;
use super::ineligible::is_ineligible;
use super::state::Role;
use super::step::{key, verdict};
use super::understand::{self, Moment};
use super::words::describe;
use super::{Decision, Ineligible, Observed, Settings, State, Verdict, devices};
use crate::engine::GPU;
use crate::ledger::{RECORD_ANNOTATION, Record};
use crate::model::{
    ContainerFacts, ContainerKind, ContainerRequest, CpuSet, DeviceId, DeviceRequest, Placement, PodFacts,
    Rejection, ResourceName,
};
use std::collections::{BTreeMap, BTreeSet};

/// A container that runs, with all that is known of it.
pub(super) struct Running<'a> {
    pub(super) pod: PodFacts,
    pub(super) facts: &'a ContainerFacts,
    pub(super) understood: Result<Understood, Box<Rejection>>,
    /// The devices it shows.
    pub(super) shown: Claims,
    /// The devices the kubelet's books say it has.
    pub(super) given: BTreeMap<ResourceName, BTreeSet<DeviceId>>,
    /// Why it never counts as one of ours.
    pub(super) exempt: Option<String>,
    /// The CPUs it really has; what the runtime's configuration says where its cgroup could not be read.
    pub(super) cpus: Option<CpuSet>,
    /// What is remembered of this very attempt: one that was taken in when it ran carries no record.
    pub(super) remembered: Option<&'a Record>,
}

impl<'a> Running<'a> {
    pub(super) fn look(
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
            given: state.exact_devices(&key(&pod, facts)),
            exempt: understand::exemption(&pod, Some(facts), settings),
            cpus: observed.and_then(|seen| seen.cpus.clone()).or_else(|| configured(facts)),
            pod,
            facts,
            remembered: None,
        }
    }

    /// What the runtime was last told, by its configuration.
    pub(super) fn told(&self) -> Option<CpuSet> {
        match configured(self.facts) {
            // A configuration the cgroup does not follow is as good as never told.
            Some(cpus) => Some(cpus).filter(|cpus| self.cpus.as_ref().is_none_or(|real| real == cpus)),
            // Never told anything, it has what it has, and that may be just right.
            None => self.cpus.clone(),
        }
    }

    /// How many exclusive CPUs it should have: none for those that never get any. Its limits alone tell where
    /// the rest of it cannot be followed.
    pub(super) fn due(&self) -> Option<u32> {
        if self.exempt.is_some() {
            return None;
        }
        match &self.understood {
            Ok(understood) => understood.request.exclusive_cpus(),
            Err(_) => understand::limits(&self.pod, self.facts).exclusive_cpus(),
        }
    }

    pub(super) fn request(&self) -> Option<&ContainerRequest> {
        self.understood.as_ref().ok().map(|understood| &understood.request)
    }

    pub(super) fn line(&self, decision: Decision, reason: String) -> Verdict {
        let request = self.request().map(describe).unwrap_or_default();
        Verdict { request, ..verdict(&self.pod, Some(self.facts), decision, reason) }
    }

    pub(super) fn shared_line(&self) -> Verdict {
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
    pub(super) fn own_record(&self) -> Option<Placement> {
        let carried = self.facts.annotations.get(RECORD_ANNOTATION).and_then(|text| Record::parse(text).ok());
        let own = |record: &Record| record.key == key(&self.pod, self.facts) && record.id == self.facts.id;
        let record = carried.filter(own).or_else(|| self.remembered.cloned())?;
        Some(record.placement().clone()).filter(|placement| self.delivered(placement))
    }

    /// Its own record, if that has as many CPUs as it should have.
    pub(super) fn record(&self) -> Option<Placement> {
        let due = self.due().unwrap_or(0) as usize;
        self.own_record().filter(|placement| placement.cpus.len() == due)
    }

    /// What it holds whatever its CPUs are: the GPUs and the memory it was given when it was made.
    pub(super) fn without_cpus(&self) -> Placement {
        let held = self.own_record().unwrap_or_default();
        Placement { cpus: CpuSet::new(), ..held }
    }

    /// Whether the GPUs of a placement are among those it shows, or those it was given: not every runtime shows every
    /// way by which they come. Of a replica the GPU is shown.
    pub(super) fn delivered(&self, placement: &Placement) -> bool {
        let shown = self.shown.gpus();
        let shows = |id: &DeviceId| {
            let gpu = id.as_str().split_once("::").map_or(id.as_str(), |(gpu, _)| gpu);
            let gpu = DeviceId::new(gpu);
            let given = self.given.values().any(|ids| ids.contains(id));
            given || shown.is_some_and(|shown| shown.contains(id) || shown.contains(&gpu))
        };
        let gpus =
            placement.devices.iter().filter(|(resource, _)| matches!(resource.as_str(), GPU | POOLED_GPU));
        gpus.flat_map(|(_, ids)| ids).all(shows)
    }

    /// The part it plays in its pod, as far as it is known.
    pub(super) fn kind(&self) -> ContainerKind {
        self.request().map_or(ContainerKind::Unknown, |request| request.kind)
    }

    /// The devices it holds: by its record, else by the kubelet's books.
    pub(super) fn holds(&self) -> Placement {
        let mut held = self.without_cpus();
        for (resource, ids) in &self.given {
            let gpus = resource.as_str() == GPU && held.devices.keys().any(|own| own.as_str() == POOLED_GPU);
            if !gpus {
                held.devices.entry(resource.clone()).or_insert_with(|| ids.clone());
            }
        }
        held
    }

    /// Where its CPUs come from once it holds that.
    pub(super) fn role(&self, placement: &Placement, settings: &Settings) -> Role {
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

/// Devices cannot be given to a container that runs: only those it has count, by its record where other GPUs took
/// the place of those the kubelet gave it.
pub(super) fn as_it_runs(request: &ContainerRequest, held: &Placement) -> ContainerRequest {
    let mut request = request.clone();
    request.devices.retain(|_, wanted| !matches!(wanted, DeviceRequest::Count(_)));
    if let Some(gpus) = held.devices.get(&GPU.into()) {
        request.devices.insert(GPU.into(), DeviceRequest::Exact(gpus.clone()));
    }
    request
}
