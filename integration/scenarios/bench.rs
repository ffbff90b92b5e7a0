//! What maitred costs a container's creation, natively, in pairs: one create without it, one with
//! it, so that whatever else the machine does weighs on both alike.

use crate::node::Node;
use crate::pod::Pod;
use crate::settings::Settings;
use anyhow::Result;
use std::time::{Duration, Instant};

/// The first creates warm caches on both sides.
const WARM_UP: u32 = 5;

pub fn create(node: &mut Node, pairs: u32) -> Result<()> {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let pod = Pod::burstable("bench", 100);
    let sandbox = node.sandbox(&pod)?;
    for pair in 0..pairs + WARM_UP {
        node.stop_maitred()?;
        let plain = timed_create(node, &pod, &sandbox, 2 * pair)?;
        node.start_maitred(&Settings::ENFORCE)?;
        let seated = timed_create(node, &pod, &sandbox, 2 * pair + 1)?;
        if pair >= WARM_UP {
            without.push(plain);
            with.push(seated);
        }
    }
    let millis =
        |times: Vec<Duration>| times.iter().map(|time| time.as_secs_f64() * 1000.0).collect::<Vec<_>>();
    let (without, with) = (millis(without), millis(with));
    let difference = with.iter().zip(&without).map(|(with, without)| with - without).collect();
    println!("create, no plugin:   median {:.2} ms", median(without));
    println!("create, maitred:     median {:.2} ms", median(with));
    println!("difference in pairs: median {:.2} ms over {pairs} pairs", median(difference));
    Ok(())
}

fn timed_create(node: &Node, pod: &Pod, sandbox: &str, attempt: u32) -> Result<Duration> {
    let begin = Instant::now();
    let id = node.create(pod, &pod.containers[0], sandbox, attempt)?;
    let took = begin.elapsed();
    node.cri.remove_container(&id)?;
    Ok(took)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
