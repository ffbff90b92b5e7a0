//! What build.rs makes of `nri.proto`.

#![allow(clippy::all, clippy::pedantic, missing_docs, unused)]

include!(concat!(env!("OUT_DIR"), "/nri/mods.rs"));

pub use nri::*;
