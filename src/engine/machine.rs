//! A topology prepared for deciding.

use super::error::MachineError;
use super::layout::Layout;
use super::links::Links;
use super::mask::Mask;
use crate::model::{
    Bytes, CpuSet, DeviceId, Gpu, HugepageSize, MemoryKind, NodeId, NodeSet, Placement, ResourceName,
    Topology,
};
use std::collections::{BTreeMap, BTreeSet};

/// The resource GPUs are counted under.
pub const GPU: &str = "nvidia.com/gpu";
/// The resource MIG devices are counted under, of whatever profile.
pub const MIG: &str = "nvidia.com/mig";
/// The resource RDMA NICs are counted under.
pub const NIC: &str = "nic";

/// The id a GPU is counted under: its UUID, or its PCI address where that is unknown.
#[must_use]
pub fn gpu_id(gpu: &Gpu) -> DeviceId {
    gpu.id()
}

/// What is kept for the system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reserve {
    /// CPUs; `None` is the first core with its siblings. Offline ones are ignored, ones that the machine
    /// can never have are not.
    pub cpus: Option<CpuSet>,
    /// Memory and hugepages by node.
    pub memory: BTreeMap<(NodeId, MemoryKind), Bytes>,
}

/// A device that containers can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its id.
    pub id: DeviceId,
    /// The nodes it is close to; `None` is unknown.
    pub nodes: Option<NodeSet>,
}

/// The devices of one resource.
#[derive(Debug, Clone, Default)]
pub(super) struct DeviceTable {
    pub(super) devices: Vec<Device>,
    /// Where each is close to; empty is unknown.
    pub(super) masks: Vec<Mask>,
}

/// A topology prepared for deciding, with what is reserved and its devices.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Online CPUs that pods can have.
    online: CpuSet,
    reserved: CpuSet,
    nodes: NodeSet,
    ids: Vec<NodeId>,
    homes: Vec<usize>,
    distances: Vec<Vec<u32>>,
    keep_shared_cpu: bool,
    placeable: CpuSet,
    /// The CPUs that can be given out, by node.
    cpus: Vec<CpuSet>,
    pub(super) layout: Layout,
    /// The dense node index of each of the layout's nodes.
    pub(super) cpu_nodes: Vec<usize>,
    /// The types of memory there are.
    pub(super) kinds: Vec<MemoryKind>,
    /// Bytes that can be promised, by node and type.
    pub(super) capacity: Vec<Vec<u64>>,
    pub(super) devices: BTreeMap<ResourceName, DeviceTable>,
    /// The node that is a device's own memory.
    pub(super) device_memory: BTreeMap<DeviceId, NodeId>,
    /// The GPU that each MIG device is a part of.
    pub(super) parts: BTreeMap<String, DeviceId>,
    /// Resources whose devices are another resource's.
    pub(super) families: BTreeMap<ResourceName, ResourceName>,
    pub(super) links: Links,
}

impl Machine {
    /// Prepares a topology. GPUs become the resource `nvidia.com/gpu` under their UUID (their PCI
    /// address where that is unknown), MIG devices `nvidia.com/mig` under theirs, RDMA NICs `nic` under
    /// their name. A GPU with MIG devices is not chosen as a whole.
    ///
    /// # Errors
    /// A machine without CPUs that can be placed or with too many nodes, reserved CPUs of which none is
    /// online, memory reserved on a node there is not.
    pub fn new(topology: &Topology, reserve: &Reserve) -> Result<Self, MachineError> {
        let topology = &in_order(topology);
        let layout = Layout::new(topology);
        let nodes = topology.node_ids();
        if layout.cpus.is_empty() {
            return Err(MachineError::NoCpus { online: topology.cpus.clone() });
        }
        if nodes.len() > Mask::LIMIT {
            return Err(MachineError::TooManyNodes { found: nodes.len() });
        }
        let (kinds, capacity) = capacities(topology, reserve)?;
        let position = |cpu| topology.numa_nodes.iter().position(|node| node.cpus.contains(cpu));
        let first = |members: &Vec<usize>| members.first().and_then(|cpu| position(layout.cpus[*cpu]));
        let online = match &topology.pods_cpus {
            Some(pods) => topology.cpus.intersection(pods),
            None => topology.cpus.clone(),
        };
        let cpu_nodes: Vec<usize> = layout.nodes.members.iter().filter_map(first).collect();
        let mut cpus = vec![CpuSet::new(); nodes.len()];
        for (node, members) in cpu_nodes.iter().zip(&layout.nodes.members) {
            cpus[*node].extend(members.iter().map(|cpu| layout.cpus[*cpu]));
        }
        let mut machine = Self {
            reserved: reserved(topology, &layout, reserve)?,
            ids: topology.numa_nodes.iter().map(|node| node.id).collect(),
            homes: homes(topology),
            distances: distances(topology),
            keep_shared_cpu: true,
            placeable: layout.cpus.iter().copied().collect::<CpuSet>().intersection(&online),
            online,
            cpus,
            cpu_nodes,
            layout,
            kinds,
            capacity,
            nodes,
            devices: BTreeMap::new(),
            device_memory: BTreeMap::new(),
            parts: BTreeMap::new(),
            families: BTreeMap::from([(MIG.into(), GPU.into())]),
            links: Links::new(topology),
        };
        machine.add_known_devices(topology);
        Ok(machine)
    }

