//! The verbs: seat a pod or a container on a machine, given what is already taken.
//!
//! Everything here is a pure function of its arguments. The rules are those of the kubelet's Topology,
//! CPU, Memory and Device Managers.

mod admit;
mod allocate;
mod books;
mod distribute;
mod explain;
mod hints;
mod layout;
mod machine;
mod mask;
mod merge;
mod need;
mod occupancy;
mod offer;
mod refuse;
mod search;
mod sentence;
mod take;

pub use admit::{Seat, admit_container, admit_pod, choose_seat};
pub use machine::{Device, GPU, Machine, MachineError, NIC, Reserve};
pub use occupancy::{Occupancy, shared_pool};
