//! GPUs as NVIDIA's library describes them.
//!
//! The library is opened for one read and shut again: held open it would keep the driver from being
//! unloaded and MIG from being changed.

mod links;
mod mig;

pub(super) use links::Links;

use super::{NvmlLibrary, Warning};
use crate::model::{Id, Mig, NodeId, NodeSet, PciAddress, PciDistance};
use nvml_wrapper::enum_wrappers::device::TopologyLevel;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::collections::BTreeMap;
use std::ffi::{OsStr, c_ulong};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// One GPU; what could not be read is `None` and has its warning.
pub(super) struct NvmlGpu {
    pub index: u32,
    pub pci: PciAddress,
    pub uuid: Option<String>,
    pub minor: Option<u32>,
    pub model: Option<String>,
    /// The host's node next to it, where NVML names exactly one.
    pub host_node: Option<NodeId>,
    /// The node that its own memory is.
    pub own_node: Option<NodeId>,
    pub links: Links,
    /// How far the others are, by their index.
    pub near: BTreeMap<u32, PciDistance>,
    pub mig: Vec<Mig>,
}

/// What the driver offers.
pub(super) struct Offered {
    /// GPUs that could be told apart, by index.
    pub gpus: Vec<NvmlGpu>,
    /// Indices of GPUs that are counted and do not say which they are, each with the reason.
    pub nameless: Vec<(u32, String)>,
}

/// All GPUs the driver offers; `None` where there is no usable library.
pub(super) fn read(library: &NvmlLibrary, warnings: &mut Vec<Warning>) -> Option<Offered> {
    let (nvml, path) = open(library, warnings)?;
    let offered = read_all(&nvml, &path, warnings);
    if let Err(error) = nvml.shutdown() {
        tracing::warn!(%error, "NVML does not shut down");
    }
    offered
}

fn open(library: &NvmlLibrary, warnings: &mut Vec<Warning>) -> Option<(Nvml, PathBuf)> {
    let candidates = match library {
        NvmlLibrary::Off => return None,
        NvmlLibrary::At(path) => vec![path.clone()],
        NvmlLibrary::DriverRoot(root) => candidates(root),
    };
    let mut failed = None;
    for path in candidates {
        match Nvml::builder().lib_path(path.as_os_str()).init() {
            Ok(nvml) => return Some((nvml, path)),
            // A name that the loader does not find: no driver on this machine.
            Err(NvmlError::LibloadingError(error)) if !path.is_absolute() => {
                tracing::debug!(library = %path.display(), %error, "no NVML");
            }
            Err(NvmlError::DriverNotLoaded) => {
                tracing::info!(library = %path.display(), "NVML is here, the NVIDIA driver is not loaded");
                return None;
            }
            // A library of another version than the driver's may lie beside the right one.
            Err(error) => {
                let (library, why) = (path.display().to_string(), error.to_string());
                failed.get_or_insert(Warning::NvmlUnusable { library, why });
            }
        }
    }
    warnings.extend(failed);
    None
}

const NAME: &str = "libnvidia-ml.so.1";
/// Where the GPU Operator's driver container leaves its files on the host.
const OPERATOR_ROOT: &str = "/run/nvidia/driver";

/// The name as the loader knows it, then the library files there are.
fn candidates(driver_root: &Path) -> Vec<PathBuf> {
    let of_loader = (driver_root == Path::new("/")).then(|| PathBuf::from(OsStr::new(NAME)));
    of_loader.into_iter().chain(libraries(driver_root)).collect()
}

/// The library where distributions and driver containers put it; on the host itself also below the GPU Operator's
/// driver root.
pub(super) fn libraries(driver_root: &Path) -> Vec<PathBuf> {
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let dirs = [
        "usr/lib64".into(),
        format!("usr/lib/{triple}"),
        "usr/lib".into(),
        "lib64".into(),
        format!("lib/{triple}"),
    ];
    let operator = (driver_root == Path::new("/")).then_some(Path::new(OPERATOR_ROOT));
    let below = |root: &Path| dirs.iter().map(|dir| root.join(dir).join(NAME)).collect::<Vec<_>>();
    let roots = std::iter::once(driver_root).chain(operator);
    roots.flat_map(below).filter(|path| path.exists()).collect()
}

