//! Where the kubelet's static CPU manager hands out the CPUs: they are checked against the devices, and the
//! memory follows them.

use super::{Lanes, Scenario};
use crate::allotted::Files;
use crate::expect;
use crate::list::Set;
use crate::machine::Gpu;
use crate::node::Node;
use crate::pod::{Delivery, Pod};
use crate::settings::Settings;
use anyhow::{Context, Result};

pub const ALL: &[Scenario] = &[Scenario {
    name: "the kubelet's CPUs are kept, checked and given memory",
    lanes: Lanes::Guest,
    settings: Settings::authority("kubelet"),
    run: checked,
}];

/// The last two CPUs beside a GPU: not those that maitred would take.
fn beside(node: &Node, gpu: &Gpu) -> Set {
    node.machine.exclusive_cpus(gpu.node).into_iter().rev().take(2).collect()
}

fn checked(node: &mut Node) -> Result<()> {
    // By the files: podresources have a tenth of a second to answer, which is little in an emulated machine.
    node.kubelet_files = Some(Files::DevicesAndCpus);
    let machine = node.machine.clone();
    let gpu = machine.gpus.last().context("a GPU")?;
    let far = machine.gpus.iter().find(|other| other.node == 1).context("a GPU on node 1")?;
    let pod = |name: &str, cpus: &Set| {
        Pod::guaranteed(name, 2, 64).kubelet_cpus(cpus.clone()).gpus(Delivery::CriCdi, &[gpu])
    };
    let cpus = beside(node, gpu);
    keeps(node, pod("fits", &cpus), &cpus, gpu)?;
    expect::refused(node.run(pod("misfit", &beside(node, far))), &["TopologyAffinityError", "GPU"])?;

    // Found out by itself, from the state file.
    node.stop_maitred()?;
    node.start_maitred(&Settings::authority("auto"))?;
    keeps(node, pod("found", &cpus), &cpus, gpu)
}

fn keeps(node: &Node, pod: Pod, cpus: &Set, gpu: &Gpu) -> Result<()> {
    let seated = node.run(pod)?;
    let seen = node.look(&seated)?;
    expect::cpus("the kubelet's", cpus, &seen.cpus)?;
    expect::same("nodes of the memory", &Set::from([gpu.node]), &seen.mems)?;
    node.remove(&seated)
}
