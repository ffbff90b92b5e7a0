//! The owner's switches: audit mode, and off and on.

use super::{Lanes, Scenario, usual};
use crate::expect::{self, expected};
use crate::node::Node;
use crate::pod::{CUDA_IMAGE, Pod};
use crate::settings::Settings;
use anyhow::Result;

pub const ALL: &[Scenario] = &[
    usual("audit mode changes nothing", Lanes::Both, audit),
    usual("off and on take effect at once", Lanes::Both, off_and_on),
];

fn audit(node: &mut Node) -> Result<()> {
    let all = node.machine.all_cpus();
    let widest = node.machine.widest();
    let pinned = node.run(Pod::guaranteed("pinned", 1, 64))?;
    let before = node.look(&pinned)?;
    expect::seated(&node.machine, &before, 1)?;
    let shared = node.run(Pod::burstable("shared", 100))?;
    let shared_before = node.look(&shared)?;

    node.stop_maitred()?;
    node.start_maitred(&Settings::AUDIT)?;
    let pod = Pod::guaranteed("audited", widest, 64).image(CUDA_IMAGE).annotation("gpus.maitred.io", "1");
    let audited = node.run(pod)?;
    let seen = node.look(&audited)?;
    expect::cpus("audited", &all, &seen.cpus)?;
    expected!(!seen.cpu_max.starts_with("max "), "its quota was taken: {}", seen.cpu_max);
    expect::same("NVIDIA_VISIBLE_DEVICES", &vec!["all".to_owned()], &seen.gpus())?;
    node.run(Pod::guaranteed("too-wide", widest + 1, 64))?;
    expect::cpus("shared", &shared_before.cpus, &node.look(&shared)?.cpus)?;
    expect::cpus("pinned before", &before.cpus, &node.look(&pinned)?.cpus)
}

fn off_and_on(node: &mut Node) -> Result<()> {
    let all = node.machine.all_cpus();
    let first = node.run(Pod::guaranteed("first", 1, 64))?;
    let before = node.look(&first)?;
    expect::seated(&node.machine, &before, 1)?;

    node.maitred_command(&["off"])?;
    let off = node.run(Pod::guaranteed("off", 1, 64))?;
    expect::cpus("while off", &all, &node.look(&off)?.cpus)?;
    node.run(Pod::guaranteed("too-wide", node.machine.widest() + 1, 64))?;
    expect::cpus("pinned before", &before.cpus, &node.look(&first)?.cpus)?;
    node.remove(&off)?;
    node.remove(&first)?;

    node.maitred_command(&["on"])?;
    let on = node.run(Pod::guaranteed("on", 1, 64))?;
    expect::seated(&node.machine, &node.look(&on)?, 1)?;
    Ok(())
}
