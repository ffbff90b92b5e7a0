//! GPUs: chosen by maitred where a pod asks by annotation, kept where the environment names them.

use super::{Lanes, Scenario, usual};
use crate::cdi;
use crate::expect::{self, expected};
use crate::list::Set;
use crate::machine::{Gpu, Machine, NVML_STATE, unload_driver};
use crate::node::Node;
use crate::observe::{self, Seen};
use crate::pod::{CUDA_IMAGE, Pod, TENANT_IMAGE, VISIBLE};
use crate::settings::Settings;
use crate::wait;
use anyhow::{Context, Result};
use std::collections::BTreeMap;

const COUNT: &str = "gpus.maitred.io";

pub const ALL: &[Scenario] = &[
    usual("an image that sees all GPUs gets its own alone", Lanes::Native, rewritten),
    usual("a 4-CPU 1-GPU pod lands on the GPU's node", Lanes::Guest, whole),
    usual("two GPUs by annotation, by UUID, on one node", Lanes::Guest, two_by_annotation),
    usual("GPUs named in the environment are kept", Lanes::Guest, kept),
    usual("2 GPUs, hugepages and CPUs together on one node", Lanes::Guest, together),
    usual("a GPU without CPUs of its own starts, or is refused", Lanes::Native, ineligible),
    usual("and runs beside its GPU under align", Lanes::Guest, aligned),
    usual("NVML is not held open", Lanes::Native, nvml_shut),
    usual("a driver that is slow, or comes later, is not missed", Lanes::Native, late_driver),
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

/// As a vLLM pod asks: everything on one node, and that node is not the one any part alone would take.
fn together(node: &mut Node) -> Result<()> {
    let machine = node.machine.clone();
    let mut pairs: Vec<_> = machine.nodes.iter().filter(|numa| machine.gpus_on(numa.id).len() == 2).collect();
    pairs.sort_by_key(|numa| numa.hugepages);
    let [poor, rich] = pairs[..] else { anyhow::bail!("the guest has two nodes with two GPUs each") };
    // Leaves the richer node fewer pages than the poorer one has.
    let kept = rich.hugepages - poor.hugepages + 8;
    let pages = poor.hugepages - 4;
    let first = node.run(Pod::guaranteed("pages", 1, 64).hugepages_2m(kept))?;
    expect::same("node of most pages", &rich.id, &expect::seated(&machine, &node.look(&first)?, 1)?)?;

    let pod = Pod::guaranteed("vllm", 3, 128).image(CUDA_IMAGE).annotation(COUNT, "2").hugepages_2m(pages);
    let seated = node.run(pod.args(&["hold-huge", "2048", &pages.to_string()]))?;
    let seen = node.look(&seated)?;
    let home = expect::seated(&machine, &seen, 3)?;
    expect::same("node with everything", &poor.id, &home)?;
    expect::same("node of the GPUs", &home, &own_gpus(&machine, &seen, 2)?)?;
    wait::until_seen(node.patience(), "the hugepages are touched", || {
        let held = observe::pages_by_node(seen.pid, " huge ")?;
        Ok((held.values().sum::<u64>() < pages).then(|| format!("{held:?} of {pages}")))
    })?;
    let held = observe::pages_by_node(seen.pid, " huge ")?;
    expect::same("hugepages by node", &BTreeMap::from([(home, pages)]), &held)?;
    let small = observe::pages_by_node(seen.pid, "anon=")?;
    expected!(small.keys().all(|id| *id == home), "anonymous pages beside node {home}: {small:?}");
    Ok(())
}

/// The GPU a device plugin gave to a pod that nobody gave CPUs of its own.
fn forgotten(name: &str, gpu: &Gpu) -> Pod {
    Pod::burstable(name, 200).env(VISIBLE, &gpu.uuid)
}

fn ineligible(node: &mut Node) -> Result<()> {
    let gpu = node.machine.gpus.first().cloned().context("a GPU")?;
    let seated = node.run(forgotten("warned", &gpu))?;
    let seen = node.look(&seated)?;
    expect::same(VISIBLE, &vec![gpu.uuid.clone()], &seen.gpus())?;
    expect::cpus("shared", &node.machine.all_cpus(), &seen.cpus)?;
    node.remove(&seated)?;

    node.stop_maitred()?;
    node.start_maitred(&Settings::ineligible("reject"))?;
    expect::refused(node.run(forgotten("refused", &gpu)), &["policy.ineligible", "GPU"])?;
    node.run(Pod::burstable("no-gpu", 200))?;
    let fine = node.run(Pod::guaranteed("fine", 1, 64).env(VISIBLE, &gpu.uuid))?;
    expect::seated(&node.machine, &node.look(&fine)?, 1)?;
    Ok(())
}

fn aligned(node: &mut Node) -> Result<()> {
    let gpu = node.machine.gpus.last().cloned().context("a GPU")?;
    node.stop_maitred()?;
    node.start_maitred(&Settings::ineligible("align"))?;
    let taken = node.run(Pod::guaranteed("taken", 1, 64).env(VISIBLE, &gpu.uuid))?;
    let taken = node.look(&taken)?;
    let home = expect::seated(&node.machine, &taken, 1)?;
    expect::same("node of the GPU", &gpu.node, &home)?;
    let seated = node.run(forgotten("aligned", &gpu))?;
    let shared = &node.machine.exclusive_cpus(home) - &taken.cpus;
    expect::cpus("shared, beside its GPU", &shared, &node.look(&seated)?.cpus)
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

fn late_driver(node: &mut Node) -> Result<()> {
    let machine = node.machine.clone();
    let outcome = slow_then_late(node, &machine);
    machine.describe_gpus()?;
    node.stop_maitred()?;
    outcome
}

fn slow_then_late(node: &mut Node, machine: &Machine) -> Result<()> {
    let asking = |name: &str| Pod::burstable(name, 100).annotation(COUNT, "1");
    // Slower than the runtime would wait for an answer: it was asked before maitred registered.
    node.stop_maitred()?;
    machine.describe_gpus_answering_after(2500)?;
    node.start_maitred(&Settings::ENFORCE)?;
    let seated = node.run(asking("slow"))?;
    own_gpus(machine, &node.look(&seated)?, 1)?;
    node.remove(&seated)?;

    node.stop_maitred()?;
    unload_driver();
    node.start_maitred(&Settings::ENFORCE)?;
    expect::refused(node.run(asking("early")), &["GPU"])?;
    machine.describe_gpus()?;
    // As the operator does when the driver has come; maitred looks after each event.
    cdi::install(machine)?;
    wait::until(node.patience(), "the GPUs are found", || Ok(node.run(asking("late")).is_ok()))
}
