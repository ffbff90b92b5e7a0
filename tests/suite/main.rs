//! The one integration-test binary.

mod host;
mod store;
