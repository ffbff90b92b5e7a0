//! Machines of any shape, and who sits on them.

use maitred::cli::picture::{Books, Note, Party, Picture, Seat};
use maitred::model::{
    Bytes, Core, CpuId, CpuSet, Gpu, HugepagePool, HugepageSize, Llc, MemoryBlock, MemoryKind, Nic, NodeId,
    NumaNode, Package, PackageId, Topology,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What a machine is made of.
#[derive(Debug, Clone)]
pub struct Shape {
    pub packages: u32,
    /// Of one package.
    pub nodes: u32,
    /// Of one node.
    pub cores: u32,
    pub threads: u32,
    /// Cores that share a cache; 0 is no cache.
    pub cache: u32,
    /// Nodes of memory alone.
    pub memory: u32,
    /// By node; past the last one is unknown.
    pub gpus: Vec<u32>,
    pub links: u32,
    pub switched: bool,
    pub nics: Vec<u32>,
    pub pages: u64,
}

pub fn shapes() -> impl Strategy<Value = Shape> {
    let sizes = (1..4u32, 1..5u32, 1..9u32, 1..5u32, 0..5u32, 0..4u32);
    let devices = (
        proptest::collection::vec(0..14u32, 0..9),
        0..19u32,
        any::<bool>(),
        proptest::collection::vec(0..14u32, 0..5),
        0..9u64,
    );
    (sizes, devices).prop_map(|(sizes, devices)| {
        let (packages, nodes, cores, threads, cache, memory) = sizes;
        let (gpus, links, switched, nics, pages) = devices;
        Shape { packages, nodes, cores, threads, cache, memory, gpus, links, switched, nics, pages }
    })
}

pub fn machine(shape: &Shape) -> Topology {
    let nodes = shape.packages * shape.nodes;
    let all = nodes * shape.cores;
    let core =
        |core: u32| -> CpuSet { (0..shape.threads).map(|thread| CpuId(core + thread * all)).collect() };
    let cores = |range: std::ops::Range<u32>| range.fold(CpuSet::new(), |cpus, one| cpus.union(&core(one)));
    let of_node = |node: u32| cores(node * shape.cores..(node + 1) * shape.cores);
    let known = |node: &u32| Some(NodeId(*node)).filter(|_| *node < nodes + shape.memory);
    let node = |id: u32| NumaNode {
        id: NodeId(id),
        cpus: if id < nodes { of_node(id) } else { CpuSet::new() },
        memory_bytes: u64::from(id % 3) << 34,
        hugepages: BTreeMap::from([(
            HugepageSize::GIB1,
            HugepagePool { total: shape.pages, free: shape.pages / 2 },
        )]),
        distances: (0..nodes + shape.memory).map(|to| (NodeId(to), 10 + 10 * u32::from(to != id))).collect(),
    };
    let per_package = shape.nodes * shape.cores;
    let mut caches = Vec::new();
    for first in (0..all).step_by(shape.cache.max(1) as usize).filter(|_| shape.cache > 0) {
        caches.push(Llc { cpus: cores(first..(first + shape.cache).min(all)), size_bytes: Some(32 << 20) });
    }
    let gpus = shape.gpus.iter().enumerate().map(|(index, node)| {
        let others = (0..shape.gpus.len() as u32).filter(|other| *other != index as u32);
        Gpu {
            index: index as u32,
            uuid: Some(format!("GPU-{index}")),
            pci: format!("0000:{:02x}:00.0", index + 1).parse().unwrap(),
            minor: None,
            model: Some("NVIDIA \"H100\" <80GB>".into()),
            numa_node: known(node),
            memory_node: known(node).filter(|node| node.0 >= nodes),
            nvlinks: others
                .filter(|other| !(other + index as u32).is_multiple_of(3))
                .map(|other| (other, shape.links))
                .collect(),
            switch_links: if shape.switched { shape.links } else { 0 },
            near: BTreeMap::new(),
            mig: Vec::new(),
        }
    });
    let nics = shape.nics.iter().enumerate();
    Topology {
        cpus: cores(0..all),
        isolated: core(0),
        packages: (0..shape.packages)
            .map(|id| Package { id: PackageId(id), cpus: cores(id * per_package..(id + 1) * per_package) })
            .collect(),
        numa_nodes: (0..nodes + shape.memory).map(node).collect(),
        cores: (0..all).map(|one| Core { package: PackageId(one / per_package), cpus: core(one) }).collect(),
        llcs: caches,
        gpus: gpus.collect(),
        nics: nics
            .map(|(number, node)| Nic {
                name: format!("mlx5_{number}"),
                pci: None,
                numa_node: known(node),
                uverbs: Vec::new(),
            })
            .collect(),
        ..Topology::default()
    }
}

/// Deals CPUs, devices and memory out to parties of those names.
pub fn deal(topology: &Topology, names: &[String]) -> Vec<Party> {
    let mut cpus = topology.cpus.iter().skip(1);
    let party = |(number, name): (usize, &String)| {
        let seats = (0..=number % 2).map(|seat| Seat {
            name: format!("main{seat}"),
            words: "what it has".into(),
            cpus: cpus.by_ref().take(3).collect(),
            memory: topology
                .numa_nodes
                .iter()
                .skip(number % 3)
                .take(1)
                .map(|node| MemoryBlock {
                    nodes: [node.id].into_iter().collect(),
                    kind: MemoryKind::Memory,
                    bytes: Bytes(node.memory_bytes / 3),
                })
                .collect(),
            gpus: topology.gpus.iter().skip(number).take(1).map(|gpu| gpu.index.to_string()).collect(),
            nics: topology.nics.iter().skip(number).take(1).map(|nic| nic.name.clone()).collect(),
            passing: false,
        });
        Party { name: name.clone(), seats: seats.collect() }
    };
    names.iter().enumerate().map(party).collect()
}

pub fn picture<'a>(topology: &'a Topology, parties: Vec<Party>) -> Picture<'a> {
    let memory =
        topology.numa_nodes.iter().map(|node| ((node.id, MemoryKind::Memory), Bytes(node.memory_bytes)));
    let books =
        Books { reserved: CpuSet::single(CpuId(0)), allocatable: memory.collect(), ..Books::default() };
    Picture {
        topology,
        heading: "a picture".into(),
        summary: "of a machine".into(),
        parties,
        books: Some(books),
        notes: vec![Note { bad: true, text: "rejected: a <pod> & more".into() }],
    }
}

pub fn small() -> Shape {
    Shape {
        packages: 1,
        nodes: 2,
        cores: 4,
        threads: 2,
        cache: 2,
        memory: 0,
        gpus: vec![0, 1],
        links: 4,
        switched: false,
        nics: vec![0],
        pages: 4,
    }
}
