//! The wrapper as the runtime of a runtime class, with no NRI plugin beside it.

use super::{Lanes, Scenario, usual};
use crate::expect;
use crate::node::{Node, Seated, WRAPPED};
use crate::pod::Pod;
use anyhow::Result;

pub const ALL: &[Scenario] = &[
    usual("the wrapper pins pods of its runtime class", Lanes::Native, pinned),
    usual("the wrapper and the plugin never give a CPU twice", Lanes::Native, beside_the_plugin),
];

/// The plugin is gone, so only the wrapper can have done it.
fn pinned(node: &mut Node) -> Result<()> {
    node.stop_maitred()?;
    let widest = node.machine.widest();
    let seated = node.run(Pod::guaranteed("wrapped", widest, 64).handler(WRAPPED))?;
    let seen = node.look(&seated)?;
    expect::seated(&node.machine, &seen, widest)?;
    let second = node.run(Pod::guaranteed("second", widest, 64).handler(WRAPPED));
    expect::refused::<Seated>(second, &["TopologyAffinityError: container main"])?;
    node.remove(&seated)?;
    let third = node.run(Pod::guaranteed("third", widest, 64).handler(WRAPPED))?;
    expect::cpus("the next one", &seen.cpus, &node.look(&third)?.cpus)
}

/// What the wrapper gave the plugin gives to nobody, and the other way round; where both see a container the plugin
/// decides and the wrapper leaves it there.
fn beside_the_plugin(node: &mut Node) -> Result<()> {
    let widest = node.machine.widest();
    let both = node.run(Pod::guaranteed("both", widest, 64).handler(WRAPPED))?;
    expect::seated(&node.machine, &node.look(&both)?, widest)?;
    node.remove(&both)?;

    node.stop_maitred()?;
    let wrapped = node.run(Pod::guaranteed("wrapped", widest, 64).handler(WRAPPED))?;
    expect::seated(&node.machine, &node.look(&wrapped)?, widest)?;
    node.start_maitred(&crate::settings::Settings::ENFORCE)?;
    expect::refused::<Seated>(node.run(Pod::guaranteed("plain", widest, 64)), &["TopologyAffinityError"])?;
    let shared = node.run(Pod::burstable("shared", 100))?;
    expect::apart(&[&node.look(&wrapped)?, &node.look(&shared)?])
}