fn read_all(nvml: &Nvml, path: &Path, warnings: &mut Vec<Warning>) -> Option<Offered> {
    let count = match nvml.device_count() {
        Ok(count) => count,
        Err(error) => {
            let why = format!("it cannot count the GPUs: {error}");
            warnings.push(Warning::NvmlUnusable { library: path.display().to_string(), why });
            return None;
        }
    };
    let mut offered = Offered { gpus: Vec::new(), nameless: Vec::new() };
    let mut handles = Vec::new();
    for index in 0..count {
        match identity(nvml, index) {
            Ok((device, pci)) => handles.push((index, device, pci)),
            Err(why) => offered.nameless.push((index, why)),
        }
    }
    for (index, device, pci) in &handles {
        let mut ask = Ask { index: *index, pci: *pci, warnings };
        let others = handles.iter().filter(|(other, ..)| other != index);
        let near = others.filter_map(|(other, there, _)| Some((*other, distance(nvml, device, there)?)));
        offered.gpus.push(read_one(device, near.collect(), &mut ask));
    }
    Some(offered)
}

/// Which GPU an index is, or why it does not say.
fn identity(nvml: &Nvml, index: u32) -> Result<(Device<'_>, PciAddress), String> {
    let device = nvml.device_by_index(index).map_err(|error| format!("handle by index: {error}"))?;
    let bus_id = device.pci_info().map_err(|error| format!("PCI information: {error}"))?.bus_id;
    let pci = bus_id.parse().map_err(|error: crate::model::PciAddressError| error.to_string())?;
    Ok((device, pci))
}

fn read_one(device: &Device, near: BTreeMap<u32, PciDistance>, ask: &mut Ask) -> NvmlGpu {
    NvmlGpu {
        index: ask.index,
        pci: ask.pci,
        uuid: ask.field("the UUID", device.uuid()),
        minor: ask.field("the device minor", device.minor_number()),
        model: ask.field("the product's name", device.name()),
        host_node: host_node(device, ask),
        own_node: ask.extra("the memory node", device.numa_node_id()).map(NodeId),
        links: links::read(device, ask),
        near,
        mig: mig::read(device, ask),
    }
}

/// How far two GPUs are from each other, as `nvidia-smi topo` has it. What it does not tell the kernel's paths do, so
/// that one sick GPU is no reason for a warning about each of the others.
fn distance(nvml: &Nvml, one: &Device, other: &Device) -> Option<PciDistance> {
    let level = nvml.topology_common_ancestor(one, other);
    let level = level.inspect_err(|error| tracing::debug!(%error, "NVML does not tell a distance")).ok()?;
    Some(match level {
        TopologyLevel::Internal | TopologyLevel::Single => PciDistance::Pix,
        TopologyLevel::Multiple => PciDistance::Pxb,
        TopologyLevel::HostBridge => PciDistance::Phb,
        TopologyLevel::Node => PciDistance::Node,
        TopologyLevel::System => PciDistance::Sys,
    })
}

/// One GPU's questions: what has no answer becomes a warning.
struct Ask<'w> {
    index: u32,
    pci: PciAddress,
    warnings: &'w mut Vec<Warning>,
}

impl Ask<'_> {
    /// Something every GPU has.
    fn field<T>(&mut self, field: &'static str, answer: Result<T, NvmlError>) -> Option<T> {
        answer.map_err(|error| self.warn(field, error.to_string())).ok()
    }

    /// Something that some GPUs or libraries do not have: not having it is no warning.
    fn extra<T>(&mut self, field: &'static str, answer: Result<T, NvmlError>) -> Option<T> {
        match answer {
            Err(error) if is_lacking(&error) => None,
            other => self.field(field, other),
        }
    }

    fn warn(&mut self, field: &'static str, why: String) {
        self.warnings.push(Warning::GpuField { index: self.index, pci: self.pci, field, why });
    }
}

/// Whether the GPU or this version of the library does not know the question.
fn is_lacking(error: &NvmlError) -> bool {
    matches!(error, NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound)
}

/// `NVML_AFFINITY_SCOPE_NODE`: the node itself, not all nodes of its socket.
const SCOPE_NODE: u32 = 0;

/// A function that this version of the library does not have.
fn missing(error: &impl Display) -> NvmlError {
    NvmlError::FailedToLoadSymbol(error.to_string())
}

/// The host node next to the GPU. Several nodes are no answer: it sits on one of them.
fn host_node(device: &Device, ask: &mut Ask) -> Option<NodeId> {
    let words = (NodeId::LIMIT / c_ulong::BITS) as usize;
    let words = ask.extra("the memory affinity", device.memory_affinity(words, SCOPE_NODE))?;
    let nodes = nodes_of(&words);
    if nodes.len() > 1 {
        ask.warn("the memory affinity", format!("it names nodes {nodes}"));
        return None;
    }
    nodes.first()
}

fn nodes_of(words: &[c_ulong]) -> NodeSet {
    let ids = (0..NodeId::LIMIT).filter(|id| {
        let word = words.get((id / c_ulong::BITS) as usize).copied().unwrap_or(0);
        word >> (id % c_ulong::BITS) & 1 == 1
    });
    ids.map(NodeId).collect()
}
