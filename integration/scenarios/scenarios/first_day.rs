//! A first day with maitred as the README tells it: audit, look, enforce, be refused, ask why, do what it says.

use super::{Lanes, Scenario, usual};
use crate::expect::{self, expected};
use crate::node::Node;
use crate::pod::Pod;
use anyhow::{Context, Result};

pub const ALL: &[Scenario] = &[usual("a first day from audit to a pinned pod", Lanes::Both, first_day)];

/// The file that packages ship, which begins in audit mode.
const PACKAGED: &str = include_str!("../../../packaging/config.toml");

fn first_day(node: &mut Node) -> Result<()> {
    let widest = node.machine.widest();
    restart(node, "audit")?;
    // One that is too wide starts all the same, and what would have become of it is told.
    let wide = node.run(Pod::guaranteed("wide", widest + 1, 64))?;
    expect::cpus("audited", &node.machine.all_cpus(), &node.look(&wide)?.cpus)?;
    let told = asked(node, &["explain", "wide"], 0, "rejected (only simulated)")?;
    expected!(told.contains("enforced, it would be refused"), "what to do in audit mode: {told}");
    asked(node, &["status"], 0, "audit mode: verdicts are logged and nothing is pinned")?;
    asked(node, &["doctor", "-v"], 1, "[maitred.mode]")?;

    restart(node, "enforce")?;
    expect::cpus("what ran already", &node.machine.all_cpus(), &node.look(&wide)?.cpus)?;
    node.cri.stop_container(&wide.containers[0])?;
    let again = node.create(&wide.pod, &wide.pod.containers[0], &wide.sandbox, 1);
    expect::refused(again, &["TopologyAffinityError"])?;
    let story = asked(node, &["explain", "wide"], 1, "what to do:")?;
    let advice = format!("ask for no more than {widest} CPU");
    expected!(story.contains(&advice), "it does not say {advice:?}: {story}");

    let fixed = node.run(Pod::guaranteed("fixed", widest, 64))?;
    expect::seated(&node.machine, &node.look(&fixed)?, widest)?;
    asked(node, &["verify"], 0, "aligned ")?;
    Ok(())
}

/// With the packaged file in this mode, and as much time as the lane needs.
fn restart(node: &mut Node, mode: &str) -> Result<()> {
    let mut config = PACKAGED.to_owned();
    for (was, is) in [
        ("\nmode = \"audit\"\n", format!("\nmode = \"{mode}\"\n")),
        ("\n#deadline_ms = 1000\n", format!("\ndeadline_ms = {}\n", node.lane.deadline_ms())),
    ] {
        anyhow::ensure!(config.contains(was), "the packaged configuration has no line {was:?}");
        config = config.replace(was, &is);
    }
    node.stop_maitred()?;
    node.start_maitred_by(&config)
}

/// What a command says, once it says that: journal and proofs come after the runtime's answer.
fn asked(node: &Node, arguments: &[&str], code: i32, words: &str) -> Result<String> {
    let mut last = (0, String::new());
    let said = crate::wait::until(node.patience(), words, || {
        last = node.maitred_answer(arguments)?;
        Ok(last.1.contains(words))
    });
    said.with_context(|| format!("maitred {arguments:?}: {}", last.1))?;
    expected!(last.0 == code, "maitred {arguments:?}: exit status {}: {}", last.0, last.1);
    Ok(last.1)
}
