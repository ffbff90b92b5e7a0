//! Seats pods in order, each beside those before it, through the engine.

use super::pods::Pod;
use crate::config::Config;
use crate::decision::{self, AnnotationPool, Features, POOLED_GPU, Settings, Understood};
use crate::engine::{self, GPU, MIG, Machine, MachineError, NIC, Occupancy};
use crate::model::{
    ContainerName, DeviceId, MemoryKind, MemoryMode, NodeSet, Placement, PodRequest, Policy, Rejection,
    Resource, ResourceName, Scope, Shortage, Topology, TopologyPolicy,
};
use std::collections::BTreeMap;

/// The most replicas `--fill` tries; a node has room for a few hundred pods at most.
pub const MOST_REPLICAS: u32 = 10_000;

/// What GPUs are handed out as: by the device plugin, to annotations alone, and in parts.
pub const GPUS: [&str; 3] = [GPU, POOLED_GPU, MIG];

/// A machine that pods are seated on.
pub struct Room<'a> {
    pub topology: &'a Topology,
    pub machine: Machine,
    pub occupancy: Occupancy,
    pub settings: Settings,
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
    /// The memory policy of its processes; `None` leaves the kernel's default.
    pub memory_mode: Option<MemoryMode>,
    /// Whether everything of its own lies on one node; `None` where it has nothing of its own.
    pub aligned: Option<bool>,
}

/// How often a pod fits beside what is there.
pub struct Fill {
    /// Those that fit, as if they were pods of their own.
    pub seated: Vec<Seated>,
    /// What the next one is told; `None` where nothing ever runs out.
    pub next: Option<Box<Rejection>>,
    /// Where they are: every node that has CPUs, and every set of nodes that one lies across.
    pub parts: Vec<Part>,
}

/// What a part of the machine has room for.
pub struct Part {
    /// One node, or several that a replica lies across; none is the shared pool.
    pub nodes: NodeSet,
    /// How many are there.
    pub replicas: usize,
    /// What there is too little of there for one more.
    pub short: Vec<Shortage>,
}

impl Fill {
    /// What runs out first: of what every node that could take one has too little.
    pub fn runs_out(&self) -> Vec<Resource> {
        let mut singles = self.parts.iter().filter(|part| part.nodes.len() == 1);
        let names = |part: &Part| part.short.iter().map(|short| short.resource.clone()).collect::<Vec<_>>();
        let Some(first) = singles.next().map(names) else { return Vec::new() };
        singles.fold(first, |all, part| {
            let here = names(part);
            all.into_iter().filter(|resource| here.contains(resource)).collect()
        })
    }
}

impl<'a> Room<'a> {
    /// The empty machine.
    ///
    /// # Errors
    /// The machine and what the configuration reserves on it do not go together.
    pub fn new(topology: &'a Topology, config: &Config) -> Result<Self, MachineError> {
        let pool = &config.gpu.annotation_pool;
        let mut machine = decision::machine(topology, &config.reserve(), pool)?;
        machine.check_options(&config.policy.cpu)?;
        // The device plugin does not offer the GPUs that are kept for annotations.
        if let AnnotationPool::Only(kept) = pool {
            let offered = machine.devices(&GPU.into()).iter().filter(|gpu| !kept.contains(&gpu.id));
            let offered = offered.cloned().collect();
            machine.set_devices(GPU.into(), offered);
        }
        let settings = config.settings(machine.reserved().clone(), Features::default());
        Ok(Self { topology, occupancy: Occupancy::new(&machine), machine, settings })
    }

    /// Seats one pod, if it fits.
    pub fn seat(&mut self, pod: Pod) -> Seated {
        let verdict = self.verdict(&pod);
        for (container, seat) in pod.request.containers.iter().zip(verdict.iter().flatten()) {
            let key = pod.request.key(container);
            self.occupancy.reserve(&self.machine, key, container.kind, &seat.placement);
        }
        Seated { pod, verdict }
    }

