//! What the reducer remembers between events: the ledger, and which container is told which CPUs.

use super::{AnnotationPool, CpuAuthority, CpusetUpdate, Known, Observed, Pages, Settings, devices, machine};
use crate::engine::{Machine, MachineError, Reserve};
use crate::ledger::Ledger;
use crate::model::{
    ContainerFacts, ContainerId, ContainerKey, CpuSet, DeviceId, NodeSet, PodAllotment, PodFacts, PodUid,
    Topology,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The reducer's memory.
#[derive(Debug, Clone)]
pub struct State {
    pub(super) topology: Arc<Topology>,
    pub(super) machine: Arc<Machine>,
    pub(super) ledger: Ledger,
    /// Sandboxes that have not been stopped, by sandbox id.
    pub(super) pods: BTreeMap<String, PodFacts>,
    /// Containers that have been created and not stopped.
    pub(super) live: BTreeMap<ContainerId, Live>,
    /// The sandbox under which each holding was made: a pod's old sandbox can stop after its new one runs.
    pub(super) sandbox_of: BTreeMap<ContainerKey, String>,
    /// What others have made, by key.
    pub(super) elsewhere: BTreeMap<ContainerKey, Known>,
    /// Shared containers whose last attempt was made with a cpuset of ours and never started.
    pub(super) spurned: BTreeSet<ContainerKey>,
    /// The machine's huge pages as last read.
    pub(super) pages: Pages,
    /// What the kubelet allotted to pods, until they end.
    pub(super) allotments: BTreeMap<PodUid, PodAllotment>,
    reserve: Reserve,
    pool: AnnotationPool,
}

/// A container that has been created and not stopped.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub key: ContainerKey,
    pub sandbox: String,
    pub cgroups_path: String,
    pub role: Role,
    /// GPUs it can use whose they are not by the books: its environment, mounts or device nodes name them.
    pub claims: BTreeSet<DeviceId>,
    /// The CPUs the runtime was last told; `None` is unknown.
    pub told: Option<CpuSet>,
    /// What was wanted and found the last time its cgroup was written directly: a parent's narrower cpuset
    /// makes some wishes impossible, and writing them again changes nothing.
    pub(super) tried: Option<(CpuSet, CpuSet)>,
    /// Somebody else has made it: only its cgroup can be written.
    pub elsewhere: bool,
    /// CPUs that another NRI plugin has set: of the shared pool it has these, where there are any of them.
    pub within: Option<CpuSet>,
    /// The answer to its create has set its CPUs, and it has not started since.
    pub unproven: bool,
    /// GPUs that it has were put in behind the runtime's back.
    pub legacy_gpus: bool,
}

/// Where a live container's CPUs come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    /// Its own, as the ledger has them.
    Exclusive,
    /// The shared pool, narrowed to the CPUs of some nodes where there are any of them in the pool.
    Shared(Option<NodeSet>),
    /// The reserved CPUs.
    Reserved,
}

impl State {
    /// An empty ledger over a machine.
    ///
    /// # Errors
    /// As [`machine`].
    pub fn new(
        topology: Arc<Topology>,
        reserve: &Reserve,
        pool: &AnnotationPool,
    ) -> Result<Self, MachineError> {
        let machine = Arc::new(machine(&topology, reserve, pool)?);
        Ok(Self {
            topology,
            ledger: Ledger::new(Arc::clone(&machine)),
            machine,
            pods: BTreeMap::new(),
            live: BTreeMap::new(),
            sandbox_of: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            spurned: BTreeSet::new(),
            pages: Pages::default(),
            allotments: BTreeMap::new(),
            reserve: reserve.clone(),
            pool: pool.clone(),
        })
    }

    /// The machine it decides about.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Who holds what.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The cgroups of containers that live: what is worth reading for [`super::Event::Observe`].
    pub fn cgroups(&self) -> impl Iterator<Item = (&ContainerId, &str)> {
        self.live.iter().map(|(id, live)| (id, live.cgroups_path.as_str()))
    }

