//! The daemon as a process.

use super::{Lanes, Scenario, usual};
use crate::expect::{self, expected};
use crate::node::Node;
use crate::observe;
use crate::pod::Pod;
use anyhow::Result;

pub const ALL: &[Scenario] =
    &[usual("maitred works without a single capability", Lanes::Both, no_capability)];

/// After it has placed a pod and written a cgroup, so that none of it was done before they were given up.
fn no_capability(node: &mut Node) -> Result<()> {
    let Some(pid) = node.maitred.pid() else {
        return Err(expect::Unmet("maitred does not run".to_owned()).into());
    };
    let seated = node.run(Pod::guaranteed("pinned", 1, 64))?;
    expect::seated(&node.machine, &node.look(&seated)?, 1)?;
    let held = observe::capabilities(pid)?;
    // CAP_SYS_PTRACE, to look at containers, and nothing that a program of its own could inherit.
    let kept = ["CapPrm 0000000000080000", "CapEff 0000000000080000"];
    let none = |set: &&String| set.split(' ').next_back().is_some_and(|bits| bits.bytes().all(|b| b == b'0'));
    let more = held.iter().find(|set| !none(set) && !kept.contains(&set.as_str()));
    expected!(more.is_none(), "maitred has {held:?}");
    Ok(())
}
