//! The one integration-test binary.

mod asking;
mod churn;
mod cli;
mod config;
mod conformance;
mod discover;
mod doctor;
mod engine;
mod explain;
mod fake_runtime;
mod host;
mod launcher;
mod man;
mod metrics;
mod nri;
mod oci;
mod packages;
mod picture;
mod plan;
mod refusals;
mod reports;
mod rooms;
mod status;
mod steps;
mod store;
mod verify;
