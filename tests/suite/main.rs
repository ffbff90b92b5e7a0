//! The one integration-test binary.

mod cli;
mod config;
mod conformance;
mod discover;
mod man;
mod plan;
