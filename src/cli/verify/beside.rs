//! What is beside the placements: who else may run on CPUs that are somebody's alone, and what nobody placed.

use super::asked;
use crate::cli::CliError;
use crate::cli::node::Node;
use crate::decision::{Decision, Event, Mode, Seen, Settings, step};
use crate::host::{self, Cgroups, FoundContainer, HostProcess};
use crate::ledger::Record;
use crate::model::{ContainerKey, ContainerName, CpuSet};
use serde::Serialize;
use std::collections::BTreeSet;

/// What was found beside the placements.
#[derive(Debug, Default, Serialize)]
pub(super) struct Beside {
    /// Those who may run on CPUs that are somebody's alone, and should not.
    pub intruders: Vec<Intruder>,
    /// Processes of the host that may run there among other CPUs: nobody moves those.
    pub host_processes: Vec<Passer>,
    /// Containers of the CRI that nobody placed and that ask for what has a place.
    pub not_placed: Vec<NotPlaced>,
    /// How many others share the pool.
    pub sharing: usize,
}

/// A container, or a process that somebody pinned there.
#[derive(Debug, Serialize)]
pub(super) struct Intruder {
    /// Who, in words.
    pub who: String,
    /// On which CPUs it should not be.
    pub cpus: CpuSet,
    /// Whose they are.
    pub of: String,
}

/// A process of the host.
#[derive(Debug, Serialize)]
pub(super) struct Passer {
    pub pid: u32,
    pub name: String,
    pub cpus: CpuSet,
}

/// A container nobody placed.
#[derive(Debug, Serialize)]
pub(super) struct NotPlaced {
    /// `namespace/pod/container`, as far as known.
    pub who: String,
    pub id: String,
    /// `placed`, `rejected` or `exempt`: what would become of it today.
    pub today: String,
    /// Why, in one line.
    pub reason: String,
}

/// Exclusive CPUs and whose they are.
pub(super) struct Owned {
    key: ContainerKey,
    cpus: CpuSet,
    who: String,
    cgroup: Option<String>,
}

impl Beside {
    pub fn of(node: &Node, cgroups: &Cgroups, owned: &[Owned]) -> Result<Self, CliError> {
        let mut beside = Self::default();
        for one in node.containers().unwrap_or_default() {
            let held = node.living.iter().find(|(_, known)| {
                known.cgroups_path.as_deref().is_some_and(|path| node.is_same_cgroup(path, &one.cgroups_path))
            });
            let own_cpus = held.map(|(_, known)| known.record.placement().cpus.clone()).unwrap_or_default();
            // One that shares by the books is told of with them.
            if held.is_none() || !own_cpus.is_empty() {
                beside.intrudes(node, cgroups, &one, &own_cpus, owned);
            }
            if held.is_none() {
                beside.today(node, cgroups, &one);
            } else if own_cpus.is_empty() {
                beside.sharing += 1;
            }
        }
        beside.host(node, cgroups, owned)?;
        Ok(beside)
    }

    /// Whether something is where it should not be. Containers that nobody placed are no drift.
    pub fn is_wrong(&self) -> bool {
        !self.intruders.is_empty()
    }

    fn intrudes(
        &mut self,
        node: &Node,
        cgroups: &Cgroups,
        one: &FoundContainer,
        own: &CpuSet,
        owned: &[Owned],
    ) {
        // What cannot be read is not known to intrude.
        let Some(cpus) = cgroups.observe(&one.cgroups_path).ok().flatten().and_then(|seen| seen.cpus) else {
            return;
        };
        let foreign = cpus.difference(own);
        for owner in owned.iter().filter(|owner| !owner.cpus.is_disjoint(&foreign)) {
            if owner.cgroup.as_deref().is_some_and(|path| node.is_same_cgroup(path, &one.cgroups_path)) {
                continue;
            }
            self.intruders.push(Intruder {
                who: format!("container {}", called(node, one)),
                cpus: owner.cpus.intersection(&foreign),
                of: owner.who.clone(),
            });
        }
    }

