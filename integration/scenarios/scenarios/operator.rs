//! What an operator asks a node: who holds what, why something does not start, how it has gone so far.

use super::{Lanes, Scenario, usual};
use crate::expect::{self, expected};
use crate::list;
use crate::metrics::{page, value};
use crate::node::Node;
use crate::pod::Pod;
use anyhow::{Context, Result};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

pub const ALL: &[Scenario] = &[
    usual("status shows who holds what", Lanes::Both, status),
    usual("explain tells of a refused pod afterwards", Lanes::Both, explain),
    usual("metrics are served", Lanes::Both, metrics),
];

fn status(node: &mut Node) -> Result<()> {
    let pinned = node.run(Pod::guaranteed("held", 1, 64))?;
    let seen = node.look(&pinned)?;
    let numa = expect::seated(&node.machine, &seen, 1)?;
    node.run(Pod::burstable("sharing", 100))?;

    let json = json(node, &["status", "-o", "json"])?;

    let daemon = &json["daemon"];
    expected!(
        daemon["running"] == true && daemon["connected"] == true && daemon["mode"] == "enforce",
        "the daemon is not seen: {daemon}"
    );
    let holders = json["holders"].as_array().context("no holders")?;
    let ours = holders.iter().find(|one| one["pod"] == "default/held");
    let ours = ours.with_context(|| format!("nobody holds anything under its pod's name: {holders:#?}"))?;
    expect::same("the CPUs it is said to hold", &Value::from(list::show(&seen.cpus)), &ours["cpus"])?;
    expect::same("its state", &Value::from("running"), &ours["state"])?;
    let nodes = json["nodes"].as_array().context("no nodes")?;
    let own = nodes.iter().find(|one| one["id"] == numa).context("its node is not there")?;
    let free: crate::list::Set = list::parse(own["free"]["cpus"].as_str().unwrap_or_default())?;
    expected!(free.is_disjoint(&seen.cpus), "CPUs {} are free and held", list::show(&seen.cpus));
    expected!(json["pool"]["containers"].as_u64() >= Some(1), "nobody shares the pool: {}", json["pool"]);
    node.remove(&pinned)?;
    let after = self::json(node, &["status", "-o", "json"])?;
    let holders = after["holders"].as_array().context("no holders")?;
    expected!(
        !holders.iter().any(|one| one["pod"] == "default/held"),
        "it is gone and still holds: {holders:#?}"
    );
    Ok(())
}

fn explain(node: &mut Node) -> Result<()> {
    let (wanted, mark) = (node.machine.widest() + 1, node.maitred.mark());
    let holder = node.run(Pod::guaranteed("holder", 1, 64))?;
    expect::seated(&node.machine, &node.look(&holder)?, 1)?;
    expect::refused(node.run(Pod::guaranteed("too-wide", wanted, 64)), &["TopologyAffinityError"])?;

    let (code, out) = told(node, &["explain", "too-wide"], |out| out.contains("rejected"))?;

    expect::same("its exit status", &1, &code)?;
    for word in [
        "default/too-wide ".to_owned(),
        "TopologyAffinityError".to_owned(),
        format!("{wanted} CPUs needed"),
        "default/holder/main has 1 CPU there".to_owned(),
        "what to do:".to_owned(),
    ] {
        expected!(out.contains(&word), "it does not say {word:?}: {out}");
    }
    // The log alone tells it too, to the last holder.
    std::fs::write("/tmp/maitred.log", node.maitred.since(mark))?;
    let (code, out) = node.maitred_answer(&["explain", "too-wide", "--log", "/tmp/maitred.log"])?;
    let by_log = code == 1 && out.contains("default/holder/main has 1 CPU there");
    expected!(by_log, "by the log: {code}: {out}");
    let (code, out) = told(node, &["explain", "holder"], |out| out.contains("placed"))?;
    expected!(code == 0 && out.contains("now: runs with cpus"), "the one that runs: {code}: {out}");
    Ok(())
}

fn metrics(node: &mut Node) -> Result<()> {
    loopback_up()?;
    let before = page()?;
    let pinned = node.run(Pod::guaranteed("counted", 1, 64))?;
    expect::seated(&node.machine, &node.look(&pinned)?, 1)?;
    let too_wide = Pod::guaranteed("uncountable", node.machine.widest() + 1, 64);
    expect::refused(node.run(too_wide), &["TopologyAffinityError"])?;
    let after = page()?;
    for (series, least) in [
        (r#"maitred_admissions_total{decision="placed",simulated="false"}"#, 1.0),
        (r#"maitred_rejections_total{reason="TopologyAffinityError",simulated="false"}"#, 1.0),
        (r#"maitred_reply_seconds_count{event="create"}"#, 2.0),
        ("maitred_decision_seconds_count", 2.0),
    ] {
        let grown = value(&after, series)? - value(&before, series)?;
        let enough = grown >= least;
        expected!(enough, "{series} has grown by {grown}: {after}");
    }
    expected!(is_one(value(&after, "maitred_nri_connected")?), "not connected: {after}");
    let (holders, (_, status)) = (value(&after, "maitred_holders")?, node.maitred_answer(&["status"])?);
    expected!(is_one(holders), "{holders} containers hold something where one does:\n{status}");
    Ok(())
}

/// Counts are whole numbers.
fn is_one(value: f64) -> bool {
    (value - 1.0).abs() < f64::EPSILON
}

/// A command's answer, once it is what is waited for: the journal is written after the runtime's answer.
fn told(node: &Node, arguments: &[&str], enough: impl Fn(&str) -> bool) -> Result<(i32, String)> {
    let mut last = node.maitred_answer(arguments)?;
    for _ in 0..50 {
        if enough(&last.1) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        last = node.maitred_answer(arguments)?;
    }
    Ok(last)
}

fn json(node: &Node, arguments: &[&str]) -> Result<Value> {
    let (code, out) = node.maitred_answer(arguments)?;
    anyhow::ensure!(code == 0, "maitred {arguments:?}: {code}: {out}");
    serde_json::from_str(&out).with_context(|| format!("maitred {arguments:?} printed {out}"))
}

/// A network namespace of one's own begins with its loopback down, and so does a machine that nobody configures.
fn loopback_up() -> Result<()> {
    // SIOCSIFFLAGS of socket and perl alike: the lanes' root has no `ip`, but Debian's perl-base.
    let script = r#"socket(S, 2, 2, 0) or die; my $up = pack("a16s x22", "lo", 0x41); ioctl(S, 0x8914, $up) or die $!"#;
    let status = Command::new("perl").args(["-e", script]).status().context("starting perl")?;
    anyhow::ensure!(status.success(), "the loopback interface does not come up: {status}");
    Ok(())
}
