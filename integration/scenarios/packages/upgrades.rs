//! From the version before to this one, to a newer one and back, with containers running.

use super::host::{Host, NEWER, THIS};
use super::{Check, daemon, systemd};
use crate::expect::{self, expected};
use crate::node::MAITRED_CONFIG;
use anyhow::Result;
use std::fs;

pub const ALL: &[Check] = &[
    Check { name: "upgraded to this version under its containers", run: to_this },
    Check { name: "upgraded from this version to a newer one", run: to_newer },
    Check { name: "and back from the newer to this", run: back },
];

fn to_this(host: &mut Host) -> Result<String> {
    // Since the last reload; an `enable --no-reload` makes systemd say so too.
    expect::same("NeedDaemonReload", &"no".to_owned(), &systemd::property("NeedDaemonReload")?)?;
    to(host, THIS, "")
}

fn to_newer(host: &mut Host) -> Result<String> {
    to(host, NEWER, "99.0.0")
}

fn back(host: &mut Host) -> Result<String> {
    to(host, THIS, "")
}

fn to(host: &mut Host, which: &str, version: &str) -> Result<String> {
    let (config, before) = (fs::read_to_string(MAITRED_CONFIG)?, daemon::only()?);
    let mut said = String::new();
    let gap = daemon::gap(host.patience(), || {
        said = host.install(which)?;
        Ok(())
    })?;
    let pid = host.returned(before)?;
    expect::same("version of the daemon", &version.to_owned(), &daemon::version(pid)?)?;
    expect::same("the owner's configuration", &config, &fs::read_to_string(MAITRED_CONFIG)?)?;
    expect::same("UnitFileState", &"enabled".to_owned(), &systemd::property("UnitFileState")?)?;
    // The unit has changed too: that is left to the owner, and said.
    expect::same("NeedDaemonReload", &"yes".to_owned(), &systemd::property("NeedDaemonReload")?)?;
    expected!(said.contains("systemctl daemon-reload"), "it does not say that its unit has changed: {said}");
    host.is_undisturbed()?;
    host.tenants.newcomer(&host.node)?;
    host.tenants.visited(&host.node)?;
    Ok(format!("not registered for {:.1} s", gap.as_secs_f64()))
}
