//! The scenarios, by what they are about. Each starts with an empty node, and each fails on a node
//! without maitred.

mod authority;
mod churn;
mod daemon;
mod delivery;
mod doctor;
mod exact;
mod exempt;
mod faults;
mod first_day;
mod gpus;
mod hugepages;
mod machines;
mod operator;
mod outages;
mod pinning;
mod reject;
mod shared;
mod switches;
mod wrapper;

use crate::node::{Node, Seated};
use crate::pod::Pod;
use crate::settings::Settings;
use anyhow::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lanes {
    Native,
    Guest,
    Both,
}

pub struct Scenario {
    pub name: &'static str,
    pub lanes: Lanes,
    pub settings: Settings,
    pub run: fn(&mut Node) -> Result<()>,
}

/// A scenario under the usual configuration.
const fn usual(name: &'static str, lanes: Lanes, run: fn(&mut Node) -> Result<()>) -> Scenario {
    Scenario { name, lanes, settings: Settings::ENFORCE, run }
}

/// Scenarios with the same settings stand together: maitred runs through them without a restart.
pub const ALL: &[&[Scenario]] = &[
    pinning::ALL,
    shared::ALL,
    gpus::ALL,
    delivery::ALL,
    machines::ALL,
    exact::ALL,
    authority::ALL,
    hugepages::ALL,
    reject::ALL,
    operator::ALL,
    exempt::ALL,
    daemon::ALL,
    outages::ALL,
    churn::ALL,
    switches::ALL,
    first_day::ALL,
    doctor::ALL,
    faults::ALL,
    wrapper::ALL,
];

/// Pods started at the same moment, with each one's outcome in the given order.
fn run_together(node: &Node, pods: Vec<Pod>) -> Vec<Result<Seated>> {
    std::thread::scope(|scope| {
        let started: Vec<_> = pods.into_iter().map(|pod| scope.spawn(|| node.run(pod))).collect();
        started.into_iter().map(|one| one.join().expect("starting a pod does not panic")).collect()
    })
}

/// Leaves no room for another pod of the widest size: one such pod on each node that can hold it.
fn fill(node: &Node) -> Result<Vec<Seated>> {
    let widest = node.machine.widest();
    let nodes = node.machine.nodes.iter();
    let wide = nodes.filter(|numa| node.machine.exclusive_cpus(numa.id).len() as u64 == widest);
    let pods = wide.map(|numa| Pod::guaranteed(&format!("full-{}", numa.id), widest, 32)).collect();
    run_together(node, pods).into_iter().collect()
}
