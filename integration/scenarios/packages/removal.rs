//! Taken away: refused while something leads to it, and without a trace afterwards.

use super::host::Host;
use super::install::{WRAPPED, WRAPPER};
use super::{Check, containerd, daemon, prelaunched, systemd};
use crate::expect::{self, expected};
use crate::node::{CONTAINERD_CONFIG, MAITRED_CONFIG};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

pub const ALL: &[Check] = &[
    Check { name: "not removed while a hook, a class, a link or a container leads to it", run: refused },
    Check { name: "removed: containers go on, new ones start as if it had never been", run: removed },
    Check { name: "purged: nothing is left", run: purged },
];

const HOOKS: &str = "/etc/containers/oci/hooks.d";

fn refused(host: &mut Host) -> Result<String> {
    let pid = daemon::only()?;
    fs::create_dir_all(HOOKS)?;
    let hook = format!("{HOOKS}/maitred.json");
    fs::copy("/usr/share/maitred/hooks/containers/maitred.json", &hook)?;
    symlink(daemon::BINARY, prelaunched::link()).context("linking the plugin")?;
    let bundle =
        format!("/run/containerd/io.containerd.runtime.v2.task/k8s.io/{}", host.tenants.id(WRAPPED)?);
    let plugin = prelaunched::link().display().to_string();
    let mut uses = vec![hook.as_str(), &plugin, CONTAINERD_CONFIG, &bundle];
    while !uses.is_empty() {
        let said = systemd::tell("dpkg", &["--remove", "maitred"])?;
        expected!(said.code != 0, "removed in spite of {uses:?}: {}", said.text);
        for used in &uses {
            expected!(said.text.contains(used), "{used} is not named: {}", said.text);
        }
        expect::same("the daemon's process", &pid, &daemon::only()?)?;
        expect::same("UnitFileState", &"enabled".to_owned(), &systemd::property("UnitFileState")?)?;
        match uses.remove(0) {
            one if one == CONTAINERD_CONFIG => containerd::without_class()?,
            one if one == bundle => host.tenants.remove(&host.node, WRAPPED)?,
            one => fs::remove_file(one)?,
        }
    }
    host.is_undisturbed()?;
    host.tenants.newcomer(&host.node)?;
    host.tenants.visited(&host.node)?;
    Ok(String::new())
}

fn removed(host: &mut Host) -> Result<String> {
    let config = fs::read_to_string(MAITRED_CONFIG)?;
    systemd::done("dpkg", &["--remove", "maitred"])?;
    expect::same("processes", &Vec::new(), &daemon::all()?)?;
    expect::same("MainPID", &None, &systemd::main_pid(systemd::UNIT)?)?;
    let link = Path::new("/etc/systemd/system/multi-user.target.wants/maitred.service");
    expected!(link.symlink_metadata().is_err(), "{} is left", link.display());
    expect::same("the owner's configuration", &config, &fs::read_to_string(MAITRED_CONFIG)?)?;
    host.is_undisturbed()?;
    host.tenants.unpinned_newcomer(&host.node)?;
    Ok(String::new())
}

fn purged(host: &mut Host) -> Result<String> {
    systemd::done("dpkg", &["--purge", "maitred"])?;
    // What the story itself has put there.
    fs::remove_file(WRAPPER)?;
    // Not there where the checks that need it were left out.
    let _ = fs::remove_dir_all("/run/systemd/system/maitred.service.d");
    let mut left = Vec::new();
    for root in ["/etc", "/usr", "/var", "/run", "/opt", "/root", "/sys/fs/cgroup", "/dev"] {
        let found =
            systemd::done("find", &[root, "-xdev", "-name", "*maitred*", "-not", "-path", "/run/lane*"])?;
        left.extend(found.lines().map(str::to_owned));
    }
    expected!(left.is_empty(), "left behind: {left:#?}");
    let said = systemd::tell("dpkg-query", &["--show", "maitred"])?;
    expected!(said.code != 0, "dpkg still knows it: {}", said.text);
    // What systemd itself still has in its memory goes with the owner's next reload.
    host.reload()?;
    expect::same("LoadState", &"not-found".to_owned(), &systemd::property("LoadState")?)?;
    // Those that it seated can be ended without it.
    host.is_undisturbed()?;
    host.tenants.remove_all(&host.node)?;
    Ok(String::new())
}
