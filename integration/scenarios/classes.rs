//! The runtime classes that need no plugin: the files of `hooks/containerd` as they stand, with what they lead to.

use crate::node::MAITRED_CONFIG;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// The wrapper in front of the first runtime that it finds.
pub const WRAPPED: &str = "maitred";
/// The wrapper in front of crun.
pub const CRUN: &str = "maitred-crun";
/// Hooks of a base specification.
pub const HOOKED: &str = "maitred-hooks";

/// What these files call the binary, the link to it, and the base specification.
const BINARY: &str = "/usr/bin/maitred";
const WRAPPER: &str = "/usr/local/sbin/maitred-runtime";
const BASE_SPEC: &str = "/etc/containerd/maitred-base.json";
const CRUN_SCRIPT: &str = "/run/maitred-crun";
const CRUN_CONFIG: &str = "/run/maitred-crun.toml";

const WRAPPER_CLASS: &str = include_str!("../../hooks/containerd/runtime-class.toml");
const HOOKS_CLASS: &str = include_str!("../../hooks/containerd/hooks-class.toml");
const HOOKS: &str = include_str!("../../hooks/containerd/base-hooks.json");

/// Their part of containerd's configuration. There is no systemd here; nothing else is changed.
pub fn containerd_config() -> String {
    let crun =
        WRAPPER_CLASS.replace("runtimes.maitred", "runtimes.maitred-crun").replace(WRAPPER, CRUN_SCRIPT);
    [WRAPPER_CLASS, &crun, HOOKS_CLASS].join("\n").replace("SystemdCgroup = true", "SystemdCgroup = false")
}

/// Puts there what they lead to. Without maitred the runtimes themselves are there, and a hook that does nothing.
pub fn install(maitred: Option<&Path>) -> Result<()> {
    link(maitred.unwrap_or(Path::new("/usr/bin/true")), BINARY)?;
    link(maitred.unwrap_or(Path::new("/usr/sbin/runc")), WRAPPER)?;
    let runtime = if maitred.is_some() { WRAPPER } else { "/usr/bin/crun" };
    let script = format!("#!/bin/sh\nexport MAITRED_CONFIG={CRUN_CONFIG}\nexec {runtime} \"$@\"\n");
    fs::write(CRUN_SCRIPT, script)?;
    fs::set_permissions(CRUN_SCRIPT, fs::Permissions::from_mode(0o755))?;
    base_spec()
}

fn link(target: &Path, at: &str) -> Result<()> {
    if fs::read_link(at).is_ok_and(|found| found == target) {
        return Ok(());
    }
    let _ = fs::remove_file(at);
    symlink(target, at).with_context(|| format!("linking {at}"))
}

/// containerd's default with the hooks, as `hooks/containerd/base-spec.md` has it made.
fn base_spec() -> Result<()> {
    let output = Command::new("ctr").args(["oci", "spec"]).output().context("starting ctr")?;
    ensure!(output.status.success(), "ctr oci spec: {}", output.status);
    let mut spec: Value = serde_json::from_slice(&output.stdout)?;
    let hooks: Value = serde_json::from_str(HOOKS)?;
    for (key, value) in hooks.as_object().context("base-hooks.json is an object")? {
        spec[key] = value.clone();
    }
    Ok(fs::write(BASE_SPEC, spec.to_string())?)
}

/// The configuration of the wrapper in front of crun: the node's, and crun.
pub fn write_crun_config() -> Result<()> {
    let config = fs::read_to_string(MAITRED_CONFIG)?;
    Ok(fs::write(CRUN_CONFIG, format!("{config}[runtime]\npath = \"/usr/bin/crun\"\n"))?)
}
