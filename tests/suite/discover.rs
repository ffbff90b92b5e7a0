//! Reading machines: constructed trees, gathered ones, and GPUs through a stand-in NVML.

mod garbled;
mod gpu_machines;
pub mod gpus;
mod kinds;
mod kubelet;
mod odd;
mod plain;
mod shared;
pub mod tree;