    /// What people call a container: namespace, pod and container where the pod is known, else its UID.
    pub(super) fn called(&self, key: &ContainerKey) -> String {
        let pod = self.pods.values().find(|pod| pod.uid == key.pod);
        pod.map_or_else(|| key.to_string(), |pod| format!("{}/{}/{}", pod.namespace, pod.name, key.container))
    }

    /// Whether a sandbox has been told of, and not its end.
    #[must_use]
    pub fn knows_sandbox(&self, id: &str) -> bool {
        self.pods.contains_key(id)
    }

    /// Whether another attempt of a container is the one that lives.
    #[must_use]
    pub fn has_other_attempt(&self, pod: &PodUid, container: &ContainerFacts) -> bool {
        let same = |live: &Live| live.key.pod == *pod && live.key.container == container.name;
        !self.live.contains_key(&container.id) && self.live.values().any(same)
    }

    /// The cgroups of a sandbox's containers that live, as far as is known.
    pub fn cgroups_in(&self, sandbox: &str) -> impl Iterator<Item = &str> {
        let of_it = self.live.values().filter(move |live| live.sandbox == sandbox);
        of_it.map(|live| live.cgroups_path.as_str())
    }

    /// The cgroup of a container that lives.
    #[must_use]
    pub fn cgroup(&self, id: &ContainerId) -> Option<&str> {
        self.live.get(id).map(|live| live.cgroups_path.as_str())
    }

    /// Whether what stands under a key was made by others.
    #[must_use]
    pub fn is_elsewhere(&self, key: &ContainerKey) -> bool {
        self.elsewhere.contains_key(key)
    }

    /// The cgroup of a pod that lives.
    #[must_use]
    pub fn pod_cgroup(&self, pod: &PodUid) -> Option<&str> {
        let pod = self.pods.values().find(|facts| facts.uid == *pod)?;
        Some(pod.cgroup_parent.as_str()).filter(|path| !path.is_empty())
    }

    /// The machine is this from now on: devices have come or gone, or CPUs. What is held is held still.
    pub(super) fn refresh(&mut self, topology: Topology) {
        // One that cannot be decided about is as good as not read.
        let Ok(machine) = machine(&topology, &self.reserve, &self.pool) else { return };
        self.topology = Arc::new(topology);
        self.machine = Arc::new(machine);
        self.ledger.move_to(Arc::clone(&self.machine));
        for (pod, allotment) in std::mem::take(&mut self.allotments) {
            self.allot(pod, allotment);
        }
    }

    /// Nobody holds anything and nobody lives, over the same machine, but for what others have made. What the kubelet
    /// allotted stays: it may have been told before.
    pub(super) fn forget(&mut self, settings: &Settings) {
        self.ledger = Ledger::new(Arc::clone(&self.machine));
        self.pods.clear();
        self.live.clear();
        self.sandbox_of.clear();
        let elsewhere = std::mem::take(&mut self.elsewhere);
        self.take_in_elsewhere(elsewhere.into_values().collect(), settings);
    }

    /// Remembers a container under its role.
    pub(super) fn track(&mut self, key: ContainerKey, container: &ContainerFacts, sandbox: &str, role: Role) {
        self.take_over(&key);
        let claims = self.claims_of(&key, container);
        let live = Live {
            key,
            sandbox: sandbox.to_owned(),
            cgroups_path: container.cgroups_path.clone(),
            role,
            claims,
            told: None,
            tried: None,
            elsewhere: false,
            within: None,
            unproven: false,
            legacy_gpus: devices::has_legacy_gpus(container),
        };
        self.live.insert(container.id.clone(), live);
    }

