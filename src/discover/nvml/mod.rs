//! GPUs as NVIDIA's library describes them.
//!
//! The library is opened for one read and shut again: held open it would keep the driver from being
//! unloaded and MIG from being changed.

mod links;

pub(super) use links::Links;

use super::{DiscoverError, NvmlLibrary, Warning};
use crate::model::{Id, NodeId, NodeSet, PciAddress};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::ffi::{OsStr, c_ulong};
use std::path::{Path, PathBuf};

/// One GPU; what could not be read is `None` and has its warning.
pub(super) struct NvmlGpu {
    pub index: u32,
    pub pci: PciAddress,
    pub uuid: Option<String>,
    pub minor: Option<u32>,
    pub model: Option<String>,
    /// The host's node next to it, where NVML names exactly one.
    pub near: Option<NodeId>,
    /// The node that its own memory is.
    pub own_node: Option<NodeId>,
    pub links: Links,
}

/// All GPUs the driver offers, by index; `None` where there is no usable library.
pub(super) fn read(
    library: &NvmlLibrary,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Vec<NvmlGpu>>, DiscoverError> {
    let Some(nvml) = open(library, warnings) else { return Ok(None) };
    let gpus = read_all(&nvml, warnings);
    if let Err(error) = nvml.shutdown() {
        tracing::warn!(%error, "NVML does not shut down");
    }
    gpus.map(Some)
}

fn open(library: &NvmlLibrary, warnings: &mut Vec<Warning>) -> Option<Nvml> {
    let candidates = match library {
        NvmlLibrary::Off => return None,
        NvmlLibrary::At(path) => vec![path.clone()],
        NvmlLibrary::DriverRoot(root) => candidates(root),
    };
    for path in candidates {
        match Nvml::builder().lib_path(path.as_os_str()).init() {
            Ok(nvml) => return Some(nvml),
            // A name that the loader does not find: no driver on this machine.
            Err(NvmlError::LibloadingError(error)) if !path.is_absolute() => {
                tracing::debug!(library = %path.display(), %error, "no NVML");
            }
            Err(NvmlError::DriverNotLoaded) => {
                tracing::info!(library = %path.display(), "NVML is here, the NVIDIA driver is not loaded");
                return None;
            }
            Err(error) => {
                let library = path.display().to_string();
                warnings.push(Warning::NvmlUnusable { library, why: error.to_string() });
                return None;
            }
        }
    }
    None
}

/// The name as the loader knows it, then the places distributions and driver containers use.
fn candidates(driver_root: &Path) -> Vec<PathBuf> {
    const NAME: &str = "libnvidia-ml.so.1";
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let dirs = [
        "usr/lib64".into(),
        format!("usr/lib/{triple}"),
        "usr/lib".into(),
        "lib64".into(),
        format!("lib/{triple}"),
    ];
    let of_loader = (driver_root == Path::new("/")).then(|| PathBuf::from(OsStr::new(NAME)));
    let in_root = dirs.iter().map(|dir| driver_root.join(dir).join(NAME)).filter(|path| path.exists());
    of_loader.into_iter().chain(in_root).collect()
}

fn read_all(nvml: &Nvml, warnings: &mut Vec<Warning>) -> Result<Vec<NvmlGpu>, DiscoverError> {
    let count = nvml.device_count().map_err(|source| DiscoverError::GpuCount { source })?;
    (0..count).map(|index| read_one(nvml, index, warnings)).collect()
}

fn read_one(nvml: &Nvml, index: u32, warnings: &mut Vec<Warning>) -> Result<NvmlGpu, DiscoverError> {
    let unknown = |call| move |source| DiscoverError::GpuIdentity { index, call, source };
    let device = nvml.device_by_index(index).map_err(unknown("handle by index"))?;
    let bus_id = device.pci_info().map_err(unknown("PCI information"))?.bus_id;
    let pci = bus_id.parse().map_err(|_| DiscoverError::GpuAddress { index, found: bus_id })?;
    let mut ask = Ask { index, pci, warnings };
    Ok(NvmlGpu {
        index,
        pci,
        uuid: ask.field("the UUID", device.uuid()),
        minor: ask.field("the device minor", device.minor_number()),
        model: ask.field("the product's name", device.name()),
        near: near(&device, &mut ask),
        own_node: ask.extra("the memory node", device.numa_node_id()).map(NodeId),
        links: links::read(&device, &mut ask),
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

/// The host node next to the GPU. Several nodes are no answer: it sits on one of them.
fn near(device: &Device, ask: &mut Ask) -> Option<NodeId> {
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
