//! (filled next)

pub mod topology;
