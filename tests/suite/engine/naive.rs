//! The kubelet's way, for comparison: every node set is listed, every combination of one set per resource
//! is tried. It shares nothing with the engine but the model's words: it keeps its own books of what is
//! held, from the topology and the placements alone. Machines of a few nodes only; the bench uses it too.

use maitred::model::*;
use std::collections::{BTreeMap, BTreeSet};

/// A node set, one bit a node by position.
pub type Bits = u32;
/// A node set and whether it is preferred; no set is no preference.
type Hint = (Option<Bits>, bool);
/// A device and the nodes it is close to; none is unknown.
pub type Place = (DeviceId, NodeSet);

/// A machine and what is held of it.
#[derive(Debug, Clone)]
pub struct Naive {
    pub topology: Topology,
    pub reserved: CpuSet,
    pub devices: BTreeMap<ResourceName, Vec<(DeviceId, Bits)>>,
    held: Vec<Held>,
}

#[derive(Debug, Clone)]
struct Held {
    pod: PodUid,
    kind: ContainerKind,
    placement: Placement,
    /// Its promises, less what later containers of its pod took over.
    blocks: Vec<(Bits, MemoryKind, u64)>,
}

/// Where a container or a pod is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aligned {
    pub nodes: Option<Bits>,
    pub preferred: bool,
}

/// What is to be seated together.
#[derive(Debug, Clone, Default)]
pub struct Sum {
    pub cpus: u64,
    pub memory: BTreeMap<MemoryKind, u64>,
    pub devices: BTreeMap<ResourceName, usize>,
}

fn sum(mask: Bits, amount: impl Fn(usize) -> u64) -> u64 {
    (0..32).filter(|node| mask >> node & 1 == 1).map(|node| amount(node as usize)).sum()
}

impl Sum {
    /// What one container needs.
    pub fn of(request: &ContainerRequest, policy: &Policy) -> Self {
        let mut sum = Self { cpus: request.exclusive_cpus().unwrap_or(0).into(), ..Self::default() };
        if policy.memory == MemoryManager::Static && request.qos == Qos::Guaranteed {
            let pages = request.hugepages.iter().map(|(size, bytes)| (MemoryKind::Hugepages(*size), bytes.0));
            let all = pages.chain([(MemoryKind::Memory, request.memory.0)]);
            sum.memory = all.filter(|(_, bytes)| *bytes > 0).collect();
        }
        for (resource, devices) in &request.devices {
            let DeviceRequest::Count(count) = devices else { panic!("only counts are compared") };
            sum.devices.insert(resource.clone(), *count as usize);
        }
        sum.devices.retain(|_, count| *count > 0);
        sum
    }

    /// What a pod needs at its peak.
    pub fn of_pod(containers: &[ContainerRequest], policy: &Policy) -> Self {
        let (mut peak, mut lasting, mut app_kinds) = (Self::default(), Self::default(), BTreeSet::new());
        for request in containers {
            let one = Self::of(request, policy);
            match request.kind {
                ContainerKind::Init => peak = peak.with(&lasting.clone().with(&one, |a, b| a + b), u64::max),
                _ => lasting = lasting.with(&one, |a, b| a + b),
            }
            if matches!(request.kind, ContainerKind::App | ContainerKind::Unknown) {
                app_kinds.extend(one.memory.into_keys());
            }
        }
        let mut whole = peak.with(&lasting, u64::max);
        // The kubelet sums the types of memory of app containers alone.
        whole.memory.retain(|kind, _| app_kinds.contains(kind));
        whole
    }

    fn with(mut self, other: &Self, op: fn(u64, u64) -> u64) -> Self {
        self.cpus = op(self.cpus, other.cpus);
        for (kind, bytes) in &other.memory {
            let own = self.memory.entry(*kind).or_default();
            *own = op(*own, *bytes);
        }
        for (resource, count) in &other.devices {
            let own = self.devices.entry(resource.clone()).or_default();
            *own = op(*own as u64, *count as u64) as usize;
        }
        self
    }
}

impl Naive {
    /// A machine nothing is held of. Nodes in the order of their numbers.
    pub fn new(mut topology: Topology, reserved: CpuSet, devices: &[(ResourceName, Vec<Place>)]) -> Self {
        topology.numa_nodes.sort_by_key(|node| node.id);
        let mut naive = Self { topology, reserved, devices: BTreeMap::new(), held: Vec::new() };
        for (resource, places) in devices {
            let place = |(id, nodes): &Place| (id.clone(), naive.homes(nodes));
            let all: Vec<_> = places.iter().map(place).collect();
            if !all.is_empty() {
                naive.devices.insert(resource.clone(), all);
            }
        }
        naive
    }

