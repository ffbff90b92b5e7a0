//! What build.rs makes of `podresources.proto`.

// Nobody writes or reads this by hand.
#![allow(clippy::all, clippy::pedantic, missing_docs, unused)]

include!(concat!(env!("OUT_DIR"), "/kubelet/mods.rs"));

pub use podresources::*;
