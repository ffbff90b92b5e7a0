//! Reading machines: constructed trees, gathered ones, and GPUs through a stand-in NVML.

mod gpu_machines;
mod gpus;
mod kubelet;
mod odd;
mod plain;
mod shared;
mod tree;