    /// Books a placement; what the pod's init containers have on the same nodes is used again.
    pub fn book(&mut self, pod: &PodUid, kind: ContainerKind, placement: &Placement) {
        let blocks = placement.memory.iter().map(|one| (self.bits(&one.nodes), one.kind, one.bytes.0));
        let blocks: Vec<_> = blocks.collect();
        for (nodes, memory, bytes) in &blocks {
            let mut rest = *bytes;
            let inits =
                self.held.iter_mut().filter(|held| held.pod == *pod && held.kind == ContainerKind::Init);
            for own in
                inits.flat_map(|held| &mut held.blocks).filter(|own| (own.0, own.1) == (*nodes, *memory))
            {
                let taken = rest.min(own.2);
                own.2 -= taken;
                rest -= taken;
            }
        }
        self.held.push(Held { pod: pod.clone(), kind, placement: placement.clone(), blocks });
    }

    /// Forgets a pod.
    pub fn release(&mut self, pod: &PodUid) {
        self.held.retain(|held| held.pod != *pod);
    }

    pub fn nodes(&self) -> usize {
        self.topology.numa_nodes.len()
    }

    pub fn all(&self) -> Bits {
        (1 << self.nodes()) - 1
    }

    pub fn masks(&self) -> impl Iterator<Item = Bits> + use<> {
        1..=self.all()
    }

    pub fn bits(&self, nodes: &NodeSet) -> Bits {
        let at = |id| self.topology.numa_nodes.iter().position(|node| node.id == id).expect("a node");
        nodes.iter().map(|id| 1 << at(id)).sum()
    }

    /// The nodes with CPUs that serve a device: the nearest ones of nodes that have none.
    fn homes(&self, nodes: &NodeSet) -> Bits {
        let home = |id: NodeId| {
            let node = self.topology.node(id).expect("a node");
            let others = self.topology.numa_nodes.iter().filter(|other| !other.cpus.is_empty());
            let nearest = others.min_by_key(|other| (node.distances[&other.id], other.id)).expect("CPUs");
            if node.cpus.is_empty() { nearest.id } else { id }
        };
        nodes.iter().map(home).map(|id| self.bits(&NodeSet::single(id))).fold(0, |all, bit| all | bit)
    }

    pub fn held_cpus(&self) -> CpuSet {
        self.held.iter().fold(CpuSet::new(), |all, held| all.union(&held.placement.cpus))
    }

    /// Neither held nor reserved.
    pub fn free_cpus(&self) -> CpuSet {
        self.topology.cpus.difference(&self.held_cpus()).difference(&self.reserved)
    }

    /// What the pod's ended init containers leave to it, of what `of` reads off a placement.
    fn reusable<T: Ord + Clone>(&self, pod: &PodUid, of: impl Fn(&Placement) -> BTreeSet<T>) -> BTreeSet<T> {
        let own = |init: bool| {
            let own = self.held.iter().filter(move |held| held.pod == *pod);
            own.filter(move |held| (held.kind == ContainerKind::Init) == init)
        };
        let inits: BTreeSet<T> = own(true).flat_map(|held| of(&held.placement)).collect();
        let later: BTreeSet<T> = own(false).flat_map(|held| of(&held.placement)).collect();
        inits.difference(&later).cloned().collect()
    }

    pub fn reusable_cpus(&self, pod: &PodUid) -> CpuSet {
        self.reusable(pod, |placement| placement.cpus.iter().collect()).into_iter().collect()
    }

    fn reusable_devices(&self, pod: &PodUid, resource: &ResourceName) -> BTreeSet<DeviceId> {
        self.reusable(pod, |placement| placement.devices.get(resource).cloned().unwrap_or_default())
    }

    pub fn node_cpus(&self, at: usize) -> &CpuSet {
        &self.topology.numa_nodes[at].cpus
    }

    /// What can be promised of a node: of memory what its pages leave.
    fn capacity(&self, at: usize, kind: MemoryKind) -> u64 {
        let node = &self.topology.numa_nodes[at];
        let pages =
            |size: &HugepageSize| node.hugepages.get(size).map_or(0, |pool| pool.total * size.bytes());
        match kind {
            MemoryKind::Hugepages(size) => pages(&size),
            MemoryKind::Memory => node.memory_bytes - node.hugepages.keys().map(pages).sum::<u64>(),
        }
    }

    pub fn capacity_of(&self, mask: Bits, kind: MemoryKind) -> u64 {
        sum(mask, |at| self.capacity(at, kind))
    }

    /// What is promised fills its nodes in ascending order.
    fn free_memory(&self, at: usize, kind: MemoryKind) -> u64 {
        let mut free: Vec<u64> = (0..self.nodes()).map(|node| self.capacity(node, kind)).collect();
        for (nodes, _, bytes) in self.held.iter().flat_map(|held| &held.blocks).filter(|one| one.1 == kind) {
            let mut rest = *bytes;
            for node in (0..self.nodes()).filter(|node| nodes >> node & 1 == 1) {
                let taken = rest.min(free[node]);
                free[node] -= taken;
                rest -= taken;
            }
        }
        free[at]
    }

