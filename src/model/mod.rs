//! The nouns: ids, sets, the machine, what the runtime told us, what a container asks for and what it
//! got. Pure data; nothing in here reads a file, the environment or a clock.

mod allotment;
mod amount;
mod facts;
mod gpu_name;
mod id;
mod line;
mod list;
mod placement;
mod policy;
mod quantity;
mod rejection;
mod request;
mod seccomp;
mod set;
mod topology;

pub use allotment::{Allotment, AllotmentSource, PodAllotment};
pub use amount::{AmountError, Bytes, HugepageSize};
pub use facts::{ContainerFacts, ContainerState, DeviceNode, HugepageHints, MountFacts, PodFacts, Resources};
pub use gpu_name::NamedGpu;
pub use id::{
    ContainerId, ContainerKey, ContainerName, CpuId, DeviceId, NodeId, PackageId, PciAddress,
    PciAddressError, PodUid, ResourceName,
};
pub use line::{is_unseen, one_line};
pub use list::ListError;
pub use placement::{MemoryBlock, MemoryKind, MemoryPolicy, Placement};
pub use policy::{
    CpuOption, CpuOptions, MemoryManager, MemoryMode, Policy, Scope, TopologyPolicy, UnknownLocality,
    WordError,
};
pub use quantity::{Quantity, QuantityError};
pub use rejection::{Candidate, Largest, Reason, Rejection, Resource, Shortage};
pub use request::{ContainerKind, ContainerRequest, DeviceRequest, PodRequest, Qos};
pub use seccomp::{PolicyCalls, SeccompRule};
pub use set::{CpuSet, Id, IdSet, NodeSet};
pub use topology::{
    Core, Gpu, HugepagePool, Llc, Mig, Nic, NodeKind, NumaNode, Package, PciDevice, PciDistance, Topology,
};
