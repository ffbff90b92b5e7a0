//! The one integration-test binary.

mod cli;
mod config;
mod man;
mod plan;
