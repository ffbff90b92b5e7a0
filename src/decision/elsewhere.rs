//! Containers that others have made: the shared store tells a hook of the daemon's, the daemon of the hooks'.
//! They hold what they hold as our own do; their cpusets are written directly, as no answer of ours reaches them.

use super::state::{Live, Role};
use super::{Decision, Ineligible, Outcome, Settings, State, Verdict};
use crate::engine::Seat;
use crate::ledger::Record;
use crate::model::{ContainerId, ContainerKey, ContainerKind, CpuSet, DeviceId, Placement, Scope};
use std::collections::BTreeSet;

/// A container that somebody else has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// What it holds; nothing at all is a container of the shared pool.
    pub record: Record,
    /// Its cgroup, as `cgroupsPath` spells it; `None` where it is not known (yet).
    pub cgroups_path: Option<String>,
    /// The CPUs it was last given.
    pub told: Option<CpuSet>,
    /// Without CPUs of its own it runs on the reserved ones.
    pub reserved: bool,
    /// GPUs that its environment names and that are not its own by the books.
    pub claims: BTreeSet<DeviceId>,
    /// Whether it may run; one that has stopped in a pod that lives keeps its seat and lends its CPUs.
    pub runs: bool,
}

/// From now on these are all that others have made.
pub(super) fn elsewhere(state: &mut State, known: Vec<Known>, settings: &Settings) -> Outcome {
    if state.elsewhere.values().eq(known.iter()) {
        return Outcome::default();
    }
    let before: Vec<ContainerKey> = std::mem::take(&mut state.elsewhere).into_keys().collect();
    for key in &before {
        state.ledger.release(key);
    }
    state.live.retain(|_, live| !live.elsewhere);
    let verdicts = state.take_in_elsewhere(known, settings);
    for key in &before {
        if !state.ledger.iter().any(|(other, _)| other.pod == key.pod) {
            state.ledger.release_pod(&key.pod);
        }
    }
    Outcome { writes: state.spread(settings), verdicts, ..Outcome::default() }
}

impl State {
    /// Adds what others have made; what cannot be is told.
    pub(super) fn take_in_elsewhere(&mut self, known: Vec<Known>, settings: &Settings) -> Vec<Verdict> {
        let known = known.into_iter().filter(|one| self.ledger.get(&one.record.key).is_none());
        let known: Vec<Known> = known.collect();
        known.into_iter().filter_map(|one| self.take_one_in(one, settings)).collect()
    }

    fn take_one_in(&mut self, known: Known, settings: &Settings) -> Option<Verdict> {
        let Record { key, id, .. } = &known.record;
        let placement = known.record.placement().clone();
        let (key, id) = (key.clone(), id.clone());
        let holds = placement != Default::default();
        let kind = ContainerKind::Unknown;
        let (placement, conflict) = self.ledger.uncontested(&key, kind, placement);
        let told = conflict.map(|conflict| contested(&key, &id, conflict.to_string()));
        if holds {
            if placement.cpus.is_empty() && placement.devices.is_empty() && told.is_some() {
                return told;
            }
            if let Err(conflict) = self.ledger.adopt(key.clone(), id.clone(), kind, placement.clone()) {
                return Some(contested(&key, &id, conflict.to_string()));
            }
            if settings.policy.scope == Scope::Pod && self.ledger.seat(&key.pod).is_none() {
                let seat = Seat { affinity: placement.affinity.clone(), preferred: placement.preferred };
                self.ledger.set_seat(key.pod.clone(), seat);
            }
        }
        // One whose CPUs are all somebody else's is left where it is.
        let stays = placement.cpus.is_empty() && !known.record.placement().cpus.is_empty();
        if known.runs && !stays {
            self.track_elsewhere(&known, role(&known, &placement, settings));
        } else if !known.runs {
            self.ledger.lend(&key, &id);
        }
        self.elsewhere.insert(key, known);
        told
    }

    /// One whose cgroup nobody knows cannot be written to.
    fn track_elsewhere(&mut self, known: &Known, role: Role) {
        let Some(path) = &known.cgroups_path else { return };
        let live = Live {
            key: known.record.key.clone(),
            sandbox: String::new(),
            cgroups_path: path.clone(),
            role,
            told: known.told.clone(),
            tried: None,
            elsewhere: true,
            within: None,
            unproven: false,
            legacy_gpus: false,
            claims: Default::default(),
        };
        self.live.insert(known.record.id.clone(), live);
    }

    /// A container of ours goes by this key: whatever others had under it is ours to answer for now.
    pub(super) fn take_over(&mut self, key: &ContainerKey) {
        if let Some(known) = self.elsewhere.remove(key) {
            self.live.remove(&known.record.id);
        }
    }
}

impl Outcome {
    /// No answer of ours reaches containers that others have made: their cgroups are written.
    pub(super) fn write_elsewhere(&mut self, state: &State, settings: &Settings) {
        let by_cgroup =
            |live: &Live| live.elsewhere || (live.legacy_gpus && settings.features.rewrites_devices);
        let theirs = |id: &ContainerId| state.live.get(id).is_some_and(by_cgroup);
        let (writes, updates) =
            std::mem::take(&mut self.updates).into_iter().partition(|update| theirs(&update.id));
        self.updates = updates;
        let writes: Vec<_> = writes;
        self.writes.extend(writes);
    }
}

/// Where its CPUs come from, as [`super::running::Running::role`] has it of our own.
fn role(known: &Known, placement: &Placement, settings: &Settings) -> Role {
    if !placement.cpus.is_empty() {
        return Role::Exclusive;
    }
    if known.reserved {
        return Role::Reserved;
    }
    let has_place = !placement.devices.is_empty() || placement.page_sizes().next().is_some();
    let aligned = settings.ineligible == Ineligible::Align && has_place;
    Role::Shared(placement.affinity.clone().filter(|_| aligned))
}

/// Two hold the same: the one whose word came later is not believed, and somebody should look.
fn contested(key: &ContainerKey, id: &ContainerId, why: String) -> Verdict {
    Verdict {
        pod: String::new(),
        namespace: String::new(),
        pod_uid: key.pod.clone(),
        container: Some(key.container.clone()),
        container_id: Some(id.clone()),
        decision: Decision::Shared,
        simulated: false,
        warn: true,
        reason: format!("what the shared store says of it cannot be: {why}"),
        request: String::new(),
        placement: None,
        memory_policy: None,
        rejection: None,
        ineligible: false,
        rival: false,
    }
}
