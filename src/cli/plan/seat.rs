//! Seats pods in order, each beside those before it, through the engine.

use super::pods::Pod;
use crate::config::Config;
use crate::decision::{AnnotationPool, Ineligible};
use crate::engine::{self, GPU, Machine, NIC, Occupancy};
use crate::model::{
    ContainerName, ContainerRequest, DeviceId, MemoryKind, NodeSet, Placement, PodUid, Reason, Rejection,
    ResourceName, Topology,
};

/// The most replicas `--fill` tries; a node has room for a few hundred pods at most.
const MOST_REPLICAS: usize = 10_000;

/// A machine that pods are seated on.
pub struct Room<'a> {
    pub topology: &'a Topology,
    pub machine: Machine,
    pub occupancy: Occupancy,
    pub config: &'a Config,
}

/// A pod and what became of it.
pub struct Seated {
    pub pod: Pod,
    pub verdict: Result<Vec<Seat>, Box<Rejection>>,
}

/// A container's place.
pub struct Seat {
    pub name: ContainerName,
    pub placement: Placement,
    /// Everything it has, CPUs too, lies on one node.
    pub aligned: bool,
}

/// How often a pod fits beside what is there.
pub struct Fill {
    /// Those that fit, as if they were pods of their own.
    pub seated: Vec<Seated>,
    /// What the next one is told; `None` where nothing ever runs out.
    pub next: Option<Box<Rejection>>,
}

impl<'a> Room<'a> {
    /// The empty machine.
    pub fn new(topology: &'a Topology, mut machine: Machine, config: &'a Config) -> Self {
        // The device plugin does not offer the GPUs that are kept for annotations.
        if let AnnotationPool::Only(kept) = &config.gpu.annotation_pool {
            let offered = machine.devices(&GPU.into()).iter().filter(|gpu| !kept.contains(&gpu.id));
            let offered = offered.cloned().collect();
            machine.set_devices(GPU.into(), offered);
        }
        Self { topology, occupancy: Occupancy::new(&machine), machine, config }
    }

    /// Seats one pod, if it fits.
    pub fn seat(&mut self, pod: Pod) -> Seated {
        let verdict = self.verdict(&pod).map(|placements| {
            for (container, placement) in pod.request.containers.iter().zip(&placements) {
                let key = pod.request.key(container);
                self.occupancy.reserve(&self.machine, key, container.kind, placement);
            }
            let names = pod.request.containers.iter().map(|container| container.name.clone());
            names.zip(placements).map(|(name, placement)| self.told(name, placement)).collect()
        });
        Seated { pod, verdict }
    }

    /// Seats copies of a pod until one does not fit.
    pub fn fill(&mut self, pod: &Pod) -> Fill {
        let mut fill = Fill { seated: Vec::new(), next: None };
        for number in 1..=MOST_REPLICAS {
            let mut copy = pod.clone();
            copy.request.name = format!("{}-{number}", pod.request.name);
            copy.request.uid = PodUid::new(format!("{}-{number}", pod.request.uid));
            let seated = self.seat(copy);
            match seated.verdict {
                Err(rejection) => {
                    fill.next = Some(rejection);
                    break;
                }
                // It takes nothing that could run out.
                Ok(ref seats) if seats.iter().all(|seat| takes_nothing(&seat.placement)) => break,
                Ok(_) => fill.seated.push(seated),
            }
        }
        fill
    }

    /// The placements, in the order of the pod's containers.
    fn verdict(&self, pod: &Pod) -> Result<Vec<Placement>, Box<Rejection>> {
        let request = &pod.request;
        if pod.exempt.is_some() {
            return Ok(vec![Placement::default(); request.containers.len()]);
        }
        let placed = engine::admit_pod(&self.machine, &self.occupancy, request, &self.config.policy)
            .map_err(Box::new)?;
        let forgotten = request.containers.iter().find(|container| is_ineligible(container));
        match forgotten.filter(|_| self.config.ineligible == Ineligible::Reject) {
            Some(container) => Err(ineligible(container)),
            None => Ok(request.containers.iter().map(|container| of(container, &placed)).collect()),
        }
    }

