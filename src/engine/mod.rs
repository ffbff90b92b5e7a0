//! The verbs: seat a pod or a container on a machine, given what is already taken.
//!
//! Everything here is a pure function of its arguments. The rules are those of the kubelet's Topology,
//! CPU, Memory and Device Managers. A decision goes through the files in this order: a request becomes a
//! need (`need`), what is free for its pod becomes rules about node sets (`offer`, `hints`), these are
//! merged to one set (`merge`), and there devices, CPUs and memory are taken (`allocate`, `take`; which
//! devices belong together is `links`', which exclude each other `sharing`'s). A refusal is explained afterwards (`explain`, `sentence`).
//!
//! Who knows the kubelet finds its rules here (functions of `pkg/kubelet/cm`):
//!
//! | rule | here | there |
//! |---|---|---|
//! | policies and merging of hints | `merge` | `topologymanager/policy*.go`: `HintMerger.Merge`, `canAdmitPodResult` |
//! | scope, a pod's peak | `admit`, `need` | `topologymanager/scope_*.go`; `podGuaranteedCPUs`, `getPodRequestedResources` |
//! | hints of CPUs, memory, devices | `offer` | `generateCPUTopologyHints`, `calculateHints`, `generateDeviceTopologyHints` |
//! | order in which CPUs are taken | `take`, `layout` | `cpumanager/cpu_assignment.go`: `takeByTopologyNUMAPacked` |
//! | even shares of nodes | `distribute` | `takeByTopologyNUMADistributed` |
//! | CPU options | `options` | `cpumanager/policy_options.go` |
//! | memory taken, sets of nodes | `allocate`, `books` | `memorymanager/policy_static.go`: `Allocate`, `extendTopologyManagerHint` |
//! | reuse by later containers | `occupancy` | `updateCPUsToReuse`, `updateInitContainersMemoryBlocks`, `devicesToReuse` |
//!
//! Node sets are never listed. One node, and pairs on any machine, are always searched to the end; so is
//! everything on up to 12 nodes. On larger machines a search for three nodes or more has a budget
//! (`search`). Where it runs out, restricted takes the set for not there and refuses, best-effort aims at
//! the narrowest set of the resource that needs the most nodes, and memory comes from a set that does
//! but may not be the narrowest. single-numa-node is always exact.

mod admit;
mod allocate;
mod books;
mod distribute;
mod error;
mod explain;
mod hints;
mod layout;
mod links;
mod machine;
mod mask;
mod merge;
mod need;
mod occupancy;
mod offer;
mod options;
mod refuse;
#[doc(hidden)]
pub mod rules;
mod search;
mod sentence;
mod sharing;
mod take;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod work;

pub use admit::{Seat, admit_container, admit_pod, choose_seat};
pub use error::MachineError;
pub use machine::{Device, GPU, MIG, Machine, NIC, Reserve, gpu_id};
pub use occupancy::Occupancy;
pub use options::shared_pool;
