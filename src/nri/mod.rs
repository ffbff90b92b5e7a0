//! containerd: mux, ttrpc, event loop.

pub mod mux;
pub mod proto;
