//! GPUs: from NVML where its library works, else from sysfs and the driver's proc files.
//!
//! The host node is the kernel's `numa_node` of the GPU's PCI function: it is what the device plugin
//! and so the kubelet go by, and where the driver's own allocations land. Where the kernel does not
//! know, NVML's memory affinity counts. Where both know and differ, the kernel's counts and the
//! conflict is a warning.

use super::nvml::{self, NvmlGpu, Offered};
use super::{DiscoverError, Options, Root, Warning, parse, pci};
use crate::model::{Gpu, NodeId, NodeSet, PciAddress, PciDevice};
use std::collections::{BTreeMap, BTreeSet};

const DRIVER: &str = "proc/driver/nvidia/gpus";
const CAPABILITIES: &str = "proc/driver/nvidia/capabilities";
const NVIDIA: u16 = 0x10de;

/// What is known of the machine before its GPUs.
pub(super) struct Around<'a> {
    pub functions: &'a [PciDevice],
    pub nodes: &'a NodeSet,
}

/// Every GPU that containers can get, by index.
pub(super) fn read(
    root: &Root,
    options: &Options,
    around: &Around,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Gpu>, DiscoverError> {
    let files = DriverFiles::of(root)?;
    let mut gpus = match nvml::read(&options.nvml, warnings) {
        Some(offered) => with_nvml(&files, offered, around, warnings)?,
        None => without_nvml(&files, around, warnings)?,
    };
    measure(&mut gpus, around.functions);
    Ok(gpus)
}

/// The distances nobody has told yet, by what the kernel has both GPUs hang below.
fn measure(gpus: &mut [Gpu], functions: &[PciDevice]) {
    let places: Vec<_> = gpus.iter().map(|gpu| (gpu.index, pci::find(functions, gpu.pci))).collect();
    for (gpu, (_, own)) in gpus.iter_mut().zip(&places) {
        for (index, there) in places.iter().filter(|(index, _)| *index != gpu.index) {
            let distance = own.zip(*there).and_then(|(own, there)| own.distance(there));
            if let Some(distance) = distance {
                gpu.near.entry(*index).or_insert(distance);
            }
        }
    }
}

fn with_nvml(
    files: &DriverFiles,
    Offered { gpus: found, nameless }: Offered,
    around: &Around,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Gpu>, DiscoverError> {
    let known: BTreeSet<PciAddress> = found.iter().map(|gpu| gpu.pci).collect();
    let links: Vec<_> = (0..found.len()).map(|at| links_of(&found, at)).collect();
    let mut gpus = Vec::new();
    for (gpu, nvlinks) in found.into_iter().zip(links) {
        gpus.push(one(files, gpu, nvlinks, around, warnings)?);
    }
    // A GPU that is counted and does not say which it is is one of those the kernel has and NVML has not named.
    let mut nameless = nameless.into_iter();
    for function in around.functions.iter().filter(|f| files.is_gpu(f) && !known.contains(&f.pci)) {
        let told = files.information(function.pci)?;
        let left_out = files.why_not(function.pci, &told)?;
        match (left_out, nameless.next()) {
            (None, Some((index, why))) => {
                warnings.push(Warning::GpuNameless { index, pci: function.pci, why });
                gpus.push(from_files(files, index, function, told, around, warnings)?);
            }
            (why, _) => {
                let why = why.unwrap_or_else(|| "NVML does not list it".to_owned());
                warnings.push(Warning::GpuLeftOut { pci: function.pci, why });
            }
        }
    }
    warnings.extend(nameless.map(|(index, why)| Warning::GpuNowhere { index, why }));
    gpus.sort_by_key(|gpu| gpu.index);
    Ok(gpus)
}

/// A GPU as NVML has it; what that does not tell the driver's files may.
fn one(
    files: &DriverFiles,
    gpu: NvmlGpu,
    nvlinks: BTreeMap<u32, u32>,
    around: &Around,
    warnings: &mut Vec<Warning>,
) -> Result<Gpu, DiscoverError> {
    let numa_node = host_node(&gpu, around, warnings);
    let memory_node = match gpu.own_node {
        Some(node) => Some(node),
        None => files.memory_node(gpu.pci)?,
    };
    let told = match (&gpu.uuid, gpu.minor, &gpu.model) {
        (Some(_), Some(_), Some(_)) => Information::default(),
        _ => files.information(gpu.pci)?,
    };
    Ok(Gpu {
        index: gpu.index,
        uuid: gpu.uuid.or(told.uuid),
        pci: gpu.pci,
        minor: gpu.minor.or(told.minor),
        model: gpu.model.or(told.model),
        numa_node,
        memory_node: own_memory(gpu.pci, memory_node, around, warnings),
        nvlinks,
        switch_links: gpu.links.switched,
        near: gpu.near,
        mig: gpu.mig,
    })
}

/// A GPU as the kernel and the driver's files have it.
fn from_files(
    files: &DriverFiles,
    index: u32,
    function: &PciDevice,
    told: Information,
    around: &Around,
    warnings: &mut Vec<Warning>,
) -> Result<Gpu, DiscoverError> {
    let memory_node = files.memory_node(function.pci)?;
    Ok(Gpu {
        index,
        uuid: told.uuid,
        pci: function.pci,
        minor: told.minor,
        model: told.model,
        numa_node: function.numa_node,
        memory_node: own_memory(function.pci, memory_node, around, warnings),
        nvlinks: BTreeMap::new(),
        switch_links: 0,
        near: BTreeMap::new(),
        mig: Vec::new(),
    })
}

/// Which `/dev/nvidia-caps/nvidia-capN` opens which MIG device, as the driver's capability files tell.
pub(super) fn mig_nodes(root: &Root, gpus: &[Gpu]) -> Result<BTreeMap<u32, String>, DiscoverError> {
    let mut nodes = BTreeMap::new();
    for gpu in gpus {
        for (mig, (gi, ci)) in gpu.mig.iter().filter_map(|mig| Some((mig, mig.instance?))) {
            let Some(minor) = gpu.minor else { continue };
            let path = format!("{CAPABILITIES}/gpu{minor}/mig/gi{gi}/ci{ci}/access");
            let text = root.read(&path)?.unwrap_or_default();
            if let Some(minor) = parse::field(&text, "DeviceFileMinor").and_then(parse::digits) {
                nodes.insert(minor, mig.uuid.clone());
            }
        }
    }
    Ok(nodes)
}

fn host_node(gpu: &NvmlGpu, around: &Around, warnings: &mut Vec<Warning>) -> Option<NodeId> {
    let what = || format!("NVML's memory affinity of GPU {} at {}", gpu.index, gpu.pci);
    let kernel = pci::find(around.functions, gpu.pci).and_then(|function| function.numa_node);
    let nvml = pci::online(around.nodes, gpu.host_node, what, warnings);
    if let (Some(kernel), Some(nvml)) = (kernel, nvml)
        && kernel != nvml
    {
        warnings.push(Warning::GpuNode { index: gpu.index, pci: gpu.pci, kernel, nvml });
    }
    kernel.or(nvml)
}

fn own_memory(
    pci: PciAddress,
    node: Option<NodeId>,
    around: &Around,
    warnings: &mut Vec<Warning>,
) -> Option<NodeId> {
    pci::online(around.nodes, node, || format!("the memory of the GPU at {pci}"), warnings)
}

/// Active links to each other GPU. Between two GPUs on switches all of a GPU's own switch links can
/// carry their traffic, so each pair counts them.
fn links_of(gpus: &[NvmlGpu], at: usize) -> BTreeMap<u32, u32> {
    let own = &gpus[at].links;
    let others = gpus.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, gpu)| gpu);
    let count = |other: &NvmlGpu| {
        let switched = if other.links.switched > 0 { own.switched } else { 0 };
        own.direct.get(&other.pci).copied().unwrap_or(0) + switched
    };
    others.map(|other| (other.index, count(other))).filter(|(_, links)| *links > 0).collect()
}