    fn add_known_devices(&mut self, topology: &Topology) {
        let close = |node: Option<NodeId>| node.map(NodeSet::single);
        let gpus = topology.gpus.iter().map(|gpu| Device { id: gpu_id(gpu), nodes: close(gpu.numa_node) });
        let gpus = gpus.collect();
        let nics = topology.nics.iter();
        let nics = nics.map(|nic| Device { id: DeviceId::new(&*nic.name), nodes: close(nic.numa_node) });
        let nics = nics.collect();
        let on = |gpu: &Gpu| -> Vec<(DeviceId, Gpu)> {
            gpu.mig.iter().map(|mig| (DeviceId::new(&*mig.uuid), gpu.clone())).collect()
        };
        let parts: Vec<(DeviceId, Gpu)> = topology.gpus.iter().flat_map(on).collect();
        let mig = parts.iter().map(|(id, gpu)| Device { id: id.clone(), nodes: close(gpu.numa_node) });
        self.set_devices(MIG.into(), mig.collect());
        self.parts = parts.iter().map(|(id, gpu)| (id.to_string(), gpu.id())).collect();
        self.set_devices(GPU.into(), gpus);
        self.set_devices(NIC.into(), nics);
        let own = topology.gpus.iter().filter_map(|gpu| Some((gpu_id(gpu), gpu.memory_node?)));
        self.device_memory = own.collect();
    }

    /// Replaces the devices of a resource; their order is the order they are handed out in. A device of
    /// a node without CPUs is taken to be close to the nearest node that has some; nodes the machine
    /// does not have are left out, and a device with none left is of unknown locality.
    pub fn set_devices(&mut self, resource: ResourceName, devices: Vec<Device>) {
        let mask = |device: &Device| {
            let nodes = device.nodes.iter().flat_map(NodeSet::iter).filter_map(|node| self.index(node));
            nodes.map(|index| self.homes[index]).collect::<Mask>()
        };
        let masks = devices.iter().map(mask).collect();
        if devices.is_empty() {
            self.devices.remove(&resource);
        } else {
            self.devices.insert(resource, DeviceTable { devices, masks });
        }
    }

    /// Whether a placement that would leave no shared CPU is refused. It is, unless this is switched
    /// off: the kubelet's own rules do not ask for it.
    pub fn keep_shared_cpu(&mut self, keep: bool) {
        self.keep_shared_cpu = keep;
    }

    pub(super) fn keeps_shared_cpu(&self) -> bool {
        self.keep_shared_cpu
    }

    /// Online CPUs that pods can have: all, unless the cgroup of all pods has fewer.
    #[must_use]
    pub fn online(&self) -> &CpuSet {
        &self.online
    }

    /// CPUs kept for the system.
    #[must_use]
    pub fn reserved(&self) -> &CpuSet {
        &self.reserved
    }

    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> &NodeSet {
        &self.nodes
    }

