//! `maitred plan`: seats pods on a machine without touching it.

mod fill;
mod json;
pub mod manifest;
mod picture;
mod pods;
mod qos;
mod rules;
pub(in crate::cli) mod seat;
pub(in crate::cli) mod table;
pub(in crate::cli) mod text;

use super::output::{self, Drawn, Paint};
use super::{CliError, Exit, input, machine};
use crate::config::Config;
use manifest::{Manifest, PodError};
use pods::Pod;
use seat::{MOST_REPLICAS, Room};
use std::path::PathBuf;

/// Seat pods on a machine without touching it
///
/// Seats them in the order given and beside each other, as on an otherwise empty node, by the same engine and the
/// same annotations that decide when containers start. Pods are read, and the pods of Deployments, StatefulSets,
/// DaemonSets, ReplicaSets, Jobs and CronJobs, in any number of documents and lists.
///
/// Exits with 1 if any is rejected.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Files with pods or workloads; - is standard input
    #[arg(value_name = "POD.yaml", required = true)]
    pub files: Vec<PathBuf>,
    /// The machine
    #[command(flatten)]
    pub machine: machine::Source,
    /// The configuration [default: /etc/maitred/config.toml, if there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Plan as if the configuration said so, policy.topology=restricted; can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// How many replicas of the last pod fit beside those before it, on which node, and what runs out first
    #[arg(long)]
    pub fill: bool,
    /// Seat as many of each pod as its workload asks for, as if all came to this node
    #[arg(long, conflicts_with = "fill")]
    pub replicas: bool,
    /// What to print
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Drawn,
}

/// Plans.
///
/// # Errors
/// A file, the configuration or the machine cannot be read.
pub fn run(args: &Args) -> Result<Exit, CliError> {
    let config = Config::load_with(args.config.as_deref(), &args.sets)?;
    let standard = args.files.iter().filter(|file| input::is_standard(file)).count();
    if standard + usize::from(args.machine.is_standard_input()) > 1 {
        return Err(CliError::StandardInput);
    }
    let mut pods = pods(args, &config)?;
    let topology = args.machine.read(&config.gpu.driver_root)?;
    let mut room = Room::new(&topology, &config)
        .map_err(|source| CliError::Machine { origin: args.machine.origin(), source })?;
    let last = if args.fill { pods.pop() } else { None };
    let seated: Vec<_> = pods.into_iter().map(|pod| room.seat(pod)).collect();
    let fill = last.as_ref().map(|pod| (pod, room.fill(pod)));
    let fill = fill.as_ref().map(|(pod, fill)| (*pod, fill));
    if args.output == Drawn::Svg {
        seated.iter().for_each(|seated| tell(&seated.pod));
        last.iter().for_each(tell);
    }
    output::print(&match args.output {
        Drawn::Json => json::print(&room, &seated, fill),
        Drawn::Text => text::print(&room, &seated, fill, Paint::of_stdout()),
        Drawn::Svg => picture::print(&room, &seated, fill),
    })?;
    let none = fill.is_some_and(|(_, fill)| fill.seated.is_empty() && fill.next.is_some());
    match none || seated.iter().any(|seated| seated.verdict.is_err()) {
        true => Ok(Exit::Negative),
        false => Ok(Exit::Fine),
    }
}

fn tell(pod: &Pod) {
    pod.remarks().for_each(|note| output::note(&format!("{}: {note}", pod.title())));
}

fn pods(args: &Args, config: &Config) -> Result<Vec<Pod>, CliError> {
    let mut manifests: Vec<Manifest> = Vec::new();
    for path in &args.files {
        let (name, text) = input::read(path)?;
        let (pods, warnings) = manifest::read(&name, &text)?;
        warnings.iter().for_each(|warning| output::note(warning));
        manifests.extend(pods);
    }
    if manifests.is_empty() {
        let files: Vec<_> = args.files.iter().map(|file| file.display().to_string()).collect();
        return Err(PodError::NoPod { files: files.join(", ") }.into());
    }
    let pods = manifests.iter().enumerate().map(|(number, manifest)| pods::pod(manifest, number, config));
    let pods: Vec<Pod> = pods.collect::<Result<_, _>>()?;
    if !args.replicas {
        return Ok(pods);
    }
    let many = |manifest: &&Manifest| manifest.replicas.is_some_and(|replicas| replicas > MOST_REPLICAS);
    match manifests.iter().find(many) {
        Some(manifest) => {
            let expected = format!("expected at most {MOST_REPLICAS} replicas on one node");
            Err(manifest.place.error("spec", expected).into())
        }
        None => Ok(pods.into_iter().flat_map(Pod::copies).collect()),
    }
}
