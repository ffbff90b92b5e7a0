//! What the daemon itself takes: from its start until containerd has taken it in, and connected with nothing to do.

use super::quantile;
use crate::node::Node;
use crate::observe;
use crate::settings::Settings;
use anyhow::{Context, Result};
use std::fs;
use std::time::{Duration, Instant};

const STARTS: u32 = 10;
/// Settling after its registration, before the idle time is counted.
const SETTLE: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(60);

pub fn measure(node: &mut Node, what: &str) -> Result<()> {
    let starts = (0..STARTS).map(|_| start(node)).collect::<Result<Vec<f64>>>()?;
    println!("\nthe daemon, {what}");
    println!(
        "  {:<32} {:>8.1} ms p50, {:.1} ms p90, of {STARTS}",
        "start to registered",
        quantile(&starts, 0.5),
        quantile(&starts, 0.9)
    );
    std::thread::sleep(SETTLE);
    let pid = node.maitred.pid().context("maitred runs")?;
    let before = Ran::read(pid)?;
    std::thread::sleep(IDLE);
    let ran = Ran::read(pid)?;
    let seconds = IDLE.as_secs_f64();
    println!(
        "  {:<32} {:>8.3} % of a CPU, {:.1} wake-ups a second, in {seconds} s",
        "idle",
        (ran.nanoseconds - before.nanoseconds) as f64 / 1e7 / seconds,
        (ran.wakeups - before.wakeups) as f64 / seconds
    );
    let status = observe::proc(pid, "status")?;
    let size = |name: &str| number(&status, name).map(|kib| kib as f64 * 1024.0 / 1e6);
    println!(
        "  {:<32} {:>8.1} MB, {:.1} MB of it its own, at most {:.1} MB",
        "resident",
        size("VmRSS")?,
        size("RssAnon")?,
        size("VmHWM")?
    );
    Ok(())
}

/// Milliseconds of one start, a process that was killed before it.
fn start(node: &mut Node) -> Result<f64> {
    node.stop_maitred()?;
    let mark = node.containerd.mark();
    let begin = Instant::now();
    node.launch_maitred(&Settings::ENFORCE)?;
    while !node.containerd.since(mark).contains(node.version.registered()) {
        node.maitred.check_alive()?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(begin.elapsed().as_secs_f64() * 1000.0)
}

/// What all threads of a process have run, and how often they fell asleep by themselves.
struct Ran {
    nanoseconds: u64,
    wakeups: u64,
}

impl Ran {
    fn read(pid: u32) -> Result<Ran> {
        let mut ran = Ran { nanoseconds: 0, wakeups: 0 };
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let thread = thread?.path();
            let times = fs::read_to_string(thread.join("schedstat"))?;
            let on_cpu = times.split(' ').next().context("schedstat is empty")?;
            ran.nanoseconds += on_cpu.parse::<u64>().with_context(|| format!("schedstat: {times}"))?;
            let status = fs::read_to_string(thread.join("status"))?;
            ran.wakeups += number(&status, "voluntary_ctxt_switches")?;
        }
        Ok(ran)
    }
}

/// The number of a line of /proc/PID/status, before its unit.
fn number(status: &str, name: &str) -> Result<u64> {
    let text = observe::field(status, name)?;
    let digits = text.split(' ').next().unwrap_or_default();
    digits.parse().with_context(|| format!("{name} in /proc/PID/status is {text:?}: expected a number"))
}
