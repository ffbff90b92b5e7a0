//! From what is written to a machine that can be.

use super::SnapshotError;
use super::raw::{self, Numbers};
use crate::discover::parse;
use crate::model::{
    Core, CpuSet, Gpu, HugepagePool, HugepageSize, Id, Llc, Mig, Nic, NodeId, NumaNode, Package, PackageId,
    PciAddress, Topology,
};
use std::collections::BTreeMap;
use std::fmt::Display;

type Result<T> = std::result::Result<T, SnapshotError>;

pub(super) fn topology(raw: raw::Snapshot) -> Result<Topology> {
    let cpus = cpus("cpus".into(), &raw.cpus)?;
    if cpus.is_empty() {
        return Err(SnapshotError::NoCpus { place: "cpus".into() });
    }
    let isolated = self::cpus("isolated".into(), &raw.isolated)?;
    within("isolated".into(), &isolated, &cpus, || "cpus".into())?;
    let packages = packages(&raw.packages, &cpus)?;
    let cores = cores(&raw.cores, &cpus, &packages)?;
    let llcs = llcs(&raw.llcs, &cpus)?;
    let numa_nodes = nodes(&raw.numa_nodes, &cpus)?;
    let gpus = gpus(raw.gpus, &numa_nodes)?;
    let nics = nics(raw.nics, &numa_nodes)?;
    Ok(Topology { cpus, isolated, packages, numa_nodes, cores, llcs, gpus, nics, ..Topology::default() })
}

fn cpus(place: String, text: &str) -> Result<CpuSet> {
    text.parse().map_err(|source| SnapshotError::List { place, source })
}

fn within(place: String, cpus: &CpuSet, whole: &CpuSet, name: impl FnOnce() -> String) -> Result<()> {
    let outside = cpus.difference(whole);
    match outside.is_empty() {
        true => Ok(()),
        false => Err(SnapshotError::NotWithin { place, cpus: outside, whole: name() }),
    }
}

/// Online CPU lists of one kind of thing, of which no two may share a CPU.
struct Disjoint<'o> {
    kind: &'static str,
    online: &'o CpuSet,
    seen: Vec<CpuSet>,
}

impl<'o> Disjoint<'o> {
    fn new(kind: &'static str, online: &'o CpuSet) -> Self {
        Self { kind, online, seen: Vec::new() }
    }

    fn place(&self, at: usize) -> String {
        format!("{}[{at}].cpus", self.kind)
    }

    /// The next list of this kind.
    fn next(&mut self, text: &str) -> Result<CpuSet> {
        let place = self.place(self.seen.len());
        let cpus = cpus(place.clone(), text)?;
        within(place.clone(), &cpus, self.online, || "cpus".into())?;
        if let Some(at) = self.seen.iter().position(|other| !other.is_disjoint(&cpus)) {
            let cpus = cpus.intersection(&self.seen[at]);
            return Err(SnapshotError::Twice { place, cpus, other: self.place(at) });
        }
        self.seen.push(cpus.clone());
        Ok(cpus)
    }

    /// The next list, which may not be empty.
    fn next_filled(&mut self, text: &str) -> Result<CpuSet> {
        let cpus = self.next(text)?;
        match cpus.is_empty() {
            true => Err(SnapshotError::NoCpus { place: self.place(self.seen.len() - 1) }),
            false => Ok(cpus),
        }
    }

    /// Every online CPU must be in one of the lists.
    fn complete(&self) -> Result<()> {
        let all = self.seen.iter().fold(CpuSet::new(), |all, cpus| all.union(cpus));
        let cpus = self.online.difference(&all);
        match cpus.is_empty() {
            true => Ok(()),
            false => Err(SnapshotError::Nowhere { place: self.kind, cpus }),
        }
    }
}

/// Values of one kind, none of which may come twice.
struct Once<K> {
    seen: BTreeMap<K, String>,
}

impl<K: Ord + Display> Once<K> {
    fn new() -> Self {
        Self { seen: BTreeMap::new() }
    }

    fn take(&mut self, place: String, value: K) -> Result<()> {
        if let Some(other) = self.seen.get(&value) {
            return Err(SnapshotError::Duplicate { place, value: value.to_string(), other: other.clone() });
        }
        self.seen.insert(value, place);
        Ok(())
    }
}

fn impossible(place: String, found: impl Display, expected: impl Display) -> SnapshotError {
    SnapshotError::Value { place, found: found.to_string(), expected: expected.to_string() }
}

