//! GPUs: chosen by maitred where a pod asks by annotation, kept where the environment names them.

use super::{Lanes, Scenario, usual};
use crate::expect::{self, expected};
use crate::list::Set;
use crate::machine::{Machine, NVML_STATE};
use crate::node::Node;
use crate::observe::Seen;
use crate::pod::{CUDA_IMAGE, Pod, TENANT_IMAGE};
use anyhow::{Context, Result};

const COUNT: &str = "gpus.maitred.io";
const VISIBLE: &str = "NVIDIA_VISIBLE_DEVICES";

pub const ALL: &[Scenario] = &[
    usual("an image that sees all GPUs gets its own alone", Lanes::Native, rewritten),
    usual("a 4-CPU 1-GPU pod lands on the GPU's node", Lanes::Guest, whole),
    usual("two GPUs by annotation, by UUID, on one node", Lanes::Guest, two_by_annotation),
    usual("GPUs named in the environment are kept", Lanes::Guest, kept),
    usual("NVML is not held open", Lanes::Native, nvml_shut),
];

/// The container sees exactly `count` GPUs, by UUID, all on one node: that node.
fn own_gpus(machine: &Machine, seen: &Seen, count: usize) -> Result<u32> {
    let ids = seen.gpus();
    expected!(ids.len() == count, "wanted {count} GPUs, sees {ids:?}");
    let mut nodes = Set::new();
    for id in &ids {
        let gpu = machine.gpus.iter().find(|gpu| gpu.uuid == *id);
        expected!(gpu.is_some(), "{id:?} is not the UUID of a GPU of this machine");
        nodes.extend(gpu.map(|gpu| gpu.node));
    }
    expected!(nodes.len() == 1, "GPUs {ids:?} lie on nodes {nodes:?}");
    Ok(nodes.into_iter().next().unwrap_or_default())
}

fn rewritten(node: &mut Node) -> Result<()> {
    let seated = node.run(Pod::guaranteed("gpu", 1, 64).image(CUDA_IMAGE).annotation(COUNT, "1"))?;
    own_gpus(&node.machine, &node.look(&seated)?, 1)?;
    let first = node.look(&seated)?.gpus();
    // A pod without exclusive CPUs may ask too, and gets the other one.
    let other = node.run(Pod::burstable("other", 100).image(CUDA_IMAGE).annotation(COUNT, "1"))?;
    let second = node.look(&other)?;
    own_gpus(&node.machine, &second, 1)?;
    expected!(first != second.gpus(), "two pods were given {first:?}");
    Ok(())
}

fn whole(node: &mut Node) -> Result<()> {
    let seated = node.run(Pod::guaranteed("whole", 4, 128).image(CUDA_IMAGE).annotation(COUNT, "1"))?;
    let seen = node.look(&seated)?;
    let home = expect::seated(&node.machine, &seen, 4)?;
    expect::same("node of the GPU", &home, &own_gpus(&node.machine, &seen, 1)?)?;
    expected!(seen.cpu_max.starts_with("max "), "CPUs of its own, and still a quota: {}", seen.cpu_max);
    Ok(())
}

fn two_by_annotation(node: &mut Node) -> Result<()> {
    let pod = |name: &str| Pod::guaranteed(name, 2, 64).image(CUDA_IMAGE).annotation(COUNT, "2");
    let mut all = Vec::new();
    for name in ["first", "second"] {
        let seated = node.run(pod(name))?;
        let seen = node.look(&seated)?;
        let home = expect::seated(&node.machine, &seen, 2)?;
        expect::same("node of the GPUs", &home, &own_gpus(&node.machine, &seen, 2)?)?;
        all.push(seen);
    }
    let both = all[0].gpus().iter().any(|id| all[1].gpus().contains(id));
    expected!(!both, "a GPU was given twice: {:?} and {:?}", all[0].gpus(), all[1].gpus());
    // One GPU is left, alone on its node.
    expect::refused(node.run(pod("third")), &["TopologyAffinityError", "GPU"])?;
    Ok(())
}

/// As a device plugin does it: the environment of the container config names the GPU.
fn kept(node: &mut Node) -> Result<()> {
    let machine = node.machine.clone();
    let (narrow, wide): (Vec<_>, Vec<_>) =
        machine.gpus.iter().partition(|gpu| machine.exclusive_cpus(gpu.node).len() < 4);
    // The last GPU, not the first: CPUs chosen without it would lie on another node.
    let gpu = wide.last().context("the guest has a GPU beside four CPUs")?;
    let pod =
        |name: &str, cpus, uuid: &str| Pod::guaranteed(name, cpus, 64).image(TENANT_IMAGE).env(VISIBLE, uuid);
    let seated = node.run(pod("kept", 2, &gpu.uuid))?;
    let seen = node.look(&seated)?;
    let home = expect::seated(&machine, &seen, 2)?;
    expect::same("node of the CPUs", &gpu.node, &home)?;
    expect::same(VISIBLE, &vec![gpu.uuid.clone()], &seen.gpus())?;
    let gpu = narrow.first().context("the guest has a GPU beside the reserved CPUs")?;
    expect::refused(node.run(pod("misfit", 4, &gpu.uuid)), &["TopologyAffinityError"])?;
    Ok(())
}

/// Held open, it would block driver upgrades and MIG changes on the node.
fn nvml_shut(node: &mut Node) -> Result<()> {
    let seated = node.run(Pod::guaranteed("gpu", 1, 64).image(CUDA_IMAGE).annotation(COUNT, "1"))?;
    own_gpus(&node.machine, &node.look(&seated)?, 1)?;
    let text = std::fs::read_to_string(NVML_STATE).with_context(|| format!("reading {NVML_STATE}"))?;
    let state: serde_json::Value = serde_json::from_str(&text)?;
    expected!(state["inits"].as_u64() > Some(0), "NVML was never asked: {text}");
    expect::same("NVML opened more often than shut", &Some(0), &state["open"].as_u64())
}
