//! The verbs: seat a pod or a container on a machine, given what is already taken.
//!
//! Everything here is a pure function of its arguments. The rules are those of the kubelet's Topology,
//! CPU, Memory and Device Managers.

mod admit;
mod machine;
mod mask;
mod occupancy;

pub use admit::{Seat, admit_container, admit_pod, choose_seat};
pub use machine::{Device, Machine, MachineError, Reserve};
pub use occupancy::Occupancy;
