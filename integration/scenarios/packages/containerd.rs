//! Debian's containerd as its own unit, with NRI switched on as the README tells it.

use crate::classes;
use crate::containerd::{self, Version};
use crate::node::CONTAINERD_CONFIG;
use crate::options::Lane;
use anyhow::{Context, Result};
use std::fs;

pub const UNIT: &str = "containerd.service";
const DROP_IN: &str = "/run/systemd/system/containerd.service.d";

/// Configuration and environment, before containerd is started anew.
pub fn configure() -> Result<()> {
    fs::create_dir_all(DROP_IN)?;
    // As lane-run has it: Go programs that spin on sixteen emulated CPUs only wait longer.
    fs::write(format!("{DROP_IN}/lane.conf"), "[Service]\nEnvironment=GOMAXPROCS=2\n")?;
    write(&classes::of_the_wrapper(Version::ask()?))
}

/// The owner takes the runtime class out again.
pub fn without_class() -> Result<()> {
    write("")
}

fn write(classes: &str) -> Result<()> {
    let config = containerd::config(Lane::Guest, Version::ask()?, classes);
    fs::write(CONTAINERD_CONFIG, config).with_context(|| format!("writing {CONTAINERD_CONFIG}"))
}