fn without_nvml(
    files: &DriverFiles,
    around: &Around,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Gpu>, DiscoverError> {
    let mut gpus = Vec::new();
    for function in around.functions.iter().filter(|function| files.is_gpu(function)) {
        let told = files.information(function.pci)?;
        if let Some(why) = files.why_not(function.pci, &told)? {
            warnings.push(Warning::GpuLeftOut { pci: function.pci, why });
            continue;
        }
        let index = u32::try_from(gpus.len()).unwrap_or(u32::MAX);
        gpus.push(from_files(files, index, function, told, around, warnings)?);
    }
    Ok(gpus)
}

/// `/proc/driver/nvidia/gpus`, one directory a GPU.
struct DriverFiles<'r> {
    root: &'r Root,
    dirs: BTreeMap<PciAddress, String>,
}

/// The file `information`; what it does not tell is `None`.
#[derive(Default)]
struct Information {
    uuid: Option<String>,
    minor: Option<u32>,
    model: Option<String>,
    excluded: bool,
}

impl<'r> DriverFiles<'r> {
    fn of(root: &'r Root) -> Result<Self, DiscoverError> {
        let names = root.names(DRIVER)?.unwrap_or_default();
        let dirs = names.into_iter().filter_map(|name| Some((name.parse().ok()?, name)));
        Ok(Self { root, dirs: dirs.collect() })
    }

