//! The configuration of the node's containerd.

use crate::classes;
use crate::node::{CONTAINERD_SOCKET, NRI_SOCKET, PLUGINS};
use crate::options::Lane;
use crate::pod::SANDBOX_IMAGE;

/// Stock settings but for what a chroot or an emulated guest cannot do, and the hugetlb controller.
pub fn config(lane: Lane) -> String {
    // Natively the real default (2 s) stands, because the timeout itself is a subject there.
    let request_timeout = match lane {
        Lane::Native => "2s",
        Lane::Guest => "60s",
    };
    format!(
        r#"version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{SANDBOX_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  disable_hugetlb_controller = false
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  plugin_path = "{PLUGINS}"
  socket_path = "{NRI_SOCKET}"
  plugin_registration_timeout = "60s"
  plugin_request_timeout = "{request_timeout}"
{classes}"#,
        classes = classes::containerd_config()
    )
}
