//! The other way: containerd launches it by a link among its plugins. Never both.

use super::host::{Host, NEWER, THIS};
use super::{Check, containerd, daemon, systemd};
use crate::expect::{self, expected};
use crate::node::PLUGINS;
use crate::wait;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

pub const ALL: &[Check] = &[
    Check { name: "one that containerd launches takes the place of the unit that runs", run: late_link },
    Check { name: "with the link the unit does not start, containerd's is the only one", run: linked },
    Check { name: "an upgrade tells that containerd's own is the old one", run: upgraded },
    Check { name: "the second to come finds the lock", run: second },
    Check { name: "and back to the unit", run: unlinked },
];

pub fn link() -> PathBuf {
    PathBuf::from(PLUGINS).join("10-maitred")
}

/// A link that is made while the unit runs, and a containerd that is restarted by whatever comes.
fn late_link(host: &mut Host) -> Result<String> {
    daemon::only()?;
    fs::create_dir_all(PLUGINS)?;
    symlink(daemon::BINARY, link()).context("linking the plugin")?;
    host.restart_containerd()?;
    launched(host)?;
    // By this systemd knows not to start it again, and calls it no failure.
    expect::same("ExecMainStatus", &"4".to_owned(), &systemd::property("ExecMainStatus")?)?;
    expect::same("Result", &"success".to_owned(), &systemd::property("Result")?)?;
    Ok(String::new())
}

/// As the README has it: the unit stopped and disabled, containerd restarted.
fn linked(host: &mut Host) -> Result<String> {
    systemd::done("systemctl", &["disable", "--now", "--no-reload", systemd::UNIT])?;
    systemd::done("systemctl", &["start", systemd::UNIT])?;
    host.restart_containerd()?;
    launched(host)?;
    expect::same("ConditionResult", &"no".to_owned(), &systemd::property("ConditionResult")?)?;
    Ok(String::new())
}

/// What runs stays the old one until containerd is started anew, which is the owner's to do.
fn upgraded(host: &mut Host) -> Result<String> {
    let all = daemon::all()?;
    for which in [NEWER, THIS] {
        let said = host.install(which)?;
        expected!(said.contains("is still the old version"), "it does not say which one runs: {said}");
        expect::same("processes", &all, &daemon::all()?)?;
    }
    host.tenants.newcomer(&host.node)?;
    Ok(String::new())
}

/// containerd's child is registered and the only one.
fn launched(host: &mut Host) -> Result<()> {
    daemon::registered(host.patience(), 1)?;
    wait::until_seen(host.patience(), "the unit stays away", || {
        let state = systemd::property("ActiveState")?;
        Ok((state != "inactive").then_some(state))
    })?;
    let all = daemon::all()?;
    expected!(all.len() == 1, "maitred runs as {all:?}");
    let parent = daemon::status(all[0], "PPid")?;
    expect::same("its parent", &host.containerd().to_string(), &parent)?;
    host.tenants.newcomer(&host.node)
}

fn second(host: &mut Host) -> Result<String> {
    let (all, before) = (daemon::all()?, daemon::registered_so_far());
    let said = systemd::tell(daemon::BINARY, &["nri"])?;
    expect::same("exit status of a second one", &3, &said.code)?;
    expected!(said.text.contains(&all[0].to_string()), "it does not name the first, {all:?}: {}", said.text);
    systemd::done("systemctl", &["start", systemd::UNIT])?;
    expect::same("processes", &all, &daemon::all()?)?;
    expect::same("registrations", &before, &daemon::registered_so_far())?;
    host.tenants.newcomer(&host.node)?;
    Ok(String::new())
}

fn unlinked(host: &mut Host) -> Result<String> {
    fs::remove_file(link())?;
    systemd::done("systemctl", &["stop", containerd::UNIT])?;
    systemd::done("systemctl", &["enable", "--no-reload", systemd::UNIT])?;
    systemd::done("systemctl", &["start", systemd::UNIT, containerd::UNIT])?;
    host.containerd_is_new()?;
    daemon::registered(host.patience(), 1)?;
    daemon::only()?;
    host.tenants.newcomer(&host.node)?;
    Ok(String::new())
}
