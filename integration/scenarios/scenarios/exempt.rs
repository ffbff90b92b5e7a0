//! Static pods and system pods start, whatever the node's state.

use super::{Lanes, Scenario, fill, usual};
use crate::expect;
use crate::node::Node;
use crate::pod::Pod;
use anyhow::Result;

pub const ALL: &[Scenario] = &[usual("static and system pods start on a full node", Lanes::Both, full_node)];

fn full_node(node: &mut Node) -> Result<()> {
    let full = fill(node)?;
    let mut seen = Vec::new();
    for seated in &full {
        seen.push(node.look(seated)?);
    }
    expect::apart(&seen.iter().collect::<Vec<_>>())?;
    let pod = |name: &str| Pod::guaranteed(name, node.machine.widest(), 32);
    expect::refused(node.run(pod("one-more")), &["TopologyAffinityError"])?;
    for exempt in [
        pod("etcd").static_pod().namespace("kube-system"),
        pod("static").static_pod(),
        pod("cni").namespace("kube-system"),
    ] {
        let seated = node.run(exempt)?;
        let shared = node.look(&seated)?;
        for exclusive in &seen {
            expect::apart(&[exclusive, &shared])?;
        }
        node.remove(&seated)?;
    }
    Ok(())
}
