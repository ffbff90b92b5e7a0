//! `maitred plan`: seats pods on a machine without touching it.

mod json;
pub mod manifest;
mod pods;
mod qos;
pub(in crate::cli) mod seat;
pub(in crate::cli) mod table;
pub(in crate::cli) mod text;

use super::output::{self, Format};
use super::{CliError, Exit, machine};
use crate::config::Config;
use manifest::{Manifest, PodError};
use pods::Pod;
use seat::Room;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use table::Style;

/// Seat pods on a machine without touching it
///
/// Seats them in the order given and beside each other, as on an otherwise empty node, by the same engine and the
/// same annotations that decide when containers start. Exits with 1 if any is rejected.
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
    /// How many replicas of the last pod fit beside those before it
    #[arg(long)]
    pub fill: bool,
    /// What to print
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Format,
}

/// Plans.
///
/// # Errors
/// A file, the configuration or the machine cannot be read.
pub fn run(args: &Args) -> Result<Exit, CliError> {
    let config = Config::load(args.config.as_deref())?;
    let mut pods = pods(&args.files, &config)?;
    let topology = args.machine.read(&config.gpu.driver_root)?;
    let mut room = Room::new(&topology, &config)
        .map_err(|source| CliError::Machine { origin: args.machine.origin(), source })?;
    let last = if args.fill { pods.pop() } else { None };
    let seated: Vec<_> = pods.into_iter().map(|pod| room.seat(pod)).collect();
    let fill = last.as_ref().map(|pod| (pod, room.fill(pod)));
    let fill = fill.as_ref().map(|(pod, fill)| (*pod, fill));
    if args.output == Format::Json {
        seated.iter().for_each(|seated| tell(&seated.pod));
        last.iter().for_each(tell);
    }
    output::print(&match args.output {
        Format::Json => json::print(&room, &seated, fill),
        Format::Text => text::print(&room, &seated, fill, style()),
    })?;
    let none = fill.is_some_and(|(_, fill)| fill.seated.is_empty() && fill.next.is_some());
    match none || seated.iter().any(|seated| seated.verdict.is_err()) {
        true => Ok(Exit::Negative),
        false => Ok(Exit::Fine),
    }
}

fn tell(pod: &Pod) {
    pod.notes.iter().for_each(|note| output::note(&format!("{}: {note}", pod.title())));
}

/// Colours on a terminal, unless `NO_COLOR` is set.
pub(in crate::cli) fn style() -> Style {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Style { colours: !plain && std::io::stdout().is_terminal() }
}

fn pods(files: &[PathBuf], config: &Config) -> Result<Vec<Pod>, CliError> {
    let mut manifests: Vec<Manifest> = Vec::new();
    for path in files {
        let (name, text) = read(path)?;
        let (pods, warnings) = manifest::read(&name, &text)?;
        warnings.iter().for_each(|warning| output::note(warning));
        manifests.extend(pods);
    }
    if manifests.is_empty() {
        let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        return Err(PodError::NoPod { files: files.join(", ") }.into());
    }
    let pods = manifests.iter().enumerate().map(|(number, manifest)| pods::pod(manifest, number, config));
    Ok(pods.collect::<Result<_, _>>()?)
}

fn read(path: &Path) -> Result<(String, String), CliError> {
    let mut text = String::new();
    let (name, result) = match path == Path::new("-") {
        true => ("standard input".into(), std::io::stdin().read_to_string(&mut text).map(|_| ())),
        false => (path.display().to_string(), std::fs::read_to_string(path).map(|read| text = read)),
    };
    result.map_err(|source| CliError::Read { path: path.to_owned(), source })?;
    Ok((name, text))
}
