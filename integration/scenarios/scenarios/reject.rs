//! What does not fit does not start, and the user reads why.

use super::{Lanes, Scenario, usual};
use crate::expect::{self, expected};
use crate::list;
use crate::node::Node;
use crate::pod::Pod;
use crate::settings::TRUSTED;
use anyhow::Result;

const POLICY: &str = "policy.maitred.io";

pub const ALL: &[Scenario] = &[
    usual("a pod that fits no node is refused with the evidence", Lanes::Both, evidence),
    usual("and starts under best-effort", Lanes::Guest, best_effort),
    usual("an untrusted namespace cannot loosen the policy", Lanes::Guest, untrusted),
    usual("a malformed annotation refuses that pod alone", Lanes::Native, malformed),
    usual("a forged allocation record is refused", Lanes::Native, forged),
];

fn evidence(node: &mut Node) -> Result<()> {
    let wanted = node.machine.widest() + 1;
    let text = expect::refused(node.run(Pod::guaranteed("wide", wanted, 64)), &["TopologyAffinityError"])?;
    for word in [format!("{wanted} CPUs"), "node 0".to_owned()] {
        expected!(text.contains(&word), "the evidence does not say {word:?}: {text}");
    }
    let fits = node.run(Pod::guaranteed("fits", wanted - 1, 64))?;
    expect::seated(&node.machine, &node.look(&fits)?, wanted - 1)?;
    Ok(())
}

fn best_effort(node: &mut Node) -> Result<()> {
    let wanted = node.machine.widest() + 2;
    expect::refused(node.run(Pod::guaranteed("strict", wanted, 64)), &["TopologyAffinityError"])?;
    let pod = Pod::guaranteed("loose", wanted, 64).namespace(TRUSTED).annotation(POLICY, "best-effort");
    let seated = node.run(pod)?;
    let seen = node.look(&seated)?;
    expected!(
        seen.cpus.len() as u64 == wanted,
        "wanted {wanted} CPUs of its own, has {}",
        list::show(&seen.cpus)
    );
    let nodes = node.machine.nodes_of(&seen.cpus);
    expected!(nodes.len() == 2, "CPUs {} lie on nodes {}", list::show(&seen.cpus), list::show(&nodes));
    Ok(())
}

fn untrusted(node: &mut Node) -> Result<()> {
    let wanted = node.machine.widest() + 2;
    let pod = Pod::guaranteed("cheeky", wanted, 64).annotation(POLICY, "best-effort");
    expect::refused(node.run(pod), &[])?;
    Ok(())
}

fn malformed(node: &mut Node) -> Result<()> {
    let pod = Pod::guaranteed("malformed", 1, 64).annotation(POLICY, "sideways");
    expect::refused(node.run(pod), &[POLICY, "sideways", "single-numa-node"])?;
    let next = node.run(Pod::guaranteed("next", 1, 64))?;
    expect::seated(&node.machine, &node.look(&next)?, 1)?;
    Ok(())
}

fn forged(node: &mut Node) -> Result<()> {
    let mut pod = Pod::guaranteed("forged", 1, 64);
    let record = r#"{"version":1,"cpus":"0-1023"}"#;
    pod.containers[0].annotations.insert("allocation.maitred.io".to_owned(), record.to_owned());
    expect::refused(node.run(pod), &["allocation.maitred.io"])?;
    Ok(())
}