    /// The CPUs of a node; empty where it has none.
    #[must_use]
    pub fn node_cpus(&self, node: NodeId) -> CpuSet {
        self.index(node).map_or_else(CpuSet::new, |index| self.cpus[index].clone())
    }

    /// The devices of a resource, in the order they are handed out.
    #[must_use]
    pub fn devices(&self, resource: &ResourceName) -> &[Device] {
        self.devices.get(resource).map_or(&[], |table| &table.devices)
    }

    /// The resources there are devices of.
    pub fn resources(&self) -> impl Iterator<Item = &ResourceName> {
        self.devices.keys()
    }

    /// The types of memory the machine has, ordinary memory first.
    pub fn memory_kinds(&self) -> impl Iterator<Item = MemoryKind> + '_ {
        self.kinds.iter().copied()
    }

    /// What containers may be promised of a node: its total less what is kept for the system and, for
    /// ordinary memory, less its hugepages. None of a type or node the machine does not have.
    #[must_use]
    pub fn allocatable(&self, node: NodeId, kind: MemoryKind) -> Bytes {
        let places = (self.index(node), self.kind(kind));
        Bytes(if let (Some(node), Some(kind)) = places { self.capacity[node][kind] } else { 0 })
    }

    pub(super) fn kind(&self, kind: MemoryKind) -> Option<usize> {
        self.kinds.iter().position(|other| *other == kind)
    }

    pub(super) fn all(&self) -> Mask {
        Mask::first(self.ids.len())
    }

    pub(super) fn index(&self, node: NodeId) -> Option<usize> {
        self.ids.iter().position(|id| *id == node)
    }

    pub(super) fn mask(&self, nodes: &NodeSet) -> Mask {
        nodes.iter().filter_map(|node| self.index(node)).collect()
    }

    pub(super) fn node_set(&self, mask: Mask) -> NodeSet {
        mask.iter().filter_map(|index| self.ids.get(index).copied()).collect()
    }

    /// Those of them whose node, socket and core are known.
    pub(super) fn placeable(&self) -> &CpuSet {
        &self.placeable
    }

    /// The CPUs that can be given out of the nodes.
    pub(super) fn cpus_of(&self, mask: Mask) -> CpuSet {
        mask.iter().fold(CpuSet::new(), |all, index| all.union(&self.cpus[index]))
    }

    /// How many CPUs of the set the node has.
    pub(super) fn count_on(&self, index: usize, set: &CpuSet) -> usize {
        self.cpus[index].common(set)
    }

    /// The sum of the distances between all ordered pairs of the nodes, each with itself included: for
    /// masks of one size it orders as the mean does.
    pub(super) fn spread(&self, mask: Mask) -> u64 {
        let pairs = mask.iter().flat_map(|from| mask.iter().map(move |to| (from, to)));
        pairs.map(|(from, to)| u64::from(self.distances[from][to])).sum()
    }
}

/// The topology with everything ordered by id: a snapshot's order is not to decide anything.
fn in_order(topology: &Topology) -> Topology {
    let mut topology = topology.clone();
    topology.numa_nodes.sort_by_key(|node| node.id);
    topology.packages.sort_by_key(|package| package.id);
    topology.cores.sort_by_key(|core| core.cpus.first());
    topology.llcs.sort_by_key(|cache| cache.cpus.first());
    topology
}

/// The nearest node with CPUs of each node: itself, where it has some.
fn homes(topology: &Topology) -> Vec<usize> {
    let nodes = &topology.numa_nodes;
    let nearest = |(index, node): (usize, &crate::model::NumaNode)| {
        if !node.cpus.is_empty() {
            return index;
        }
        let with_cpus = nodes.iter().enumerate().filter(|(_, other)| !other.cpus.is_empty());
        let distance = |id| node.distances.get(&id).copied().unwrap_or(u32::MAX);
        with_cpus.min_by_key(|(at, other)| (distance(other.id), *at)).map_or(index, |(at, _)| at)
    };
    nodes.iter().enumerate().map(nearest).collect()
}

