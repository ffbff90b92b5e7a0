//! CDI specs as the device plugin and the container toolkit write them, for the machine's stand-in GPUs.
//!
//! The device nodes have NVIDIA's own numbers, which no driver serves here. That is enough to tell the three
//! cases apart inside a container: a node that is not there does not open with ENOENT, one that the cgroup
//! forbids with EPERM, and one that is there and allowed with ENXIO.

use crate::machine::{Gpu, Machine};
use anyhow::{Context, Result};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// What the device plugin's own spec is called.
pub const PLUGIN_KIND: &str = "k8s.device-plugin.nvidia.com/gpu";
/// What `nvidia-ctk cdi generate` calls its.
pub const TOOLKIT_KIND: &str = "nvidia.com/gpu";
/// `/dev/nvidiaN` and `/dev/nvidiactl`.
const MAJOR: u32 = 195;
const CONTROL_MINOR: u32 = 255;
/// Where nodes lie that CRI passes by host path: not in /dev, which natively is the host's own.
const NODES: &str = "/run/gpu-nodes";

impl Gpu {
    /// Its device node inside a container.
    pub fn node_path(&self) -> String {
        format!("/dev/nvidia{}", self.minor)
    }

    /// Its device node on the host.
    pub fn host_node(&self) -> String {
        format!("{NODES}/nvidia{}", self.minor)
    }

    pub fn cdi_name(&self, kind: &str) -> String {
        format!("{kind}={}", self.uuid)
    }
}

fn node(path: &str, minor: u32) -> Value {
    json!({"path": path, "type": "c", "major": MAJOR, "minor": minor, "permissions": "rw"})
}

/// Each GPU by UUID and by index, as both writers offer them, and the edits common to all.
fn spec(kind: &str, machine: &Machine) -> Value {
    let device = |name: String, gpu: &Gpu| json!({"name": name, "containerEdits": {"deviceNodes": [node(&gpu.node_path(), gpu.minor)]}});
    let by_uuid = machine.gpus.iter().map(|gpu| device(gpu.uuid.clone(), gpu));
    let by_index = machine.gpus.iter().enumerate().map(|(index, gpu)| device(index.to_string(), gpu));
    json!({
        "cdiVersion": "0.5.0",
        "kind": kind,
        "devices": by_uuid.chain(by_index).collect::<Vec<_>>(),
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            "deviceNodes": [node("/dev/nvidiactl", CONTROL_MINOR)],
        },
    })
}

/// The device plugin's spec as JSON in /var/run/cdi, the toolkit's as YAML in /etc/cdi, and the nodes.
pub fn install(machine: &Machine) -> Result<()> {
    let plugin = serde_json::to_string_pretty(&spec(PLUGIN_KIND, machine))?;
    let toolkit = serde_saphyr::to_string(&spec(TOOLKIT_KIND, machine))?;
    write("/var/run/cdi", "k8s.device-plugin.nvidia.com-gpu.json", &plugin)?;
    write("/etc/cdi", "nvidia.yaml", &toolkit)?;
    for gpu in &machine.gpus {
        make_node(gpu)?;
    }
    Ok(())
}

fn write(dir: &str, name: &str, text: &str) -> Result<()> {
    let path = PathBuf::from(dir).join(name);
    fs::create_dir_all(dir).with_context(|| format!("making {dir}"))?;
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

fn make_node(gpu: &Gpu) -> Result<()> {
    let path = gpu.host_node();
    fs::create_dir_all(NODES).with_context(|| format!("making {NODES}"))?;
    let _ = fs::remove_file(&path);
    let mode = Mode::from_bits_truncate(0o666);
    mknod(path.as_str(), SFlag::S_IFCHR, mode, makedev(MAJOR.into(), gpu.minor.into()))
        .with_context(|| format!("making the device node {path}"))
}
