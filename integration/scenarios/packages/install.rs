//! The first installation, and the first start by the owner's hand.

use super::host::{Host, OLDER};
use super::{Check, daemon, systemd};
use crate::expect::{self, expected};
use crate::node::{MAITRED_CONFIG, PLUGINS};
use crate::observe;
use crate::pod::Pod;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

pub const ALL: &[Check] = &[
    Check { name: "the older version installs; nothing is enabled or started", run: installed },
    Check { name: "its wrapper seats a pod before there is a daemon", run: wrapped },
    Check { name: "what the installation prints starts it, with no reload", run: started },
    Check { name: "it seats pods of containerd", run: seats },
];

/// The handler of the runtime class, and what its class calls the wrapper.
const CLASS: &str = "maitred";
pub const WRAPPER: &str = "/usr/local/sbin/maitred-runtime";
pub const WRAPPED: &str = "wrapped";
const LAUNCHER: &str = "/dev/.maitred-launcher";

fn installed(host: &mut Host) -> Result<String> {
    let said = host.install(OLDER)?;
    expected!(said.contains("installed in audit mode and not started"), "it does not say what to do: {said}");
    fs::write("/run/lane-said", said)?;
    let state = |name| systemd::property(name);
    expect::same("LoadState", &"loaded".to_owned(), &state("LoadState")?)?;
    expect::same("ActiveState", &"inactive".to_owned(), &state("ActiveState")?)?;
    expect::same("UnitFileState", &"disabled".to_owned(), &state("UnitFileState")?)?;
    expect::same("processes", &Vec::new(), &daemon::all()?)?;
    let config = fs::read_to_string(MAITRED_CONFIG)?;
    expected!(
        config.lines().any(|line| line == "mode = \"audit\""),
        "it would not begin in audit mode: {config}"
    );
    for active in [PLUGINS, "/etc/containers", "/run/maitred"] {
        expected!(!Path::new(active).exists(), "there is {active}");
    }
    Ok(String::new())
}

/// With the launcher in front of its command, so that a file of the package is mounted into it from now on.
fn wrapped(host: &mut Host) -> Result<String> {
    symlink(daemon::BINARY, WRAPPER).with_context(|| format!("linking {WRAPPER}"))?;
    host.write_config("[memory]\ndelivery = \"launcher\"\n")?;
    let pod = Pod::guaranteed(WRAPPED, 2, 64).handler(CLASS).args(&["hold", "8"]);
    host.tenants.pinned(&host.node, pod)?;
    let seen = host.tenants.seen(WRAPPED)?;
    expected!(seen.mounts.contains(LAUNCHER), "{LAUNCHER} is not mounted in it: {:?}", seen.mounts);
    let (pid, home) = (seen.pid, crate::list::show(&seen.mems));
    crate::wait::until_seen(host.patience(), "its memory is touched", || {
        Ok(observe::policies(pid, 1024)?.is_empty().then(|| "no mapping of 4 MiB yet".to_owned()))
    })?;
    let policies = observe::policies(pid, 1024)?;
    expect::same("its memory policy", &BTreeSet::from([format!("bind=static:{home}")]), &policies)?;
    let log = fs::read_to_string("/var/log/maitred/hook.jsonl").context("the hooks' log")?;
    expected!(log.contains(WRAPPED), "the hooks' log does not tell of it: {log}");
    Ok(String::new())
}

/// The very words of the scriptlet, on a systemd that has not been reloaded since.
fn started(host: &mut Host) -> Result<String> {
    host.write_config("")?;
    let said = fs::read_to_string("/run/lane-said")?;
    let words = said
        .lines()
        .find_map(|line| line.strip_prefix("maitred:   "))
        .context("no command in what it says")?;
    expected!(words.contains("systemctl"), "no command but {words:?}");
    systemd::done("sh", &["-c", words])?;
    let property = |name| systemd::property(name);
    expect::same("UnitFileState", &"enabled".to_owned(), &property("UnitFileState")?)?;
    // `systemctl start` has waited for it.
    expect::same("ActiveState", &"active".to_owned(), &property("ActiveState")?)?;
    expect::same("Type", &"notify".to_owned(), &property("Type")?)?;
    let status = property("StatusText")?;
    expected!(!status.is_empty(), "it has told systemd nothing");
    daemon::registered(host.patience(), 1)?;
    let pid = daemon::only()?;
    expect::same("version", &"0.0.1".to_owned(), &daemon::version(pid)?)?;
    Ok(format!("with one container: {}", daemon::memory(pid)?))
}

fn seats(host: &mut Host) -> Result<String> {
    let Host { node, tenants, .. } = host;
    tenants.shared(node, Pod::burstable("sharing", 100))?;
    tenants.shared(node, Pod::best_effort("idle"))?;
    tenants.pinned(node, Pod::guaranteed("pinned", 3, 64))?;
    tenants.pinned(node, super::tenants::crasher())?;
    tenants.newcomer(node)?;
    tenants.visited(node)?;
    Ok(String::new())
}
