//! This machine's cgroups and processes: what containers really have, and the means to correct it.
//!
//! The cgroup file is the truth: a runtime may log a failed update and go on. Everything is reached
//! from a root directory, `/` on a real machine, that holds `proc/` and `sys/`.

mod ask;
mod cgroup_path;
mod cgroups;
mod containers;
mod cpuset;
mod effective;
mod error;
mod everybody;
mod hugetlb;
pub mod launcher;
mod life;
mod limits;
pub mod mempolicy;
mod mounts;
pub mod privileges;
mod process;
mod quota;
mod runtime_features;

pub use ask::{answer, ends_within};
pub use cgroups::Cgroups;
pub use containers::FoundContainer;
pub use error::HostError;
pub use everybody::{HostProcess, everybody};
pub use life::{TICKS_A_SECOND, name, now, start_time};
pub use limits::{Limits, environment, oom_score_adj};
pub use mempolicy::KernelModes;
pub use mounts::hugetlbfs_page_sizes;
pub use process::{Allowed, NumaMaps, PolicyUse, allowed, numa_maps};
pub use quota::Quota;
pub use runtime_features::{RuntimeFeatures, oci_mode};