fn packages(raw: &[raw::Package], online: &CpuSet) -> Result<Vec<Package>> {
    let (mut lists, mut ids) = (Disjoint::new("packages", online), Once::new());
    let mut packages = Vec::new();
    for (at, package) in raw.iter().enumerate() {
        ids.take(format!("packages[{at}].id"), package.id)?;
        packages.push(Package { id: PackageId(package.id), cpus: lists.next_filled(&package.cpus)? });
    }
    lists.complete()?;
    packages.sort_by_key(|package| package.id);
    Ok(packages)
}

fn cores(raw: &[raw::Core], online: &CpuSet, packages: &[Package]) -> Result<Vec<Core>> {
    let mut lists = Disjoint::new("cores", online);
    let mut cores = Vec::new();
    for (at, core) in raw.iter().enumerate() {
        let id = PackageId(core.package);
        let package = packages.iter().find(|package| package.id == id);
        let unknown = || impossible(format!("cores[{at}].package"), id, "the id of one of packages");
        let package = package.ok_or_else(unknown)?;
        let cpus = lists.next_filled(&core.cpus)?;
        within(lists.place(at), &cpus, &package.cpus, || format!("package {id}"))?;
        cores.push(Core { package: id, cpus });
    }
    lists.complete()?;
    cores.sort_by_key(|core| core.cpus.first());
    Ok(cores)
}

fn llcs(raw: &[raw::Llc], online: &CpuSet) -> Result<Vec<Llc>> {
    let mut lists = Disjoint::new("llcs", online);
    let llcs =
        raw.iter().map(|llc| Ok(Llc { cpus: lists.next_filled(&llc.cpus)?, size_bytes: llc.size_bytes }));
    let mut llcs = llcs.collect::<Result<Vec<_>>>()?;
    llcs.sort_by_key(|llc| llc.cpus.first());
    Ok(llcs)
}

fn nodes(raw: &[raw::Node], online: &CpuSet) -> Result<Vec<NumaNode>> {
    let (mut lists, mut ids) = (Disjoint::new("numa_nodes", online), Once::new());
    let mut nodes = Vec::new();
    for (at, node) in raw.iter().enumerate() {
        let place = |key: &str| format!("numa_nodes[{at}].{key}");
        if node.id >= NodeId::LIMIT {
            return Err(impossible(place("id"), node.id, format!("a number below {}", NodeId::LIMIT)));
        }
        ids.take(place("id"), node.id)?;
        nodes.push(NumaNode {
            id: NodeId(node.id),
            cpus: lists.next(&node.cpus)?,
            memory_bytes: node.memory_bytes,
            hugepages: hugepages(&place("hugepages"), &node.hugepages)?,
            distances: BTreeMap::new(),
        });
        let kind: raw::Kind = nodes[at].kind().into();
        if kind != node.kind {
            let expected = format!("{kind}, as its cpus and memory_bytes say");
            return Err(impossible(place("kind"), node.kind, expected));
        }
    }
    lists.complete()?;
    let ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
    for (at, node) in raw.iter().enumerate() {
        nodes[at].distances = distances(&format!("numa_nodes[{at}].distances"), &node.distances, &ids)?;
    }
    nodes.sort_by_key(|node| node.id);
    Ok(nodes)
}

fn hugepages(place: &str, raw: &[raw::Hugepages]) -> Result<BTreeMap<HugepageSize, HugepagePool>> {
    let (mut pools, mut sizes) = (BTreeMap::new(), Once::new());
    for (at, pool) in raw.iter().enumerate() {
        let place = |key: &str| format!("{place}[{at}].{key}");
        let expected = "a power of two from 1024 up";
        let size = HugepageSize::from_bytes(pool.size_bytes)
            .ok_or_else(|| impossible(place("size_bytes"), pool.size_bytes, expected))?;
        sizes.take(place("size_bytes"), pool.size_bytes)?;
        if pool.free > pool.total {
            return Err(impossible(place("free"), pool.free, format!("no more than total, {}", pool.total)));
        }
        pools.insert(size, HugepagePool { total: pool.total, free: pool.free });
    }
    Ok(pools)
}

/// A row of distances: none (a kernel that does not tell), or one to each node.
fn distances(place: &str, raw: &Numbers, nodes: &[NodeId]) -> Result<BTreeMap<NodeId, u32>> {
    let known = |key: u32| nodes.contains(&NodeId(key));
    let row = keyed(place, raw, known, "the id of one of numa_nodes")?;
    if let Some(missing) = nodes.iter().find(|node| !row.contains_key(&node.0))
        && !row.is_empty()
    {
        let found = format!("{} distances", row.len());
        return Err(impossible(place.into(), found, format!("one to each node, also to node {missing}")));
    }
    Ok(row.into_iter().map(|(node, distance)| (NodeId(node), distance)).collect())
}

