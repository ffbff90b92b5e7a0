//! A node's life, generated from one seed: pods come and go, side by side; containers end and are restarted,
//! updates arrive, containerd and maitred die and come back. After every step the containers themselves are
//! looked at.

mod check;
mod life;
mod room;
mod step;

use super::{Lanes, Scenario, usual};
use crate::expect::{self, Unmet};
use crate::node::Node;
use crate::options::{Lane, USUAL_SEED};
use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use life::{Life, Tally, Tenant};
use room::{Ask, Class, Room};
use step::Step;

pub const ALL: &[Scenario] =
    &[usual("churn: nothing is given twice and nothing is lost", Lanes::Both, churn)];

/// Steps of a short run: some seconds natively, most of a minute in the guest.
fn short(lane: Lane) -> usize {
    match lane {
        Lane::Native => 30,
        Lane::Guest => 6,
    }
}

fn churn(node: &mut Node) -> Result<()> {
    let seed = node.churn.seed;
    let steps = node.churn.steps.unwrap_or_else(|| short(node.lane));
    let mut life = Life::new(node.lane);
    let mut story = Vec::new();
    let lived = live(node, &mut life, &mut story, Rng::with_seed(seed), steps);
    println!("      seed {seed}, {} steps: {:?}", story.len(), life.tally);
    lived.with_context(|| {
        let tenants: Vec<String> = life.tenants.iter().map(Tenant::to_string).collect();
        format!("seed {seed}, after\n{}\nwith\n{}", story.join("\n"), tenants.join("\n"))
    })?;
    let Tally { refused, ended, restarted, updated, outages, .. } = life.tally;
    let full = [refused, ended, restarted, updated, outages].iter().all(|count| *count > 0);
    let poor = !full && steps >= short(Lane::Native);
    ensure!(!poor || seed != USUAL_SEED, "the usual seed's life has not a bit of everything any more");
    if poor {
        println!(
            "      warning: not a bit of everything has happened in that life: another seed proves more"
        );
    }
    Ok(())
}

fn live(node: &mut Node, life: &mut Life, story: &mut Vec<String>, mut rng: Rng, steps: usize) -> Result<()> {
    let mut step = Step::first();
    for _ in 0..steps {
        story.push(format!("{step:?}"));
        life.take(node, &step)?;
        check::all(node, &life.tenants)?;
        step = Step::draw(life, &mut rng, &node.machine);
    }
    node.maitred_command(&["verify"])?;
    life.end(node)?;
    filled(node)
}

/// The empty node takes pods that need the last CPU, GPU and hugepage of each node, and no other.
fn filled(node: &Node) -> Result<()> {
    let create = |name: &str, ask: Ask| {
        let pod = ask.pod(name);
        let sandbox = node.sandbox(&pod)?;
        node.create(&pod, &pod.containers[0], &sandbox, 0)
    };
    for ask in Room::empty(&node.machine).to_the_last() {
        let made = create("to-the-last", ask);
        made.map_err(|error| Unmet(format!("the node is empty and has no room for {ask:?}: {error:#}")))?;
    }
    expect::refused(create("one-too-many", Ask::of(Class::Pinned(1))), &["TopologyAffinityError"])?;
    Ok(())
}