    /// A VGA or 3D controller that is NVIDIA's, by its vendor or because the driver lists it.
    fn is_gpu(&self, function: &PciDevice) -> bool {
        let displays = matches!(function.class >> 8, 0x0300 | 0x0302);
        displays && (function.vendor == Some(NVIDIA) || self.dirs.contains_key(&function.pci))
    }

    fn read(&self, pci: PciAddress, file: &str) -> Result<Option<(String, String)>, DiscoverError> {
        let Some(name) = self.dirs.get(&pci) else { return Ok(None) };
        let path = format!("{DRIVER}/{name}/{file}");
        Ok(self.root.read(&path)?.map(|text| (path, text)))
    }

    fn information(&self, pci: PciAddress) -> Result<Information, DiscoverError> {
        let Some((path, text)) = self.read(pci, "information")? else { return Ok(Information::default()) };
        // A GPU that was not yet woken up has question marks for its UUID.
        let uuid = parse::field(&text, "GPU UUID").filter(|uuid| !uuid.contains('?') && !uuid.is_empty());
        let minor = parse::field(&text, "Device Minor").map(|minor| {
            parse::digits(minor).ok_or_else(|| {
                super::root::malformed(self.root.full(&path), minor, "a number after Device Minor:")
            })
        });
        Ok(Information {
            uuid: uuid.map(str::to_owned),
            minor: minor.transpose()?,
            model: parse::field(&text, "Model").map(str::to_owned),
            excluded: parse::field(&text, "GPU Excluded") == Some("Yes"),
        })
    }

    /// Why a container cannot get it, if so.
    fn why_not(&self, pci: PciAddress, told: &Information) -> Result<Option<String>, DiscoverError> {
        if told.excluded {
            return Ok(Some("the driver was told to exclude it".to_owned()));
        }
        let driver = self.root.real(&format!("{}/{pci}/driver", pci::DEVICES))?;
        let driver = driver.as_deref().and_then(|path| path.file_name()?.to_str());
        Ok(driver.filter(|driver| *driver != "nvidia").map(|driver| format!("it is bound to {driver}")))
    }

    /// The node that the GPU's memory is, where the driver has put it online as one.
    fn memory_node(&self, pci: PciAddress) -> Result<Option<NodeId>, DiscoverError> {
        let Some((path, text)) = self.read(pci, "numa_status")? else { return Ok(None) };
        if parse::field(&text, "Status") != Some("online") {
            return Ok(None);
        }
        let Some(node) = parse::field(&text, "Node") else { return Ok(None) };
        match parse::id_or_minus_one(node) {
            Some(node) => Ok(node.map(NodeId)),
            None => Err(super::root::malformed(self.root.full(&path), node, "a node after Node:")),
        }
    }
}
