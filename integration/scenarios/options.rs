//! What the runner is told on its command line.

use clap::{Args, Parser, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Lane {
    /// A chroot on this machine: everything but NUMA.
    Native,
    /// The emulated machine with four NUMA nodes.
    Guest,
}

impl Lane {
    /// How long a started container may take to reach its own program.
    pub fn start_limit(self) -> Duration {
        Duration::from_secs(match self {
            Lane::Native => 10,
            Lane::Guest => 120,
        })
    }

    /// maitred's own deadline: its default natively; under emulation everything takes its time.
    pub fn deadline_ms(self) -> u64 {
        match self {
            Lane::Native => 1000,
            Lane::Guest => 30_000,
        }
    }
}

/// The seed of every run that is told no other: its short life has a bit of everything.
pub const USUAL_SEED: u64 = 206;

/// How the generated life of a node runs.
#[derive(Debug, Clone, Args)]
pub struct Churn {
    /// Where the random numbers of the churn begin: the same life again, as far as threads allow.
    #[arg(long, default_value_t = USUAL_SEED)]
    pub seed: u64,
    /// How many steps the churn has; absent, as many as a short run has time for.
    #[arg(long)]
    pub steps: Option<usize>,
}

/// Plays the kubelet against a real containerd and checks what containers really get.
#[derive(Debug, Parser)]
pub struct Options {
    #[arg(long, value_enum, default_value = "native")]
    pub lane: Lane,
    /// Only scenarios whose name contains this.
    #[arg(long)]
    pub only: Option<String>,
    /// Run with no maitred at all: each scenario passes here by failing, which proves that it tests
    /// something.
    #[arg(long)]
    pub without_maitred: bool,
    #[command(flatten)]
    pub churn: Churn,
    /// Seat a few pods and print a table of who sits where.
    #[arg(long)]
    pub demo: bool,
    /// Install, start, upgrade and take away the payload's DEBs, on a node whose process 1 is systemd.
    #[arg(long)]
    pub packages: bool,
    /// Print the names of the lane's scenarios.
    #[arg(long)]
    pub list: bool,
    /// Time container creates with no plugin, with one that does nothing and with maitred, in turn.
    #[arg(long, value_name = "ROUNDS")]
    pub bench_create: Option<u32>,
    /// Time pods with the kubelet's podresources service and without it, in turn.
    #[arg(long, value_name = "ROUNDS")]
    pub bench_podresources: Option<u32>,
    /// Be that plugin which does nothing.
    #[arg(long, value_name = "SOCKET")]
    pub idle_plugin: Option<PathBuf>,
    /// Where maitred, libfake_nvml.so and images.tar are.
    #[arg(long, default_value = "/opt/lane")]
    pub payload: PathBuf,
}
