//! The one integration-test binary.

mod cli;
mod config;
mod conformance;
mod man;
mod plan;
