//! How much is looked at: counted, not timed, so that a search that has become an enumeration fails on any
//! machine, however fast. In test builds only.

use super::{Machine, Occupancy, Reserve, admit_container};
use crate::model::*;
use std::cell::Cell;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// Counts a node set that was looked at.
pub(super) fn step() {
    STEPS.set(STEPS.get() + 1);
}

/// No two nodes have the same amounts, and where one has much of one thing it has little of another.
fn uneven(nodes: u32) -> Machine {
    let mut topology = Topology::default();
    let mut next = 0;
    for node in 0..nodes {
        let cpus: CpuSet = (next..next + 2 + node * 7 % 31).map(CpuId).collect();
        next += 2 + node * 7 % 31;
        topology.cpus.extend(cpus.iter());
        topology.packages.push(Package { id: PackageId(node), cpus: cpus.clone() });
        topology
            .cores
            .extend(cpus.iter().map(|cpu| Core { package: PackageId(node), cpus: CpuSet::single(cpu) }));
        let total = u64::from(200 - node * 37 % 199);
        topology.numa_nodes.push(NumaNode {
            id: NodeId(node),
            cpus,
            memory_bytes: u64::from(400 + node * 53 % 211) << 30,
            hugepages: [(HugepageSize::GIB1, HugepagePool { total, free: total })].into(),
            distances: (0..nodes).map(|to| (NodeId(to), 10 + node.abs_diff(to))).collect(),
        });
    }
    Machine::new(&topology, &Reserve::default()).unwrap()
}

/// A share of everything the machine has, in percent.
fn share(machine: &Machine, percent: [u64; 3]) -> ContainerRequest {
    let sum = |kind| machine.nodes().iter().map(|node| machine.allocatable(node, kind).0).sum::<u64>();
    let part = |kind, percent| Bytes(sum(kind) / 100 * percent);
    let pages = MemoryKind::Hugepages(HugepageSize::GIB1);
    ContainerRequest {
        cpu_milli: machine.online().len() as u64 * percent[0] / 100 * 1000,
        memory: part(MemoryKind::Memory, percent[1]),
        hugepages: [(HugepageSize::GIB1, part(pages, percent[2]))].into(),
        ..ContainerRequest::nothing("main".into(), ContainerKind::App, Qos::Guaranteed)
    }
}

/// The most node sets that any decision about the machine looks at, its explanation included.
fn most(machine: &Machine) -> usize {
    let shares =
        [[1, 1, 1], [20, 20, 20], [10, 50, 50], [50, 10, 50], [50, 50, 0], [90, 60, 89], [99, 99, 99]];
    let mut most = 0;
    for (_, topology) in TopologyPolicy::ALL {
        for option in CpuOption::ALL.iter().map(|(_, option)| *option) {
            for (request, prefer_closest) in
                shares.map(|it| share(machine, it)).iter().zip([true, false].into_iter().cycle())
            {
                let policy = Policy {
                    topology: *topology,
                    scope: Scope::Container,
                    cpu: CpuOptions([option].into()),
                    prefer_closest,
                    memory: MemoryManager::Static,
                    unknown_locality: UnknownLocality::Reject,
                };
                STEPS.set(0);
                let _ =
                    admit_container(machine, &Occupancy::new(machine), &"new".into(), request, None, &policy);
                most = most.max(STEPS.get());
            }
        }
    }
    most
}

#[test]
fn what_is_looked_at_grows_no_faster_than_a_polynomial() {
    for nodes in [1, 2, 4, 8, 12, 13, 16, 24, 32, 64, 128] {
        let steps = most(&uneven(nodes));
        // A hundred times the square, where listing all sets would be 2^nodes; beyond that the searches' budget.
        let bound = (100 * nodes as usize * nodes as usize).min(60_000);
        assert!(steps <= bound, "{nodes} nodes: {steps} node sets are looked at, expected at most {bound}");
    }
}
