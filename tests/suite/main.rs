//! The one integration-test binary.

mod churn;
mod cli;
mod config;
mod conformance;
mod discover;
mod engine;
mod fake_runtime;
mod host;
mod man;
mod nri;
mod plan;
mod rooms;
mod steps;
mod store;
