//! The DEB on a node with systemd: installed, started, upgraded, brought down, taken away, while containers run.
//!
//! One story and not scenarios: each check goes on where the last one ended. After each of them all containers are as they
//! were (`Host::is_undisturbed`), whatever the check itself was about.

mod containerd;
mod daemon;
mod host;
mod install;
mod outages;
mod prelaunched;
mod removal;
mod sandbox;
mod systemd;
mod tenants;
mod upgrades;

use crate::options::Options;
use anyhow::{Context, Result, anyhow};
use host::Host;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// A step of the story; what it returns is a figure for its reader, or nothing.
struct Check {
    name: &'static str,
    run: fn(&mut Host) -> Result<String>,
}

const STORY: &[&[Check]] =
    &[install::ALL, sandbox::ALL, outages::ALL, upgrades::ALL, prelaunched::ALL, removal::ALL];

/// A story that has gone wrong so often tells nothing more.
const ENOUGH: u32 = 4;

pub fn run(options: &Options) -> Result<bool> {
    let begin = Instant::now();
    let mut host = Host::set_up(options)?;
    println!("set up in {:.1} s", begin.elapsed().as_secs_f64());
    let (mut passed, mut failed, mut left) = (0, 0, 0);
    for check in STORY.iter().copied().flatten() {
        if failed >= ENOUGH {
            left += 1;
            continue;
        }
        let begin = Instant::now();
        let verdict = one(&mut host, check);
        let seconds = begin.elapsed().as_secs_f64();
        match verdict {
            Ok(note) => {
                passed += 1;
                println!(
                    "ok    {:<72} {seconds:6.1} s{}{note}",
                    check.name,
                    if note.is_empty() { "" } else { "  " }
                );
            }
            Err(error) => {
                failed += 1;
                println!("FAIL  {:<72} {seconds:6.1} s\n      {error:#}", check.name);
                host.show_logs();
            }
        }
    }
    if left > 0 {
        println!("not tried after {ENOUGH} failures: {left}");
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

fn one(host: &mut Host, check: &Check) -> Result<String> {
    let ended = catch_unwind(AssertUnwindSafe(|| (check.run)(host))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(anyhow!("panicked: {}", text.unwrap_or_else(|| "with no text".to_owned())))
    });
    let note = ended?;
    host.is_undisturbed().context("afterwards")?;
    Ok(note)
}
