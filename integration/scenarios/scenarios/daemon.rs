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
    let some =
        held.iter().find(|set| set.split(' ').next_back().is_none_or(|bits| bits.bytes().any(|b| b != b'0')));
    expected!(some.is_none(), "maitred has {held:?}");
    Ok(())
}
