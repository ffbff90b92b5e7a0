//! The machine: what the kernel, the NVIDIA driver, CDI specs and the kubelet say of it.
//!
//! Every file is read through a [`Root`], so a gathered tree of another machine reads like this one.
//! What is not there is told apart from what cannot be read; what contradicts itself is an error that
//! names the file, because a wrong topology gives false alignment.

mod cdi;
mod char_devices;
pub mod containerd;
mod cpus;
mod error;
mod globs;
mod gpus;
pub mod kubelet;
mod nics;
mod nodes;
mod nvml;
mod parse;
mod pci;
mod place;
mod plugins;
mod processes;
mod root;
mod sign;
mod signs;
pub mod snapshot;
mod sockets;
mod yaml;

pub use error::{DiscoverError, Warning};
pub use kubelet::{
    CpuManager, Kubelet, KubeletCpuState, PodName, kubelet_cpu_manager, kubelet_cpu_policy, kubelet_devices,
};
pub use nodes::free_hugepages;
pub use place::{Place, Said};
pub use plugins::{PluginFile, nri_plugins};
pub use processes::{Process, processes};
pub use root::Root;
pub use sign::{Sign, sign};
pub use signs::{refresh_amounts, signs};
pub use sockets::Sockets;

use crate::model::{NodeSet, Topology};
use std::path::{Path, PathBuf};

/// Where NVIDIA's library is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NvmlLibrary {
    /// Nowhere: GPUs come from sysfs and the driver's proc files.
    Off,
    /// Below the driver's root (`/`, or where a driver container is mounted), in the library
    /// directories distributions use.
    DriverRoot(PathBuf),
    /// This file.
    At(PathBuf),
}

/// How a machine is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where NVIDIA's library is looked for.
    pub nvml: NvmlLibrary,
}

impl Options {
    /// For this machine: NVML below `driver_root`, `/` where none is given. For a gathered tree: no
    /// NVML, as it would speak of this machine.
    #[must_use]
    pub fn for_root(root: &Root, driver_root: Option<&Path>) -> Self {
        let driver_root = driver_root.unwrap_or(Path::new("/"));
        let nvml = match root.is_host() {
            true => NvmlLibrary::DriverRoot(driver_root.into()),
            false => NvmlLibrary::Off,
        };
        Self { nvml }
    }
}

/// Asks NVIDIA's library all that [`machine`] asks it, and forgets the answers: a driver that hangs hangs whoever asks.
pub fn ask_driver(driver_root: &Path) {
    // Whatever the answer, it is one.
    let _ = nvml::read(&NvmlLibrary::DriverRoot(driver_root.into()), &mut Vec::new());
}

/// A machine, and what is odd about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The machine.
    pub topology: Topology,
    /// What its owner should know.
    pub warnings: Vec<Warning>,
}

/// Reads the whole machine: some hundred small files, and NVML once.
///
/// # Errors
/// Where something needed is absent, unreadable, malformed or contradictory.
pub fn machine(root: &Root, options: &Options) -> Result<Machine, DiscoverError> {
    let mut warnings = Vec::new();
    let cpus = cpus::read(root, &mut warnings)?;
    let numa_nodes = nodes::read(root, &cpus.online)?;
    let nodes: NodeSet = numa_nodes.iter().map(|node| node.id).collect();
    let pci = pci::read(root, &nodes, &mut warnings)?;
    let around = gpus::Around { functions: &pci, nodes: &nodes };
    let gpus = gpus::read(root, options, &around, &mut warnings)?;
    let mig_nodes = gpus::mig_nodes(root, &gpus)?;
    let nics = nics::read(root, &pci)?;
    let topology = Topology {
        cpus: cpus.online,
        isolated: cpus.isolated,
        packages: cpus.packages,
        numa_nodes,
        cores: cpus.cores,
        llcs: cpus.llcs,
        gpus,
        mig_nodes,
        nics,
        pci,
        nodes: char_devices::read(root)?,
        cdi: cdi::read(root, &mut warnings),
        possible: cpus.possible,
        pods_cpus: cpus.pods,
    };
    Ok(Machine { topology, warnings })
}

/// Reads the whole machine and logs what is odd about it.
///
/// # Errors
/// As [`machine`].
pub fn topology(root: &Root, options: &Options) -> Result<Topology, DiscoverError> {
    let Machine { topology, warnings } = machine(root, options)?;
    for warning in warnings {
        tracing::warn!(%warning, "reading the machine");
    }
    Ok(topology)
}