    /// The CPUs a live container should have now; `None` where there is nothing to say.
    pub(super) fn wanted(&self, live: &Live, pool: &CpuSet, settings: &Settings) -> Option<CpuSet> {
        if settings.authority == CpuAuthority::Kubelet {
            return None;
        }
        let narrow = live.within.as_ref().map(|within| pool.intersection(within));
        let pool = narrow.as_ref().filter(|narrow| !narrow.is_empty()).unwrap_or(pool);
        let wanted = match &live.role {
            Role::Exclusive => self.ledger.get(&live.key)?.placement.cpus.clone(),
            Role::Reserved => settings.reserved.intersection(&self.topology.cpus),
            Role::Shared(None) => pool.clone(),
            Role::Shared(Some(nodes)) => match pool.intersection(&self.cpus_of(nodes)) {
                near if near.is_empty() => pool.clone(),
                near => near,
            },
        };
        (!wanted.is_empty()).then_some(wanted)
    }

    /// The shared pool. What was found running can have taken all of it, which no decision would; the reserved
    /// CPUs are then what nobody else has, and an empty cpuset is none.
    pub(super) fn pool(&self, settings: &Settings) -> CpuSet {
        match self.ledger.shared_pool(&settings.policy.cpu) {
            pool if pool.is_empty() => settings.reserved.intersection(&self.topology.cpus),
            pool => pool,
        }
    }

    /// Brings every live container's told CPUs to what it should have: only real changes, ascending by id.
    pub(super) fn spread(&mut self, settings: &Settings) -> Vec<CpusetUpdate> {
        let pool = self.pool(settings);
        let mut updates = Vec::new();
        for (id, live) in &self.live {
            let Some(cpus) = self.wanted(live, &pool, settings) else { continue };
            if live.told.as_ref() != Some(&cpus) {
                updates.push(live.update(id, cpus));
            }
        }
        for update in &updates {
            self.tell(&update.id, &update.cpus);
        }
        updates
    }

    /// What the runtime has been told of a container.
    pub(super) fn tell(&mut self, id: &ContainerId, cpus: &CpuSet) {
        if let Some(live) = self.live.get_mut(id) {
            live.told = Some(cpus.clone());
        }
    }

    /// An answer was lost: nothing is known of what the runtime was told, nor of what was written.
    pub(super) fn untell(&mut self) {
        for live in self.live.values_mut() {
            (live.told, live.tried) = (None, None);
        }
    }

    /// The containers whose cgroup differs from what they should have, as direct writes.
    pub(super) fn stale(
        &mut self,
        observed: &BTreeMap<ContainerId, Observed>,
        settings: &Settings,
    ) -> Vec<CpusetUpdate> {
        let pool = self.pool(settings);
        let mut writes = Vec::new();
        for (id, seen) in observed {
            let (Some(live), Some(found)) = (self.live.get(id), &seen.cpus) else { continue };
            let Some(cpus) = self.wanted(live, &pool, settings) else { continue };
            let tried = (cpus.clone(), found.clone());
            if *found != cpus && live.tried.as_ref() != Some(&tried) {
                writes.push(live.update(id, cpus));
                self.live.get_mut(id).expect("it was just found").tried = Some(tried);
            }
        }
        writes
    }

    /// Whether another sandbox of the same pod has not been stopped.
    pub(super) fn has_other_sandbox(&self, uid: &PodUid, sandbox: &str) -> bool {
        self.pods.values().any(|pod| pod.uid == *uid && pod.id != sandbox)
    }

    /// All CPUs of some nodes.
    pub(super) fn cpus_of(&self, nodes: &NodeSet) -> CpuSet {
        let hit = self.topology.numa_nodes.iter().filter(|node| nodes.contains(node.id));
        hit.fold(CpuSet::new(), |all, node| all.union(&node.cpus))
    }
}

impl Live {
    fn update(&self, id: &ContainerId, cpus: CpuSet) -> CpusetUpdate {
        CpusetUpdate { id: id.clone(), cgroups_path: self.cgroups_path.clone(), cpus, mems: None }
    }
}
