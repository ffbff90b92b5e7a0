//! The one integration-test binary.

mod discover;
