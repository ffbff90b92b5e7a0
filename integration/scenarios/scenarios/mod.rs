//! The scenarios, by what they are about. Each prepares nothing for the next, and each fails on a
//! node without maitred.

mod pinning;

use crate::node::Node;
use crate::settings::Settings;
use anyhow::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lanes {
    Native,
    Guest,
    Both,
}

pub struct Scenario {
    pub name: &'static str,
    pub lanes: Lanes,
    pub settings: Settings,
    pub run: fn(&mut Node) -> Result<()>,
}

pub const ALL: &[&[Scenario]] = &[pinning::ALL];
