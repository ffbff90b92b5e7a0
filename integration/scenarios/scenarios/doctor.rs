//! What `maitred doctor` says of the node: that it is registered, and what a scenario has broken.

use super::{Lanes, Scenario, usual};
use crate::expect::expected;
use crate::node::Node;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;

pub const ALL: &[Scenario] = &[
    usual("the doctor finds maitred registered", Lanes::Both, registered),
    usual("the doctor finds NRI switched off and nobody there", Lanes::Both, switched_off),
    usual("the doctor finds hugepages on some nodes only", Lanes::Guest, uneven_pages),
];

/// What one check says: `severity`, `title` and the rest.
fn finding(node: &Node, check: &str) -> Result<Value> {
    let text = node.maitred_says(&["doctor", "-o", "json"])?;
    let all: Value =
        serde_json::from_str(&text).with_context(|| format!("what the doctor prints: {text}"))?;
    let findings = all["findings"].as_array().context("a list of findings")?;
    let worst = findings.iter().find(|finding| finding["check"] == check);
    Ok(worst.cloned().unwrap_or_default())
}

fn says(node: &Node, check: &str, severity: &str, words: &str) -> Result<()> {
    let found = finding(node, check)?;
    let fits = found["severity"] == severity && found.to_string().contains(words);
    expected!(fits, "{check}: wanted {severity} with {words:?}, found {found}");
    Ok(())
}

fn registered(node: &mut Node) -> Result<()> {
    says(node, "maitred.running", "ok", "maitred runs")?;
    says(node, "nri.registered", "ok", "maitred is registered")?;
    says(node, "nri.socket", "ok", "/var/run/nri/nri.sock")?;
    says(node, "nri.enabled", "ok", "/etc/containerd/config.toml")?;
    says(node, "containerd.version", "ok", "containerd --version of process")?;
    let lost = match node.version.is_one() {
        true => "CDI devices that NRI adds are dropped silently",
        false => "no launcher can be put in front",
    };
    says(node, "containerd.features", "note", lost)?;
    says(node, "maitred.machine", "ok", "fits the machine")
}

/// containerd's configuration as the scenarios write it, put back at the end.
struct Rewritten(String);

const CONTAINERD: &str = "/etc/containerd/config.toml";

impl Rewritten {
    fn with(old: &str, new: &str) -> Result<Self> {
        let was = fs::read_to_string(CONTAINERD)?;
        anyhow::ensure!(was.contains(old), "{CONTAINERD} has no {old:?}");
        fs::write(CONTAINERD, was.replace(old, new))?;
        Ok(Self(was))
    }
}

impl Drop for Rewritten {
    fn drop(&mut self) {
        // The next start of containerd writes it anew in any case.
        let _ = fs::write(CONTAINERD, &self.0);
    }
}

fn switched_off(node: &mut Node) -> Result<()> {
    let rewritten = Rewritten::with("  disable = false", "  disable = true")?;
    // One of this node's runtimes goes through the wrapper, which pins without NRI: it would be an error else.
    says(node, "nri.enabled", "warning", "disable = true")?;
    drop(rewritten);
    says(node, "nri.enabled", "ok", "disable = false")?;
    let rewritten = Rewritten::with("  disable = false\n", "")?;
    match node.version.is_one() {
        true => says(node, "nri.enabled", "warning", "which is containerd 1.7's default")?,
        false => says(node, "nri.enabled", "ok", "as it is from containerd 2.0")?,
    }
    drop(rewritten);
    node.stop_maitred()?;
    says(node, "maitred.running", "warning", "systemctl enable --now maitred")
}

fn uneven_pages(node: &mut Node) -> Result<()> {
    let empty =
        node.machine.nodes.iter().find(|numa| numa.hugepages > 0).context("a node with hugepages")?.id;
    let path = format!("/sys/devices/system/node/node{empty}/hugepages/hugepages-2048kB/nr_hugepages");
    let was = fs::read_to_string(&path)?;
    fs::write(&path, "0")?;
    let told = says(node, "hugepages.reserved", "warning", &path);
    fs::write(&path, was.trim())?;
    told
}
