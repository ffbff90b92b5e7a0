//! Runs the scenarios one after the other and counts.

use crate::expect;
use crate::node::Node;
use crate::options::{Lane, Options};
use crate::scenarios::{self, Lanes, Scenario};
use anyhow::{Error, Result, anyhow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

const LOG_LINES: usize = 25;

impl Scenario {
    fn is_for(&self, lane: Lane) -> bool {
        match self.lanes {
            Lanes::Both => true,
            Lanes::Native => lane == Lane::Native,
            Lanes::Guest => lane == Lane::Guest,
        }
    }
}

pub fn selected(options: &Options) -> impl Iterator<Item = &'static Scenario> {
    scenarios::ALL.iter().copied().flatten().filter(|scenario| {
        let asked = options.only.as_ref().is_none_or(|part| scenario.name.contains(part.as_str()));
        asked && scenario.is_for(options.lane)
    })
}

pub fn set_up(node: &mut Node) -> Result<()> {
    let begin = Instant::now();
    node.start_containerd()?;
    let ready = begin.elapsed();
    node.import_images()?;
    let version = node.cri.version()?;
    println!(
        "{} {}: ready after {:.1} s, images in {:.1} s",
        version.runtime_name,
        version.runtime_version,
        ready.as_secs_f64(),
        (begin.elapsed() - ready).as_secs_f64()
    );
    Ok(())
}

pub fn run(node: &mut Node, options: &Options) -> Result<bool> {
    let (mut passed, mut failed) = (0, 0);
    let mut failures = Vec::new();
    for scenario in selected(options) {
        let begin = Instant::now();
        let marks = (node.containerd.mark(), node.maitred.mark());
        let verdict = one(node, scenario, options);
        let seconds = begin.elapsed().as_secs_f64();
        match verdict {
            Ok(note) => {
                passed += 1;
                println!("ok    {:<57} {seconds:6.1} s{note}", scenario.name);
            }
            Err(error) => {
                failed += 1;
                failures.push(scenario.name);
                println!("FAIL  {:<57} {seconds:6.1} s\n      {error:#}", scenario.name);
                show_logs(node, marks);
                node.distrust();
            }
        }
    }
    if !failures.is_empty() {
        println!("failed: {}", failures.join(", "));
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0 && passed > 0)
}

/// A scenario's outcome; a panic in it is its failure and not the run's end.
fn one(node: &mut Node, scenario: &Scenario, options: &Options) -> Result<String> {
    node.prepare(&scenario.settings)?;
    let ended = catch_unwind(AssertUnwindSafe(|| (scenario.run)(node))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(anyhow!("panicked: {}", text.unwrap_or_else(|| "with no text".to_owned())))
    });
    if options.without_maitred { must_fail(ended) } else { ended.map(|()| String::new()) }
}

/// What passes with no maitred on the node proves nothing about maitred; nor does a call that failed.
fn must_fail(outcome: Result<()>) -> Result<String> {
    match outcome {
        Ok(()) => Err(anyhow!("passes without maitred: it does not test maitred")),
        Err(error) if expect::is_unmet(&error) => {
            Ok(format!("  fails without maitred, as it must: {}", first_line(&error)))
        }
        Err(error) => Err(error.context("fails without maitred for another reason than an expectation")),
    }
}

fn first_line(error: &Error) -> String {
    let text = format!("{error:#}");
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(110).collect()
}

pub fn show_logs(node: &Node, marks: (u64, u64)) {
    print!("{}{}", node.containerd.tail(marks.0, LOG_LINES), node.maitred.tail(marks.1, LOG_LINES));
}
