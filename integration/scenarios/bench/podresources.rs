//! What asking the kubelet costs: the same pods with its podresources service there and with it gone, one side
//! after the other over the same containerd and the same maitred.
//!
//! Each pod is new, so that nothing about it is remembered, and the service knows as many other pods as a node
//! holds.

use super::{CREATES, WARM_UP, quantile, report_pair};
use crate::node::Node;
use crate::pod::{Delivery, Pod};
use crate::podresources::Manner;
use crate::settings::Settings;
use anyhow::{Context, Result};
use std::time::Instant;

/// Pods on a full node (the kubelet's default limit).
const OTHERS: usize = 110;

/// Milliseconds of a sandbox and of its container's creation.
#[derive(Default)]
struct Times {
    sandboxes: Vec<f64>,
    creates: Vec<f64>,
}

/// How the service stands; the first is what the others are held against.
const SIDES: [(&str, Option<Manner>); 3] =
    [("no podresources", None), ("Get", Some(Manner::Current)), ("List alone", Some(Manner::ListOnly))];

pub fn podresources(node: &mut Node, rounds: u32) -> Result<()> {
    node.start_maitred(&Settings::plugin_gpus("keep"))?;
    for number in 0..OTHERS {
        let dongle = (format!("dongle-{number}"), Some(0));
        let other = Pod::burstable(&format!("other-{number}"), 100).allotted("example.com/dongle", [dongle]);
        node.book().admit(&other);
    }
    let mut times: [Times; 3] = Default::default();
    for round in 0..rounds + WARM_UP {
        for turn in 0..SIDES.len() {
            let at = (turn + round as usize) % SIDES.len();
            node.podresources = None;
            if let Some(manner) = SIDES[at].1 {
                node.serve_podresources(manner)?;
            }
            for number in 0..=CREATES {
                let (sandbox, create) = timed(node, &format!("bench-{round}-{at}-{number}"))?;
                if number > 0 && round >= WARM_UP {
                    times[at].sandboxes.push(sandbox);
                    times[at].creates.push(create);
                }
            }
        }
    }
    println!("{rounds} rounds of {CREATES} pods a side, {OTHERS} other pods known, in milliseconds");
    report("sandbox", &times, |times| &times.sandboxes);
    report("create", &times, |times| &times.creates);
    Ok(())
}

fn pod(node: &Node, name: &str) -> Result<Pod> {
    let gpu = node.machine.gpus.first().context("a GPU")?;
    Ok(Pod::burstable(name, 100).gpus(Delivery::Env, &[gpu]))
}

fn timed(node: &Node, name: &str) -> Result<(f64, f64)> {
    let millis = |since: Instant| since.elapsed().as_secs_f64() * 1000.0;
    let pod = pod(node, name)?;
    // The pods come one after the other and are gone again: the GPU is free each time.
    let begin = Instant::now();
    let sandbox = node.sandbox(&pod)?;
    let ran = millis(begin);
    let begin = Instant::now();
    node.create(&pod, &pod.containers[0], &sandbox, 0)?;
    let created = millis(begin);
    node.remove_pod(&pod, &sandbox)?;
    Ok((ran, created))
}

fn report(what: &str, times: &[Times; 3], of: impl Fn(&Times) -> &Vec<f64>) {
    println!("\n{what:<34} {:>8} {:>8} {:>8}", "p50", "p90", "of");
    for ((name, _), times) in SIDES.iter().zip(times) {
        let of = of(times);
        println!("  {name:<32} {:>8.2} {:>8.2} {:>8}", quantile(of, 0.5), quantile(of, 0.9), of.len());
    }
    for at in 1..SIDES.len() {
        report_pair(&format!("{} over {}", SIDES[at].0, SIDES[0].0), of(&times[at]), of(&times[0]));
    }
}