    fn told(&self, name: ContainerName, mut placement: Placement) -> Seat {
        // A GPU that is memory of its own stays open to its container.
        if !placement.mems.is_empty() {
            let held = |uuid: &str| placement.devices.values().any(|ids| ids.contains(&uuid.into()));
            let gpus = self.topology.gpus.iter().filter(|gpu| gpu.uuid.as_deref().is_some_and(held));
            let nodes: NodeSet = gpus.filter_map(|gpu| gpu.memory_node).collect();
            placement.mems = placement.mems.union(&nodes);
        }
        Seat { name, aligned: self.aligned(&placement), placement }
    }

    fn aligned(&self, placement: &Placement) -> bool {
        let mut devices =
            placement.devices.iter().flat_map(|(name, ids)| ids.iter().map(move |id| (name, id)));
        let known = devices.all(|(name, id)| self.device_nodes(name, id).is_some());
        known && !placement.cpus.is_empty() && self.place(placement).len() == 1
    }

    /// The nodes a container has something on, as far as they are known.
    pub fn place(&self, placement: &Placement) -> NodeSet {
        let mut nodes = self.topology.nodes_of(&placement.cpus);
        for block in &placement.memory {
            nodes = nodes.union(&block.nodes);
        }
        for (resource, ids) in &placement.devices {
            for near in ids.iter().filter_map(|id| self.device_nodes(resource, id)) {
                nodes = nodes.union(near);
            }
        }
        nodes
    }

    /// The nodes a device is close to, where they are known.
    fn device_nodes(&self, resource: &ResourceName, id: &DeviceId) -> Option<&NodeSet> {
        self.machine.devices(resource).iter().find(|device| device.id == *id)?.nodes.as_ref()
    }

    /// What of a resource nobody holds, in the order it is handed out.
    pub fn free_devices(&self, resource: &str) -> Vec<&engine::Device> {
        let resource = ResourceName::from(resource);
        let free = |device: &&engine::Device| self.occupancy.holder(&resource, &device.id).is_none();
        self.machine.devices(&resource).iter().filter(free).collect()
    }

    /// GPUs by the number people know them by, NICs by their name.
    pub fn device_name(&self, resource: &str, id: &DeviceId) -> String {
        let gpu = self.topology.gpus.iter().find(|gpu| gpu.uuid.as_deref() == Some(id.as_str()));
        match (resource, gpu) {
            (GPU, Some(gpu)) => gpu.index.to_string(),
            _ => id.to_string(),
        }
    }
}

impl Seat {
    /// Its GPUs by id, in the order of their index.
    pub fn gpus(&self, topology: &Topology) -> Vec<String> {
        let mut ids = self.devices(GPU);
        let index = |id: &String| topology.gpus.iter().position(|gpu| gpu.uuid.as_ref() == Some(id));
        ids.sort_by_key(index);
        ids
    }

    /// Its NICs by name.
    pub fn nics(&self) -> Vec<String> {
        self.devices(NIC)
    }

    fn devices(&self, resource: &str) -> Vec<String> {
        let devices = self.placement.devices.get(&resource.into());
        devices.into_iter().flatten().map(ToString::to_string).collect()
    }

    /// Bytes of one kind promised to it, on all nodes together.
    pub fn promised(&self, kind: MemoryKind) -> u64 {
        let blocks = self.placement.memory.iter().filter(|block| block.kind == kind);
        blocks.map(|block| block.bytes.0).sum()
    }
}

fn takes_nothing(placement: &Placement) -> bool {
    let devices = placement.devices.values().all(std::collections::BTreeSet::is_empty);
    placement.cpus.is_empty() && placement.memory.is_empty() && devices
}

fn of(container: &ContainerRequest, placed: &[(ContainerName, Placement)]) -> Placement {
    let hit = placed.iter().find(|(name, _)| *name == container.name);
    hit.map(|(_, placement)| placement.clone()).unwrap_or_default()
}

/// The pinning everyone forgets: devices or hugepages, and no exclusive CPUs.
pub fn is_ineligible(container: &ContainerRequest) -> bool {
    let has_place = !container.devices.is_empty() || !container.hugepages.is_empty();
    has_place && !container.opt_out && container.exclusive_cpus().is_none()
}

fn ineligible(container: &ContainerRequest) -> Box<Rejection> {
    Box::new(Rejection {
        reason: Reason::InvalidRequest,
        container: Some(container.name.clone()),
        text: "has devices or hugepages but gets no exclusive CPUs (policy.ineligible = reject): expected a \
               Guaranteed pod with whole CPUs"
            .into(),
        candidates: Vec::new(),
        weaker: None,
        largest: None,
    })
}
