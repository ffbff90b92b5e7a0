//! The one integration-test binary.

mod cli;
mod config;
mod conformance;
mod discover;
mod engine;
mod host;
mod man;
mod plan;
mod store;
