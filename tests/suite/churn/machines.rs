//! Machines for the churn: the usual ones and those whose numbers do not start at zero or have holes.

use maitred::model::*;
use std::collections::BTreeMap;

/// A machine in numbers: the nodes, two a socket, of so many cores of so many threads.
struct Shape {
    nodes: Vec<u32>,
    cores: u32,
    threads: u32,
    /// CPUs that exist and are offline.
    offline: Vec<u32>,
    /// Nodes with memory and nothing else.
    memory_only: Vec<u32>,
    /// The node of each GPU.
    gpus: Vec<u32>,
}

/// How many machines there are.
pub const COUNT: usize = 4;

/// The machine of that number.
pub fn machine(number: usize) -> Topology {
    let none = Vec::new;
    build(&match number % COUNT {
        0 => Shape {
            nodes: vec![0, 1, 2, 3],
            cores: 2,
            threads: 2,
            offline: none(),
            memory_only: none(),
            gpus: vec![0, 0, 2, 2],
        },
        1 => Shape {
            nodes: vec![0, 1],
            cores: 3,
            threads: 2,
            offline: vec![1, 8],
            memory_only: vec![2],
            gpus: vec![0, 1],
        },
        2 => Shape {
            nodes: vec![0, 8, 255],
            cores: 4,
            threads: 1,
            offline: vec![5],
            memory_only: vec![300, 301],
            gpus: vec![8, 255, 255],
        },
        _ => {
            Shape { nodes: vec![0], cores: 4, threads: 1, offline: none(), memory_only: none(), gpus: none() }
        }
    })
}

fn build(shape: &Shape) -> Topology {
    let per_node = shape.cores * shape.threads;
    let online = |cpu: &u32| !shape.offline.contains(cpu);
    let cpus_of =
        |at: u32| -> CpuSet { (at * per_node..(at + 1) * per_node).filter(online).map(CpuId).collect() };
    let with_cpus: Vec<(u32, CpuSet)> = (0..).zip(&shape.nodes).map(|(at, id)| (*id, cpus_of(at))).collect();
    let all: Vec<(u32, CpuSet)> =
        with_cpus.iter().cloned().chain(shape.memory_only.iter().map(|id| (*id, CpuSet::new()))).collect();
    let ids: Vec<u32> = all.iter().map(|(id, _)| *id).collect();
    let cpus = with_cpus.iter().fold(CpuSet::new(), |sum, (_, cpus)| sum.union(cpus));
    let socket = |at: usize| PackageId(u32::try_from(at / 2).unwrap());
    let mut packages: BTreeMap<PackageId, CpuSet> = BTreeMap::new();
    for (at, (_, cpus)) in with_cpus.iter().enumerate() {
        packages.entry(socket(at)).or_default().extend(cpus.iter());
    }
    let core = |first: u32| -> CpuSet { (first..first + shape.threads).filter(online).map(CpuId).collect() };
    let total = per_node * u32::try_from(shape.nodes.len()).unwrap();
    let cores = (0..total).step_by(shape.threads as usize).map(|first| (first, core(first)));
    Topology {
        packages: packages.into_iter().map(|(id, cpus)| Package { id, cpus }).collect(),
        numa_nodes: all.iter().map(|(id, cpus)| node(*id, cpus, &ids)).collect(),
        cores: cores
            .filter(|(_, cpus)| !cpus.is_empty())
            .map(|(first, cpus)| Core { package: socket((first / per_node) as usize), cpus })
            .collect(),
        gpus: (0..).zip(&shape.gpus).map(|(index, node)| gpu(index, *node)).collect(),
        cpus,
        ..Topology::default()
    }
}

fn node(id: u32, cpus: &CpuSet, ids: &[u32]) -> NumaNode {
    NumaNode {
        id: NodeId(id),
        cpus: cpus.clone(),
        memory_bytes: 8 << 30,
        hugepages: BTreeMap::from([(HugepageSize::MIB2, HugepagePool { total: 64, free: 64 })]),
        distances: ids
            .iter()
            .map(|to| (NodeId(*to), if *to == id { 10 } else { 10 + to.abs_diff(id) }))
            .collect(),
    }
}

fn mig(gpu: u32, index: u32) -> Mig {
    Mig { index, uuid: format!("MIG-{gpu}-{index}"), instance: None }
}

fn gpu(index: u32, node: u32) -> Gpu {
    Gpu {
        index,
        uuid: Some(format!("GPU-{index}")),
        pci: format!("0000:{:02x}:00.0", 0x20 + index).parse().unwrap(),
        minor: Some(index),
        model: None,
        numa_node: Some(NodeId(node)),
        memory_node: None,
        nvlinks: BTreeMap::new(),
        switch_links: 0,
        near: BTreeMap::new(),
        mig: (0..index / 3 * 2).map(|part| mig(index, part)).collect(),
    }
}
