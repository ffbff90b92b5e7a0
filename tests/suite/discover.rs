//! Reading machines: constructed trees, gathered ones, and GPUs through a stand-in NVML.

mod garbled;
mod gpus;
mod kinds;
mod odd;
mod plain;
mod shared;
pub mod tree;
