//! The one integration-test binary.
mod conformance;
mod engine;
mod rooms;
mod speed;
