//! What maitred costs a container's creation: the same creates with no plugin, with a
//! plugin that does nothing and with maitred, one side after the other over the same containerd and
//! again, so that whatever else the machine does weighs on all alike and the answer is a difference
//! within one round.
//!
//! The creates are of containers that change nobody else's CPUs, alone on the node and beside 200 others, and of
//! one that takes a CPU from them. What the daemon itself takes comes with them.

mod daemon;
mod idle;
mod podresources;

pub use idle::serve as serve_idle;
pub use podresources::podresources;

use crate::node::Node;
use crate::pod::{Container, Pod};
use crate::settings::Settings;
use anyhow::Result;
use std::time::Instant;

/// Rounds that warm caches on all sides and are not counted.
const WARM_UP: u32 = 2;
/// Creates on one side in one round, after one that pays for the plugin's coming or going.
const CREATES: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    NoPlugin,
    Idle,
    Maitred,
}

const SIDES: [Side; 3] = [Side::NoPlugin, Side::Idle, Side::Maitred];

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::NoPlugin => "no plugin",
            Side::Idle => "a plugin that does nothing",
            Side::Maitred => "maitred",
        }
    }
}

/// Milliseconds of each counted create, by side in the order of `SIDES`; equal places are pairs.
type Times = [Vec<f64>; 3];

/// How many shared containers there are in the second and third comparison.
const CROWD: u32 = 200;

pub fn create(node: &mut Node, rounds: u32) -> Result<()> {
    let shared = Pod::burstable("bench", 100);
    daemon::measure(node, "no container on the node")?;
    compare(node, rounds, &shared, "a shared container, alone on the node")?;
    crowd(node)?;
    daemon::measure(node, &format!("{CROWD} shared containers on the node"))?;
    compare(node, rounds, &shared, &format!("a shared container beside {CROWD} others"))?;
    let own = Pod::guaranteed("bench-own", 1, 64);
    compare(node, rounds, &own, &format!("a container that takes a CPU from {CROWD} others"))
}

/// Shared containers that are there all the time, in one pod.
fn crowd(node: &mut Node) -> Result<()> {
    node.stop_maitred()?;
    let mut pod = Pod::burstable("crowd", 100);
    let one = pod.containers[0].clone();
    pod.containers = (0..CROWD).map(|at| Container { name: format!("c{at}"), ..one.clone() }).collect();
    let sandbox = node.sandbox(&pod)?;
    for container in &pod.containers {
        let id = node.create(&pod, container, &sandbox, 0)?;
        node.cri.start_container(&id)?;
    }
    Ok(())
}

/// The creates of one pod's container on each side. Its sandbox goes with the comparison.
fn compare(node: &mut Node, rounds: u32, pod: &Pod, what: &str) -> Result<()> {
    node.stop_maitred()?;
    let sandbox = node.sandbox(pod)?;
    let (mut creates, mut starts) = (Times::default(), Times::default());
    for round in 0..rounds + WARM_UP {
        // Each side comes first as often as the others.
        for turn in 0..SIDES.len() {
            let at = (turn + round as usize) % SIDES.len();
            plug(node, SIDES[at])?;
            for number in 0..=CREATES {
                let attempt = (round * 3 + at as u32) * (CREATES + 1) + number;
                let (create, start) = timed(node, pod, &sandbox, attempt)?;
                if number > 0 && round >= WARM_UP {
                    creates[at].push(create);
                    starts[at].push(start);
                }
            }
        }
    }
    println!("\n{what}: {rounds} rounds of {CREATES} a side, in milliseconds");
    report("create", &creates);
    report("create and start", &sums(&creates, &starts));
    node.stop_maitred()?;
    node.remove_pod(pod, &sandbox)
}

fn plug(node: &mut Node, side: Side) -> Result<()> {
    node.stop_maitred()?;
    match side {
        Side::NoPlugin => Ok(()),
        Side::Idle => node.start_idle_plugin(),
        Side::Maitred => node.start_maitred(&Settings::ENFORCE),
    }
}

/// How long a container took to be created, and then to be started.
fn timed(node: &Node, pod: &Pod, sandbox: &str, attempt: u32) -> Result<(f64, f64)> {
    let millis = |since: Instant| since.elapsed().as_secs_f64() * 1000.0;
    let begin = Instant::now();
    let id = node.create(pod, &pod.containers[0], sandbox, attempt)?;
    let create = millis(begin);
    let begin = Instant::now();
    node.cri.start_container(&id)?;
    let start = millis(begin);
    node.cri.stop_container(&id)?;
    node.cri.remove_container(&id)?;
    Ok((create, start))
}

fn sums(one: &Times, other: &Times) -> Times {
    let sum = |at: usize| one[at].iter().zip(&other[at]).map(|(a, b)| a + b).collect();
    [sum(0), sum(1), sum(2)]
}

fn report(what: &str, times: &Times) {
    println!("\n{what:<34} {:>8} {:>8} {:>8}", "p50", "p90", "of");
    for (side, times) in SIDES.iter().zip(times) {
        println!(
            "  {:<32} {:>8.2} {:>8.2} {:>8}",
            side.name(),
            quantile(times, 0.5),
            quantile(times, 0.9),
            times.len()
        );
    }
    let [none, idle, maitred] = times;
    report_pair("doing nothing over no plugin", idle, none);
    report_pair("maitred over no plugin", maitred, none);
    report_pair("maitred over doing nothing", maitred, idle);
}

/// The median of what one side took more than the other in the same place of the same round.
fn report_pair(what: &str, more: &[f64], less: &[f64]) {
    let pairs = || more.iter().zip(less);
    let difference = quantile(&pairs().map(|(more, less)| more - less).collect::<Vec<_>>(), 0.5);
    let ratio = quantile(&pairs().map(|(more, less)| more / less).collect::<Vec<_>>(), 0.5);
    println!("  {what:<32} {difference:>+8.2} ms, {:>+.1} %, medians of pairs", (ratio - 1.0) * 100.0);
}

fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len().saturating_sub(1) as f64 * part).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}
