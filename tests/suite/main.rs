//! The one integration-test binary.

mod conformance;
mod discover;
mod host;
mod store;