    /// Seats copies of a pod until one does not fit.
    pub fn fill(&mut self, pod: &Pod) -> Fill {
        let mut fill = Fill { seated: Vec::new(), next: None, parts: Vec::new() };
        for number in 1..=MOST_REPLICAS {
            let seated = self.seat(pod.copy(number));
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
        fill.parts = self.parts(&fill);
        fill
    }

    fn parts(&self, fill: &Fill) -> Vec<Part> {
        let with_cpus = self.topology.numa_nodes.iter().filter(|node| !node.cpus.is_empty());
        let mut counts: BTreeMap<(usize, NodeSet), usize> =
            with_cpus.map(|node| ((1, NodeSet::single(node.id)), 0)).collect();
        for seats in fill.seated.iter().filter_map(|seated| seated.verdict.as_ref().ok()) {
            let nodes =
                seats.iter().fold(NodeSet::new(), |all, seat| all.union(&self.place(&seat.placement)));
            *counts.entry((nodes.len(), nodes)).or_default() += 1;
        }
        let candidates = fill.next.iter().flat_map(|next| &next.candidates);
        let short = |nodes: &NodeSet| {
            let here = candidates.clone().find(|candidate| candidate.nodes == *nodes);
            here.map(|candidate| candidate.short.clone()).unwrap_or_default()
        };
        counts
            .into_iter()
            .map(|((_, nodes), replicas)| Part { short: short(&nodes), nodes, replicas })
            .collect()
    }

    /// The seats, in the order of the pod's containers.
    fn verdict(&self, pod: &Pod) -> Result<Vec<Seat>, Box<Rejection>> {
        let names = pod.request.containers.iter().map(|container| container.name.clone());
        if pod.exempt.is_some() {
            return Ok(names.map(|name| self.told(name, Placement::default(), None)).collect());
        }
        let understood = self.understood(pod)?;
        let placed = self.placed(pod, &understood)?;
        let rule = self.settings.ineligible;
        understood.iter().try_for_each(|one| decision::check_eligible(&one.request, rule))?;
        let modes = understood.iter().map(|one| one.memory_mode);
        let seats = names.zip(placed).zip(modes);
        Ok(seats.map(|((name, placement), mode)| self.told(name, placement, mode)).collect())
    }

    /// The containers with the pod's annotations followed, as on the node.
    fn understood(&self, pod: &Pod) -> Result<Vec<Understood>, Box<Rejection>> {
        let PodRequest { namespace, containers, .. } = &pod.request;
        let follow = |container: &_| {
            let container = Clone::clone(container);
            decision::annotated(&pod.annotations, namespace, container, self.topology, &self.settings)
        };
        containers.iter().map(follow).collect()
    }

    fn placed(&self, pod: &Pod, understood: &[Understood]) -> Result<Vec<Placement>, Box<Rejection>> {
        let containers = understood.iter().map(|one| one.request.clone()).collect();
        let request = PodRequest { containers, ..pod.request.clone() };
        let first = understood.first().map_or(&self.settings.policy, |one| &one.policy);
        if understood.iter().any(|one| one.policy != *first) {
            return self.one_by_one(&request, understood).map_err(Box::new);
        }
        let placed = engine::admit_pod(&self.machine, &self.occupancy, &request, first).map_err(Box::new)?;
        Ok(placed.into_iter().map(|(_, placement)| placement).collect())
    }

    /// Containers under different policies, as a runtime shows them. Those that sit by the pod share the
    /// nodes that the first of them chooses for all of them.
    fn one_by_one(&self, pod: &PodRequest, understood: &[Understood]) -> Result<Vec<Placement>, Rejection> {
        let by_pod = |policy: &Policy| policy.scope == Scope::Pod && policy.topology != TopologyPolicy::None;
        let together = understood.iter().filter(|one| by_pod(&one.policy)).map(|one| one.request.clone());
        let together = PodRequest { containers: together.collect(), ..pod.clone() };
        let mut taken = self.occupancy.clone();
        let (mut seat, mut placements) = (None, Vec::new());
        for Understood { request, policy, .. } in understood {
            if by_pod(policy) && seat.is_none() {
                seat = Some(engine::choose_seat(&self.machine, &taken, &together, policy)?);
            }
            let seat = seat.as_ref().filter(|_| by_pod(policy));
            let placement = engine::admit_container(&self.machine, &taken, &pod.uid, request, seat, policy)?;
            taken.reserve(&self.machine, pod.key(request), request.kind, &placement);
            placements.push(placement);
        }
        Ok(placements)
    }

    fn told(&self, name: ContainerName, placement: Placement, memory_mode: Option<MemoryMode>) -> Seat {
        Seat { name, aligned: self.aligned(&placement), placement, memory_mode }
    }

    fn aligned(&self, placement: &Placement) -> Option<bool> {
        let mut devices =
            placement.devices.iter().flat_map(|(name, ids)| ids.iter().map(move |id| (name, id)));
        let known = devices.all(|(name, id)| self.device_nodes(name, id).is_some());
        (!takes_nothing(placement)).then(|| known && self.place(placement).len() == 1)
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
        let free = |device: &&engine::Device| {
            let held = self.occupancy.rivals(&self.machine, &resource, &device.id).next().is_some();
            !held && !self.machine.is_split(&device.id)
        };
        self.machine.devices(&resource).iter().filter(free).collect()
    }

    /// GPUs by the number people know them by, MIG devices by their GPU's and their own, NICs by their name.
    pub fn device_name(&self, resource: &str, id: &DeviceId) -> String {
        let named = self.topology.gpu_named(id.as_str()).filter(|_| GPUS.contains(&resource));
        match named.map(|named| (named.gpu.index, named.mig)) {
            Some((gpu, None)) => gpu.to_string(),
            Some((gpu, Some(mig))) => format!("{gpu}:{}", mig.index),
            None => id.to_string(),
        }
    }

    /// How the GPUs of a container are connected, as `nvidia-smi topo` writes it: `NV18`, `NV2-4`.
    pub fn links(&self, seat: &Seat) -> Option<String> {
        let gpus = [GPU, POOLED_GPU].iter().flat_map(|name| seat.placement.devices.get(&(*name).into()));
        let gpus: Vec<&DeviceId> = gpus.flatten().collect();
        match self.machine.nvlinks(&gpus)? {
            (0, 0) => Some("no NVLink".into()),
            (least, most) if least == most => Some(format!("NV{least}")),
            (least, most) => Some(format!("NV{least}-{most}")),
        }
    }
}

impl Seat {
    /// Its GPUs by id, in the order of their index.
    pub fn gpus(&self, topology: &Topology) -> Vec<String> {
        let mut ids = GPUS.map(|resource| self.devices(resource)).concat();
        let index = |id: &String| {
            topology.gpu_named(id).map(|named| (named.gpu.index, named.mig.map(|mig| mig.index)))
        };
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
