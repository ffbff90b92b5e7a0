//! The node's containerd: which one it is, and its configuration.

use crate::node::{CONTAINERD_SOCKET, NRI_SOCKET, PLUGINS};
use crate::options::Lane;
use crate::pod::SANDBOX_IMAGE;
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// A containerd by the first three numbers of its version, as it says them itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u32, u32, u32);

impl Version {
    /// `containerd github.com/containerd/containerd/v2 2.1.9~ds1 …`
    pub fn ask() -> Result<Version> {
        let output = Command::new("containerd").arg("--version").output().context("starting containerd")?;
        ensure!(output.status.success(), "containerd --version: {}", output.status);
        let text = String::from_utf8(output.stdout)?;
        Version::parse(&text).with_context(|| format!("containerd --version says {text:?}"))
    }

    fn parse(text: &str) -> Option<Version> {
        let word = text.split_whitespace().nth(2)?.trim_start_matches('v');
        let mut numbers = word.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok());
        Some(Version(numbers.next()?, numbers.next()?, numbers.next()?))
    }

    /// Whether it reads version 2 of its configuration and no later one, and has NRI and CDI switched off by default.
    pub fn is_one(self) -> bool {
        self < Version(2, 0, 0)
    }

    /// What its log says once it has taken a plugin in, after the plugin's name.
    pub fn registered(self) -> &'static str {
        if self.is_one() { r#"\" connected""# } else { "connected and synchronized" }
    }

    /// The NRI it carries, of those that the lanes have.
    pub fn nri(self) -> &'static str {
        match self {
            Version(1, 7, 16..=25) => "NRI 0.6.1",
            Version(1, 7, 26..) | Version(2, 0 | 1, _) => "NRI 0.8",
            _ => "NRI 0",
        }
    }
}

/// The CRI's table by its name, and the beginning of it, as far as the two versions say it differently: images, and CDI,
/// which is on by default from 2.0 on.
fn cri(version: Version) -> (&'static str, String) {
    if version.is_one() {
        let table = "io.containerd.grpc.v1.cri";
        let text = format!(
            r#"[plugins."{table}"]
  sandbox_image = "{SANDBOX_IMAGE}"
  enable_cdi = true
"#
        );
        return (table, text);
    }
    let table = "io.containerd.cri.v1.runtime";
    let text = format!(
        r#"[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{SANDBOX_IMAGE}"
[plugins."{table}"]
"#
    );
    (table, text)
}

/// Stock settings but for what a chroot or an emulated guest cannot do, and the hugetlb controller; with these runtime
/// classes.
pub fn config(lane: Lane, version: Version, classes: &str) -> String {
    // Natively the real default (2 s) stands, because the timeout itself is a subject there.
    let request_timeout = match lane {
        Lane::Native => "2s",
        Lane::Guest => "60s",
    };
    let (table, cri) = cri(version);
    format!(
        r#"version = {number}
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
{cri}  disable_apparmor = true
  disable_hugetlb_controller = false
  restrict_oom_score_adj = true
  [plugins."{table}".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."{table}".containerd.runtimes.runc.options]
      SystemdCgroup = false
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  plugin_path = "{PLUGINS}"
  socket_path = "{NRI_SOCKET}"
  plugin_registration_timeout = "60s"
  plugin_request_timeout = "{request_timeout}"
{classes}"#,
        number = if version.is_one() { 2 } else { 3 }
    )
}