    /// What would become of it if it were created now: decided as any other, with nothing carried out.
    fn today(&mut self, node: &Node, cgroups: &Cgroups, one: &FoundContainer) {
        let Some((pod, container)) = asked::facts(node, cgroups, one) else { return };
        let settings = Settings { mode: Mode::Audit, ..node.settings.clone() };
        let mut state = node.state.clone();
        let outcome = step(&mut state, Event::Create(pod, container), &settings);
        let Some(verdict) = outcome.verdicts.first() else { return };
        match verdict.decision {
            Decision::Shared => self.sharing += 1,
            decision => self.not_placed.push(NotPlaced {
                who: called(node, one),
                id: one.id.to_string(),
                today: decision.to_string(),
                reason: verdict.reason.clone(),
            }),
        }
    }

    /// Processes outside all containers of the CRI.
    fn host(&mut self, node: &Node, cgroups: &Cgroups, owned: &[Owned]) -> Result<(), CliError> {
        if owned.is_empty() {
            return Ok(());
        }
        let pods = cgroups.containers()?.into_iter().map(|one| one.pod_cgroup);
        let inside: BTreeSet<String> =
            pods.chain(owned.iter().filter_map(|owner| owner.cgroup.clone())).collect();
        for HostProcess { pid, name, cpus } in host::everybody(&node.sysroot)? {
            let Some(owner) = owned.iter().find(|owner| !owner.cpus.is_disjoint(&cpus)) else { continue };
            // One of which that cannot be read is not known to be the host's.
            let Ok(Some(own)) = cgroups.of_process(&node.sysroot, &pid.to_string()) else { continue };
            if inside.iter().any(|path| is_below(cgroups, &own, path)) {
                continue;
            }
            let exclusive = owned.iter().fold(CpuSet::new(), |all, owner| all.union(&owner.cpus));
            match cpus.is_subset(&exclusive) {
                true => self.intruders.push(Intruder {
                    who: format!("process {pid} ({name})"),
                    cpus: owner.cpus.intersection(&cpus),
                    of: owner.who.clone(),
                }),
                false => self.host_processes.push(Passer { pid, name, cpus: cpus.intersection(&exclusive) }),
            }
        }
        Ok(())
    }
}

/// Exclusive CPUs of others on which a container without such of its own may run, in words.
pub(super) fn trespasses(owned: &[Owned], record: &Record, seen: &Seen) -> Vec<String> {
    let (true, Some(cpus)) = (record.placement().cpus.is_empty(), &seen.cpus) else { return Vec::new() };
    let others = owned.iter().filter(|owner| owner.key != record.key);
    let common = others.map(|owner| (owner.cpus.intersection(cpus), &owner.who));
    common
        .filter(|(cpus, _)| !cpus.is_empty())
        .map(|(cpus, who)| format!("may run on CPUs {cpus} of {who}"))
        .collect()
}

/// Whether a process's cgroup is another or lies below it.
fn is_below(cgroups: &Cgroups, own: &str, path: &str) -> bool {
    let path = cgroups.path_of(path).unwrap_or_default();
    own.strip_prefix(path.as_str())
        .is_some_and(|rest| !path.is_empty() && (rest.is_empty() || rest.starts_with('/')))
}

pub(super) fn owned(node: &Node) -> Vec<Owned> {
    let running = node.living.iter().filter(|(_, known)| known.runs);
    let owned = running.filter(|(_, known)| !known.record.placement().cpus.is_empty());
    let owned = owned.map(|(kept, known)| Owned {
        key: kept.key.clone(),
        cpus: known.record.placement().cpus.clone(),
        who: match node.names.pod(&kept.key.pod) {
            Some(pod) => format!("{pod}/{}", kept.key.container),
            None => kept.key.to_string(),
        },
        cgroup: known.cgroups_path.clone(),
    });
    owned.collect()
}

fn called(node: &Node, one: &FoundContainer) -> String {
    let (pod, container) = (node.names.pod(&one.pod), node.names.container(&one.id));
    let party = pod.zip(container).is_none().then(|| node.party(one.id.as_str())).flatten();
    let party = party.filter(|party| party.in_kubernetes && !party.pod.name.is_empty());
    let told = party.as_ref().map(|party| format!("{}/{}", party.pod.namespace, party.pod.name));
    let pod = pod.or(told.as_deref()).unwrap_or(one.pod.as_str());
    let container = container.or(party.as_ref().map(|party| &party.container.name));
    format!("{pod}/{}", container.map_or(one.id.as_str(), ContainerName::as_str))
}
