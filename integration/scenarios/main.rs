//! Plays the kubelet against a real containerd with maitred beside it, and asserts what containers
//! really get: what their own /proc entries and cgroup files say, never what maitred's log says.
//!
//! Runs inside the native lane's chroot or inside the NUMA guest (see `../lane-*.sh`), as root, with
//! the machine to itself.

mod allotted;
mod bench;
mod cdi;
mod cgroup;
mod classes;
mod containerd;
mod cri;
mod demo;
mod expect;
mod kubelet;
mod list;
mod machine;
mod messages {
    include!(concat!(env!("OUT_DIR"), "/cri/mods.rs"));
}
mod metrics;
mod node;
mod observe;
mod options;
mod packages;
mod pod;
mod podresources;
mod runner;
mod scenarios;
mod service;
mod settings;
mod wait;

use anyhow::Result;
use clap::Parser;
use node::Node;
use options::Options;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn run(options: &Options) -> Result<bool> {
    if options.list {
        runner::selected(options).for_each(|scenario| println!("{}", scenario.name));
        return Ok(true);
    }
    if let Some(socket) = &options.idle_plugin {
        return bench::serve_idle(socket).map(|()| true);
    }
    if options.packages {
        return packages::run(options);
    }
    let mut node = Node::new(options)?;
    let done = runner::set_up(&mut node).and_then(|()| play(&mut node, options));
    if done.is_err() || (options.demo && matches!(done, Ok(false))) {
        runner::show_logs(&node, (0, 0));
    }
    let ended = node.shut_down();
    let passed = done?;
    ended.map(|()| passed)
}

/// What the command line asks for.
fn play(node: &mut Node, options: &Options) -> Result<bool> {
    match (options.bench_create, options.bench_podresources) {
        (Some(rounds), _) => bench::create(node, rounds).map(|()| true),
        (None, Some(rounds)) => bench::podresources(node, rounds).map(|()| true),
        (None, None) if options.demo => demo::run(node),
        (None, None) => runner::run(node, options),
    }
}
