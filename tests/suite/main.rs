//! The one integration-test binary.

mod fake_runtime;
mod nri;