/// A map whose keys are numbers of things that exist, each once.
fn keyed<V: Copy>(
    place: &str,
    raw: &Numbers<V>,
    known: impl Fn(u32) -> bool,
    expected: &str,
) -> Result<BTreeMap<u32, V>> {
    let (mut map, mut keys) = (BTreeMap::new(), Once::new());
    for (key, value) in &raw.0 {
        let number = parse::digits(key).filter(|number| known(*number));
        let number = number.ok_or_else(|| impossible(place.into(), format!("the key {key:?}"), expected))?;
        keys.take(place.into(), number)?;
        map.insert(number, *value);
    }
    Ok(map)
}

fn node_of(place: String, node: Option<u32>, nodes: &[NumaNode]) -> Result<Option<NodeId>> {
    match node.map(NodeId) {
        Some(node) if nodes.iter().all(|known| known.id != node) => {
            Err(impossible(place, node, "null or the id of one of numa_nodes"))
        }
        node => Ok(node),
    }
}

fn address(place: String, text: &str) -> Result<PciAddress> {
    text.parse().map_err(|source| SnapshotError::Pci { place, source })
}

fn gpus(raw: Vec<raw::Gpu>, nodes: &[NumaNode]) -> Result<Vec<Gpu>> {
    let mut by_index = Once::new();
    for (at, gpu) in raw.iter().enumerate() {
        by_index.take(format!("gpus[{at}].index"), gpu.index)?;
    }
    let (mut by_uuid, mut by_pci, mut by_minor) = (Once::new(), Once::new(), Once::new());
    let another = "the index of another GPU";
    let mut gpus = Vec::new();
    for (at, gpu) in raw.into_iter().enumerate() {
        let place = |key: &str| format!("gpus[{at}].{key}");
        let pci = address(place("pci"), &gpu.pci)?;
        by_pci.take(place("pci"), pci)?;
        gpu.minor.map_or(Ok(()), |minor| by_minor.take(place("minor"), minor))?;
        gpu.uuid.clone().map_or(Ok(()), |uuid| by_uuid.take(place("uuid"), uuid))?;
        let mig = mig(&place("mig"), gpu.mig, &mut by_uuid)?;
        let other = |index: u32| index != gpu.index && by_index.seen.contains_key(&index);
        gpus.push(Gpu {
            index: gpu.index,
            uuid: gpu.uuid,
            pci,
            minor: gpu.minor,
            model: gpu.model,
            numa_node: node_of(place("numa_node"), gpu.numa_node, nodes)?,
            memory_node: node_of(place("memory_node"), gpu.memory_node, nodes)?,
            nvlinks: keyed(&place("nvlinks"), &gpu.nvlinks, other, another)?,
            switch_links: gpu.switch_links,
            near: keyed(&place("near"), &gpu.near, other, another)?
                .into_iter()
                .map(|(index, distance)| (index, distance.into()))
                .collect(),
            mig,
        });
    }
    gpus.sort_by_key(|gpu| gpu.index);
    Ok(gpus)
}

fn mig(place: &str, raw: Vec<raw::Mig>, by_uuid: &mut Once<String>) -> Result<Vec<Mig>> {
    let mut by_index = Once::new();
    let mut parts = Vec::new();
    for (at, mig) in raw.into_iter().enumerate() {
        by_index.take(format!("{place}[{at}].index"), mig.index)?;
        by_uuid.take(format!("{place}[{at}].uuid"), mig.uuid.clone())?;
        parts.push(Mig { index: mig.index, uuid: mig.uuid, instance: mig.instance });
    }
    parts.sort();
    Ok(parts)
}

fn nics(raw: Vec<raw::Nic>, nodes: &[NumaNode]) -> Result<Vec<Nic>> {
    let mut names = Once::new();
    let mut nics = Vec::new();
    for (at, nic) in raw.into_iter().enumerate() {
        let place = |key: &str| format!("nics[{at}].{key}");
        names.take(place("name"), nic.name.clone())?;
        let pci = nic.pci.map(|pci| address(place("pci"), &pci)).transpose()?;
        let numa_node = node_of(place("numa_node"), nic.numa_node, nodes)?;
        nics.push(Nic { name: nic.name, pci, numa_node, uverbs: Vec::new() });
    }
    nics.sort_by_cached_key(|nic| parse::natural(&nic.name));
    Ok(nics)
}
