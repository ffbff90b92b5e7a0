//! What the kubelet tells of itself: what it allotted to pods, and who hands out CPUs.
//!
//! | source | tells | keyed by |
//! |---|---|---|
//! | podresources socket | devices, CPUs and DRA claims of app containers | namespace and name |
//! | `kubelet_internal_checkpoint` | devices, of init containers too | UID |
//! | `cpu_manager_state` | policy, exclusive CPUs | UID |
//! | configuration files | policy, before there is a state file | - |

mod allotments;
mod checkpoint;
mod distribution;
mod flags;
mod grpc;
mod podresources;
mod policy;
pub mod proto;
mod settings;
mod state;

pub use allotments::{Kubelet, PodName};
pub use checkpoint::kubelet_devices;
pub use distribution::{Distribution, Kind};
pub use policy::{CpuManager, kubelet_cpu_manager};
pub use settings::{KubeletSettings, RUNNING};
pub use state::{KubeletCpuState, kubelet_cpu_policy, kubelet_cpu_state, kubelet_memory_policy};
