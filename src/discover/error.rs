//! Why a machine could not be read, and what was odd about one that could.

use crate::model::{CpuId, CpuSet, ListError, NodeId, NodeSet, PackageId, PciAddress};
use std::io;
use std::path::PathBuf;

/// Why a machine could not be read. Paths are full ones, below the root that was opened.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// A system call failed, and not because the file is absent.
    #[error("cannot {verb} {}: {source}", path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that every kernel has is not there.
    #[error("{} is not there: expected {expected}", path.display())]
    Missing {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
    /// A directory, pipe or device where a file was expected.
    #[error("{} is no regular file", path.display())]
    NotAFile {
        /// Which.
        path: PathBuf,
    },
    /// A file larger than any of its kind.
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
        /// The most that is read.
        limit: u64,
    },
    /// Symbolic links that lead in a circle.
    #[error("{} leads through more than {limit} symbolic links", path.display())]
    LinkLoop {
        /// Where it begins.
        path: PathBuf,
        /// The most that are followed.
        limit: usize,
    },
    /// A file, or a directory's entry, that does not hold what it should.
    #[error("{}: found {found:?}, expected {expected}", path.display())]
    Malformed {
        /// Which.
        path: PathBuf,
        /// Its text, the beginning of it where it is long.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A file that holds no kernel list.
    #[error("{}: {source}", path.display())]
    List {
        /// Which.
        path: PathBuf,
        /// What is wrong with the list.
        source: ListError,
    },
    /// A file that holds no such YAML.
    #[error("{}: {source}", path.display())]
    Yaml {
        /// Which.
        path: PathBuf,
        /// What is wrong with it, with line and column.
        source: Box<serde_saphyr::Error>,
    },
    /// A file of the kubelet's is no such thing.
    #[error("{}: {source}", path.display())]
    Json {
        /// Which.
        path: PathBuf,
        /// What is wrong with it, with line and column.
        source: serde_json::Error,
    },
    /// Two nodes claim one CPU: contradictory firmware tables, or `numa=fake`.
    #[error("{}: CPUs {cpus} of node {node} are also those of node {other}", path.display())]
    NodesOverlap {
        /// The later node's list.
        path: PathBuf,
        /// The later node.
        node: NodeId,
        /// What is claimed twice.
        cpus: CpuSet,
        /// The earlier node.
        other: NodeId,
    },
    /// Online CPUs that no node claims.
    #[error("{}: CPUs {cpus} are online but in no node's list", path.display())]
    CpusWithoutNode {
        /// The directory of the nodes.
        path: PathBuf,
        /// Which.
        cpus: CpuSet,
    },
    /// A CPU's siblings do not count it among theirs.
    #[error("{}: CPU {cpu} has the siblings {cpus}, but CPU {other} has {others}", path.display())]
    SiblingsDisagree {
        /// The CPU's list.
        path: PathBuf,
        /// The CPU.
        cpu: CpuId,
        /// Its online siblings, itself included where the list says so.
        cpus: CpuSet,
        /// One of them.
        other: CpuId,
        /// What that one says.
        others: CpuSet,
    },
    /// A core whose threads are in different packages.
    #[error("{}: CPUs {cpus} share a core, but not all of them are in package {package}", path.display())]
    CoreAcrossPackages {
        /// The core's list.
        path: PathBuf,
        /// Its threads.
        cpus: CpuSet,
        /// The first thread's package.
        package: PackageId,
    },
    /// The package's list is not what its CPUs' package ids say.
    #[error("{}: CPUs {found} share a package, but CPUs {expected} have package id {package}", path.display())]
    PackagesDisagree {
        /// The list.
        path: PathBuf,
        /// The online CPUs in it.
        found: CpuSet,
        /// The CPUs of that id.
        expected: CpuSet,
        /// The id.
        package: PackageId,
    },
    /// Two last-level caches that share some CPUs.
    #[error("{}: the L3 of CPU {cpu} is said to serve CPUs {found}, which do not fit another L3's CPUs {other}", path.display())]
    CachesOverlap {
        /// The list.
        path: PathBuf,
        /// Whose cache.
        cpu: CpuId,
        /// The online CPUs in the list.
        found: CpuSet,
        /// The other cache's, or the empty set where the list leaves out the CPU itself.
        other: CpuSet,
    },
    /// A row of the distance table that does not fit the online nodes.
    #[error("{}: {found} distances, but nodes {nodes} are online", path.display())]
    DistanceRow {
        /// The row.
        path: PathBuf,
        /// How many there are.
        found: usize,
        /// The online nodes.
        nodes: NodeSet,
    },
}

