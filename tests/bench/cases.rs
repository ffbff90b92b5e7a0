//! What is decided: machine, what is held of it, request and policy.

use crate::machines::{SHAPES, filled, pod, policy, request, uneven as uneven_machine};
use divan::{Bencher, black_box};
use maitred::engine::{Machine, admit_pod};
use maitred::model::*;
use std::fmt;

/// One decision.
pub struct Case {
    name: String,
    machine: Box<dyn Fn() -> Machine + Send + Sync>,
    /// So many of a hundred CPUs are held.
    percent: usize,
    containers: Vec<ContainerRequest>,
    policy: Policy,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Case {
    /// Measures the decision.
    pub fn measure(&self, bencher: Bencher) {
        let machine = (self.machine)();
        let occupancy = filled(&machine, self.percent);
        let pod = pod(self.containers.clone());
        let decide = || admit_pod(black_box(&machine), black_box(&occupancy), black_box(&pod), &self.policy);
        bencher.bench_local(decide);
    }
}

fn cases(
    topologies: &[TopologyPolicy],
    percents: &[usize],
    ask: impl Fn(u32) -> ContainerRequest,
) -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in SHAPES {
        for topology in topologies {
            cases.extend(percents.iter().map(|percent| Case {
                name: format!("{}, {topology}, {percent} % held", shape.name),
                machine: Box::new(move || shape.machine()),
                percent: *percent,
                containers: vec![ask(shape.per_node())],
                policy: policy(*topology),
            }));
        }
    }
    cases
}

const ALL: [TopologyPolicy; 4] = [
    TopologyPolicy::None,
    TopologyPolicy::BestEffort,
    TopologyPolicy::Restricted,
    TopologyPolicy::SingleNumaNode,
];

pub fn admitted() -> Vec<Case> {
    cases(&ALL, &[0, 50, 90], |_| request(4, 16, 2, 1))
}

pub fn refused() -> Vec<Case> {
    cases(&ALL[2..], &[0, 50, 90], |per_node| request(per_node * 3 / 2, 16, 2, 1))
}

pub fn two_nodes() -> Vec<Case> {
    cases(&ALL[1..3], &[0, 50], |per_node| request(per_node * 3 / 2, 190, 0, 0))
}

pub fn pods() -> Vec<Case> {
    // No GPUs: an init container that takes the node on which they are gone would have the pod refused.
    let container =
        |name: &str, kind, cpus| ContainerRequest { name: name.into(), kind, ..request(cpus, 4, 2, 0) };
    let containers = vec![
        container("init", ContainerKind::Init, 2),
        container("sidecar", ContainerKind::Sidecar, 1),
        container("a", ContainerKind::App, 1),
        container("b", ContainerKind::App, 1),
    ];
    let case = |(shape, scope): (crate::machines::Shape, Scope)| Case {
        name: format!("{}, scope {scope}", shape.name),
        machine: Box::new(move || shape.machine()),
        percent: 50,
        containers: containers.clone(),
        policy: Policy { scope, ..policy(TopologyPolicy::SingleNumaNode) },
    };
    SHAPES.into_iter().flat_map(|shape| [(shape, Scope::Container), (shape, Scope::Pod)]).map(case).collect()
}

pub fn cpu_options() -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in SHAPES {
        cases.extend(CpuOption::ALL.iter().map(|(word, option)| Case {
            name: format!("{}, {word}", shape.name),
            machine: Box::new(move || shape.machine()),
            percent: 50,
            containers: vec![request(shape.per_node() * 3 / 4, 16, 0, 0)],
            policy: Policy { cpu: CpuOptions([*option].into()), ..policy(TopologyPolicy::BestEffort) },
        }));
    }
    cases
}

pub fn uneven() -> Vec<Case> {
    let amounts = [(12, 200, 30), (40, 300, 60), (60, 1000, 150), (100, 2000, 300), (200, 4000, 500)];
    let mut cases = Vec::new();
    for (cpus, gib, pages) in amounts {
        cases.extend(ALL.map(|topology| Case {
            name: format!("64 nodes, {topology}, {cpus} CPUs {gib}Gi"),
            machine: Box::new(|| uneven_machine(64)),
            percent: 5,
            containers: vec![request(cpus, gib, pages, 0)],
            policy: policy(topology),
        }));
    }
    let distribute = CpuOptions([CpuOption::DistributeAcrossNuma].into());
    cases.push(Case {
        name: "64 nodes, distribute-cpus-across-numa, 200 CPUs".into(),
        machine: Box::new(|| uneven_machine(64)),
        percent: 5,
        containers: vec![request(200, 16, 0, 0)],
        policy: Policy { cpu: distribute, ..policy(TopologyPolicy::None) },
    });
    cases
}