    fn promised(&self) -> impl Iterator<Item = Bits> + '_ {
        self.held.iter().flat_map(|held| held.blocks.iter().map(|block| block.0))
    }

    /// Memory of one node and memory of several are never mixed on a node.
    pub fn may_promise(&self, mask: Bits) -> bool {
        self.promised().all(|set| {
            let singles = mask.count_ones() == 1 && set.count_ones() == 1;
            singles || set & mask == 0 || set == mask
        })
    }

    /// Hints from a test of what is free and one of what there is.
    fn hints(&self, inside: Bits, free: impl Fn(Bits) -> bool, ever: impl Fn(Bits) -> bool) -> Vec<Hint> {
        let masks = || self.masks().filter(|mask| mask & !inside == 0);
        let sizes = masks().filter(|mask| ever(*mask)).map(u32::count_ones);
        let least = sizes.min().unwrap_or(inside.count_ones());
        masks().filter(|mask| free(*mask)).map(|mask| (Some(mask), mask.count_ones() == least)).collect()
    }

    fn cpu_hints(&self, pod: &PodUid, need: u64, policy: &Policy) -> Vec<Hint> {
        let own = self.reusable_cpus(pod);
        let free = self.free_cpus().union(&own);
        let with_cpus = (0..self.nodes()).filter(|at| !self.node_cpus(*at).is_empty());
        let inside: Bits = with_cpus.map(|at| 1 << at).sum();
        let on = |set: &CpuSet, mask| sum(mask, |at| self.node_cpus(at).intersection(set).len() as u64);
        let ever = |mask| on(&self.topology.cpus, mask) >= need;
        let mut hints =
            self.hints(inside, |mask| on(&free, mask) >= need && on(&own, mask) == own.len() as u64, ever);
        if policy.cpu.has(CpuOption::AlignBySocket) {
            let sizes = self.masks().filter(|mask| mask & !inside == 0 && ever(*mask)).map(u32::count_ones);
            let nodes = sizes.min().unwrap_or(inside.count_ones());
            let sockets = self.topology.packages.len() as u32;
            let fewest = nodes.div_ceil((inside.count_ones() / sockets).max(1));
            hints.iter_mut().for_each(|(mask, preferred)| *preferred |= self.sockets(*mask) == fewest);
        }
        hints
    }

    /// How many sockets the nodes reach into.
    fn sockets(&self, mask: Option<Bits>) -> u32 {
        let nodes = (0..self.nodes()).filter(|at| mask.is_some_and(|mask| mask >> at & 1 == 1));
        let cpus = nodes.fold(CpuSet::new(), |all, at| all.union(self.node_cpus(at)));
        let met = self.topology.packages.iter().filter(|socket| !socket.cpus.is_disjoint(&cpus));
        met.count() as u32
    }

    pub fn holds(&self, memory: &BTreeMap<MemoryKind, u64>, mask: Bits, own: &PodUid, reuse: bool) -> bool {
        memory.iter().all(|(kind, need)| {
            let inits = self.held.iter().filter(|held| held.pod == *own && held.kind == ContainerKind::Init);
            let blocks =
                inits.flat_map(|held| &held.blocks).filter(|block| (block.0, block.1) == (mask, *kind));
            let reusable: u64 = if reuse { blocks.map(|block| block.2).sum() } else { 0 };
            sum(mask, |at| self.free_memory(at, *kind)) + reusable >= *need
        })
    }

    fn memory_hints(&self, pod: &PodUid, memory: &BTreeMap<MemoryKind, u64>) -> Vec<Hint> {
        let ever = |mask| memory.iter().all(|(kind, need)| self.capacity_of(mask, *kind) >= *need);
        let free = |mask| self.may_promise(mask) && self.holds(memory, mask, pod, true);
        self.hints(self.all(), free, ever)
    }

    /// Devices nobody else holds.
    pub fn free_devices(&self, pod: &PodUid, resource: &ResourceName) -> Vec<Bits> {
        let own = self.reusable_devices(pod, resource);
        let of = |held: &Held| held.placement.devices.get(resource).cloned().unwrap_or_default();
        let held: BTreeSet<DeviceId> = self.held.iter().flat_map(of).collect();
        let all = self.devices.get(resource).into_iter().flatten();
        all.filter(|(id, _)| own.contains(id) || !held.contains(id)).map(|(_, mask)| *mask).collect()
    }

    /// `None`: no device of the resource is known to be anywhere.
    fn device_hints(&self, pod: &PodUid, resource: &ResourceName, need: usize) -> Option<Vec<Hint>> {
        let table = self.devices.get(resource)?;
        let inside = table.iter().fold(0, |all, (_, mask)| all | mask);
        let free = self.free_devices(pod, resource);
        let own = self.reusable_devices(pod, resource);
        let own: Vec<Bits> =
            table.iter().filter(|(id, bits)| own.contains(id) && *bits != 0).map(|d| d.1).collect();
        let meets = |mask: Bits, all: &[Bits]| all.iter().filter(|bits| *bits & mask != 0).count();
        let every: Vec<Bits> = table.iter().map(|(_, mask)| *mask).collect();
        (inside != 0).then(|| {
            self.hints(
                inside,
                |mask| meets(mask, &free) >= need && meets(mask, &own) == own.len(),
                |mask| meets(mask, &every) >= need,
            )
        })
    }

    /// The nodes for everything; `None` where the policy does not admit.
    pub fn align(&self, pod: &PodUid, need: &Sum, policy: &Policy) -> Option<Aligned> {
        if policy.topology == TopologyPolicy::None {
            return Some(Aligned { nodes: None, preferred: false });
        }
        if !self.locality_known(pod, need, policy) {
            return None;
        }
        let mut resources = Vec::new();
        if need.cpus > 0 {
            resources.push(self.cpu_hints(pod, need.cpus, policy));
        }
        if !need.memory.is_empty() {
            // Nothing that fits, which the kubelet takes for no preference.
            resources.extend(Some(self.memory_hints(pod, &need.memory)).filter(|all| !all.is_empty()));
        }
        let devices = need.devices.iter();
        resources.extend(devices.filter_map(|(name, count)| self.device_hints(pod, name, *count)));
        self.decide(policy, resources)
    }

    pub fn locality_known(&self, pod: &PodUid, need: &Sum, policy: &Policy) -> bool {
        if !strict(policy) || policy.unknown_locality == UnknownLocality::Ignore || self.nodes() < 2 {
            return true;
        }
        need.devices.iter().all(|(resource, count)| {
            let free = self.free_devices(pod, resource);
            let known = free.iter().filter(|mask| **mask != 0).count();
            known >= *count || known == free.len()
        })
    }

    fn decide(&self, policy: &Policy, mut resources: Vec<Vec<Hint>>) -> Option<Aligned> {
        let single = policy.topology == TopologyPolicy::SingleNumaNode;
        for hints in &mut resources {
            if hints.is_empty() {
                hints.push((None, false));
            }
            if single {
                hints.retain(|(set, preferred)| *preferred && set.is_none_or(|set| set.count_ones() == 1));
            }
        }
        let narrowest = |hints: &Vec<Hint>| hints.iter().filter_map(|hint| hint.0).map(u32::count_ones).min();
        let aim = resources.iter().filter_map(narrowest).max().unwrap_or(0);
        let closest = policy.prefer_closest && !single;
        let rank = |(mask, preferred): (Bits, bool)| {
            let size = mask.count_ones();
            let near = match (preferred, size <= aim) {
                (true, _) => (0, size),
                (false, true) => (1, aim - size),
                (false, false) => (2, size),
            };
            (near, if closest { self.spread(mask) } else { 0 }, mask)
        };
        let mut best: Option<(Bits, bool)> = None;
        combine(&resources, &mut Vec::new(), &mut |chosen| {
            let one = merged(self.all(), chosen);
            if one.0 != 0 && best.is_none_or(|best| rank(one) < rank(best)) {
                best = Some(one);
            }
        });
        let (mask, preferred) = best.unwrap_or((self.all(), false));
        let nodes = (!single || mask != self.all()).then_some(mask);
        (preferred || policy.topology == TopologyPolicy::BestEffort).then_some(Aligned { nodes, preferred })
    }

    fn spread(&self, mask: Bits) -> u64 {
        let nodes = || self.topology.numa_nodes.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1);
        nodes().flat_map(|(_, a)| nodes().map(|(_, b)| u64::from(a.distances[&b.id]))).sum()
    }
}

pub fn strict(policy: &Policy) -> bool {
    matches!(policy.topology, TopologyPolicy::Restricted | TopologyPolicy::SingleNumaNode)
}

/// Calls `visit` with every combination of one hint a resource.
fn combine(resources: &[Vec<Hint>], chosen: &mut Vec<Hint>, visit: &mut dyn FnMut(&[Hint])) {
    let Some(hints) = resources.get(chosen.len()) else { return visit(chosen) };
    for hint in hints {
        chosen.push(*hint);
        combine(resources, chosen, visit);
        chosen.pop();
    }
}

fn merged(all: Bits, chosen: &[Hint]) -> (Bits, bool) {
    let mut sets = chosen.iter().filter_map(|hint| hint.0);
    let equal = sets.clone().all(|set| sets.clone().next() == Some(set));
    (sets.by_ref().fold(all, |mask, set| mask & set), equal && chosen.iter().all(|hint| hint.1))
}
