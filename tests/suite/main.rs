//! The one integration-test binary.

mod discover;
mod host;
mod store;