/// The distance table. Where the kernel tells none, its own defaults: 10 to itself, 20 to others.
fn distances(topology: &Topology) -> Vec<Vec<u32>> {
    let ids = topology.node_ids();
    let row = |node: &crate::model::NumaNode| {
        let default = |to| if to == node.id { 10 } else { 20 };
        ids.iter().map(|to| node.distances.get(&to).copied().unwrap_or_else(|| default(to))).collect()
    };
    topology.numa_nodes.iter().map(row).collect()
}

fn reserved(topology: &Topology, layout: &Layout, reserve: &Reserve) -> Result<CpuSet, MachineError> {
    let online = topology.cpus.clone();
    let Some(wanted) = &reserve.cpus else {
        let first = layout.cores.members.first().into_iter().flatten();
        return Ok(first.map(|cpu| layout.cpus[*cpu]).collect());
    };
    if let Some(possible) = topology.possible.as_ref().filter(|possible| !wanted.is_subset(possible)) {
        let nowhere = wanted.difference(possible).difference(&online);
        if !nowhere.is_empty() {
            return Err(MachineError::ReservedNowhere {
                reserved: wanted.clone(),
                nowhere,
                possible: possible.clone(),
            });
        }
    }
    let reserved = wanted.intersection(&online);
    if reserved.is_empty() && !wanted.is_empty() {
        return Err(MachineError::ReservedOffline { reserved: wanted.clone(), online });
    }
    Ok(reserved)
}

/// The types of memory and what can be promised of each by node.
fn capacities(
    topology: &Topology,
    reserve: &Reserve,
) -> Result<(Vec<MemoryKind>, Vec<Vec<u64>>), MachineError> {
    if let Some((node, kind)) = reserve.memory.keys().find(|(node, _)| topology.node(*node).is_none()) {
        return Err(MachineError::NoSuchNode { node: *node, kind: *kind, nodes: topology.node_ids() });
    }
    let sizes: BTreeSet<HugepageSize> =
        topology.numa_nodes.iter().flat_map(|node| node.hugepages.keys().copied()).collect();
    let kinds: Vec<MemoryKind> =
        std::iter::once(MemoryKind::Memory).chain(sizes.into_iter().map(MemoryKind::Hugepages)).collect();
    // Memory that belongs to a device is the device's, not the containers' to be promised.
    let own: NodeSet = topology.gpus.iter().filter_map(|gpu| gpu.memory_node).collect();
    let row = |node: &crate::model::NumaNode| {
        let huge = |size: &HugepageSize| {
            node.hugepages.get(size).map_or(0, |pool| pool.total.saturating_mul(size.bytes()))
        };
        let total = |kind: &MemoryKind| match kind {
            MemoryKind::Memory if own.contains(node.id) => 0,
            MemoryKind::Memory => {
                node.memory_bytes.saturating_sub(node.hugepages.keys().map(huge).fold(0, u64::saturating_add))
            }
            MemoryKind::Hugepages(size) => huge(size),
        };
        let kept = |kind: &MemoryKind| reserve.memory.get(&(node.id, *kind)).map_or(0, |bytes| bytes.0);
        kinds.iter().map(|kind| total(kind).saturating_sub(kept(kind))).collect()
    };
    let capacity = topology.numa_nodes.iter().map(row).collect();
    Ok((kinds, capacity))
}

impl Machine {
    /// How many sockets the nodes reach into.
    pub(super) fn sockets(&self, mask: Mask) -> usize {
        let within = self.cpu_nodes.iter().enumerate().filter(|(_, node)| mask.has(**node));
        let members = within.flat_map(|(at, _)| &self.layout.nodes.members[at]);
        members.map(|cpu| self.layout.sockets.of[*cpu]).collect::<BTreeSet<_>>().len()
    }

    /// The nodes a placement's CPUs, memory and devices are on.
    #[must_use]
    pub fn used_by(&self, placement: &Placement) -> NodeSet {
        let on = |index: &usize| !self.cpus[*index].is_disjoint(&placement.cpus);
        let cpus: Mask = (0..self.cpus.len()).filter(on).collect();
        let devices = placement.devices.iter().flat_map(|(resource, ids)| {
            ids.iter().filter_map(move |id| self.place(resource, id)).filter(|mask| mask.count() == 1)
        });
        self.node_set(devices.fold(cpus, |all, mask| all | mask)).union(&placement.mems)
    }
}