/// Something about a machine that its owner should know, though it could be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// One thing about a GPU could not be read: it is unknown.
    #[error("GPU {index} at {pci}: {field} cannot be read and is taken as unknown: {why}")]
    GpuField {
        /// The GPU's index.
        index: u32,
        /// Where it sits.
        pci: PciAddress,
        /// What is unknown.
        field: &'static str,
        /// What NVML said.
        why: String,
    },
    /// Kernel and NVML name different nodes; the kernel's counts.
    #[error(
        "GPU {index} at {pci}: the kernel says node {kernel}, NVML says node {nvml}; the kernel's is used"
    )]
    GpuNode {
        /// The GPU's index.
        index: u32,
        /// Where it sits.
        pci: PciAddress,
        /// `numa_node` in sysfs.
        kernel: NodeId,
        /// The only node of NVML's memory affinity.
        nvml: NodeId,
    },
    /// An NVIDIA GPU that the driver does not offer; it is left out.
    #[error("the NVIDIA GPU at {pci} is left out: {why}")]
    GpuLeftOut {
        /// Where it sits.
        pci: PciAddress,
        /// Why.
        why: String,
    },
    /// NVML counts a GPU and does not say which one it is; it is the one that is missing, and what the kernel and the
    /// driver's files say of it is kept.
    #[error("NVML cannot identify GPU {index} ({why}): taken to be the one at {pci}, as the kernel shows it")]
    GpuNameless {
        /// Its index.
        index: u32,
        /// Where a GPU sits that NVML has not named.
        pci: PciAddress,
        /// What NVML said.
        why: String,
    },
    /// NVML counts a GPU that the kernel does not show either.
    #[error("NVML counts GPU {index} and cannot identify it ({why}), and no PCI function is left for it")]
    GpuNowhere {
        /// Its index.
        index: u32,
        /// What NVML said.
        why: String,
    },
    /// NVML is there but not usable; the GPUs come from sysfs and know nothing of NVLink.
    #[error("NVML ({library}) is not usable, GPUs are read from sysfs without NVLinks: {why}")]
    NvmlUnusable {
        /// Which library.
        library: String,
        /// What it said.
        why: String,
    },
    /// A CDI spec that cannot be used; the others are.
    #[error("the CDI spec {} is left out: {why}", path.display())]
    CdiSpec {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Two CDI specs of one directory have a device of the same name, which is then nobody's.
    #[error("the CDI device {name} is in two specs of {}, {one} and {other}: no runtime will resolve it", dir.display())]
    CdiTwice {
        /// Its fully qualified name.
        name: String,
        /// The directory.
        dir: PathBuf,
        /// The file that was read first.
        one: String,
        /// The other.
        other: String,
    },
    /// A device's node is none of the online ones: taken as unknown.
    #[error("{what} names NUMA node {node}, which is not online; its node is taken as unknown")]
    UnknownNode {
        /// The device.
        what: String,
        /// The node it names.
        node: NodeId,
    },
    /// The kernel does not number the packages; they are numbered by their lowest CPU.
    #[error("the kernel knows no package ids ({} holds -1); packages are told apart by their CPUs and numbered in order", path.display())]
    PackageIds {
        /// The first such file.
        path: PathBuf,
    },
}
