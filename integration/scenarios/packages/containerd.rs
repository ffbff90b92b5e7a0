//! Debian's containerd as its own unit, with NRI switched on as the README tells it.

use crate::node::{CONTAINERD_CONFIG, NRI_SOCKET, PLUGINS};
use crate::pod::SANDBOX_IMAGE;
use anyhow::{Context, Result};
use std::fs;

pub const UNIT: &str = "containerd.service";
/// A runtime class of the wrapper, as `hooks/containerd` has it.
const CLASS: &str = include_str!("../../../hooks/containerd/runtime-class.toml");
const DROP_IN: &str = "/run/systemd/system/containerd.service.d";

/// Configuration and environment, before containerd is started anew.
pub fn configure() -> Result<()> {
    fs::create_dir_all(DROP_IN)?;
    // As lane-run has it: Go programs that spin on sixteen emulated CPUs only wait longer.
    fs::write(format!("{DROP_IN}/lane.conf"), "[Service]\nEnvironment=GOMAXPROCS=2\n")?;
    write(&config(true))
}

/// The owner takes the runtime class out again.
pub fn without_class() -> Result<()> {
    write(&config(false))
}

fn write(config: &str) -> Result<()> {
    fs::write(CONTAINERD_CONFIG, config).with_context(|| format!("writing {CONTAINERD_CONFIG}"))
}

/// Version 2, the newest that containerd 1.7 knows.
fn config(with_class: bool) -> String {
    let class = CLASS
        .replace("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")
        .replace("SystemdCgroup = true", "SystemdCgroup = false");
    format!(
        r#"version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{SANDBOX_IMAGE}"
  disable_apparmor = true
  disable_hugetlb_controller = false
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  plugin_path = "{PLUGINS}"
  socket_path = "{NRI_SOCKET}"
  plugin_registration_timeout = "60s"
  plugin_request_timeout = "60s"
{class}"#,
        class = if with_class { &class } else { "" }
    )
}
