//! The runtime classes that need no plugin: the files of `hooks/containerd` as they stand, with what they lead to.

use crate::containerd::Version;
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
/// The wrapper in front of the newest runc.
pub const NEXT_RUNC: &str = "maitred-runc-next";
/// Hooks of a base specification.
pub const HOOKED: &str = "maitred-hooks";

/// What these files call the binary, the link to it, and the base specification.
const BINARY: &str = "/usr/bin/maitred";
const WRAPPER: &str = "/usr/local/sbin/maitred-runtime";
const BASE_SPEC: &str = "/etc/containerd/maitred-base.json";
/// The classes of the wrapper in front of a runtime that is named, and where that is.
const NAMED: [(&str, &str); 2] = [(CRUN, "/usr/bin/crun"), (NEXT_RUNC, "/opt/runc-next/usr/sbin/runc")];

/// The classes of the wrapper and of the hooks, for version 3 of containerd's configuration and for version 2.
const CLASSES: [&str; 2] = [
    include_str!("../../hooks/containerd/runtime-class.toml"),
    include_str!("../../hooks/containerd/hooks-class.toml"),
];
const CLASSES_V2: [&str; 2] = [
    include_str!("../../hooks/containerd/runtime-class-v2.toml"),
    include_str!("../../hooks/containerd/hooks-class-v2.toml"),
];
const HOOKS: &str = include_str!("../../hooks/containerd/base-hooks.json");

/// The wrapper's class alone, as a part of containerd's configuration.
pub fn of_the_wrapper(version: Version) -> String {
    fitting(shipped(version)[0])
}

/// All of them.
pub fn of_all_kinds(version: Version) -> String {
    let [wrapper, hooks] = shipped(version);
    let named = NAMED.map(|(class, _)| {
        wrapper.replace("runtimes.maitred", &format!("runtimes.{class}")).replace(WRAPPER, &script(class))
    });
    fitting(&[wrapper, &named.join("\n"), hooks].join("\n"))
}

fn shipped(version: Version) -> [&'static str; 2] {
    if version.is_one() { CLASSES_V2 } else { CLASSES }
}

/// The pods' cgroups are not systemd's here; nothing else is changed.
fn fitting(classes: &str) -> String {
    classes.replace("SystemdCgroup = true", "SystemdCgroup = false")
}

/// Puts there what they lead to. Without maitred the runtimes themselves are there, and a hook that does nothing.
pub fn install(maitred: Option<&Path>) -> Result<()> {
    link(maitred.unwrap_or(Path::new("/usr/bin/true")), BINARY)?;
    link(maitred.unwrap_or(Path::new("/usr/sbin/runc")), WRAPPER)?;
    for (class, runtime) in NAMED {
        let runtime = if maitred.is_some() { WRAPPER } else { runtime };
        let text = format!("#!/bin/sh\nexport MAITRED_CONFIG={}\nexec {runtime} \"$@\"\n", config(class));
        fs::write(script(class), text)?;
        fs::set_permissions(script(class), fs::Permissions::from_mode(0o755))?;
    }
    base_spec()
}

fn script(class: &str) -> String {
    format!("/run/{class}")
}

fn config(class: &str) -> String {
    format!("/run/{class}.toml")
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

/// The configurations of the wrapper in front of a runtime that is named: the node's, and that runtime.
pub fn write_configs() -> Result<()> {
    let node = fs::read_to_string(MAITRED_CONFIG)?;
    for (class, runtime) in NAMED {
        fs::write(config(class), format!("{node}[runtime]\npath = \"{runtime}\"\n"))?;
    }
    Ok(())
}
