//! What build.rs makes of `nri.proto`.

// Nobody writes or reads this by hand.
#![allow(clippy::all, clippy::pedantic, missing_docs, unused)]

include!(concat!(env!("OUT_DIR"), "/nri/mods.rs"));

pub use nri::*;
