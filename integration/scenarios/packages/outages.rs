//! The daemon and containerd die, hang and are started in an order; containers keep what they have.

use super::host::Host;
use super::{Check, containerd, daemon, systemd};
use crate::expect::{self, expected};
use crate::node::MAITRED_CONFIG;
use crate::wait;
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::time::{Duration, Instant};

pub const ALL: &[Check] = &[
    Check { name: "it tells the watchdog that it lives, and costs nothing in a minute", run: lives },
    Check { name: "stopped as a whole, it is killed by the watchdog and comes back", run: hangs },
    Check { name: "killed, it comes back", run: killed },
    Check { name: "told to end by a signal, it comes back all the same", run: ended },
    Check { name: "containerd restarted: it registers again", run: containerd_restarted },
    Check { name: "started together with containerd, it is there first", run: before_containerd },
    Check {
        name: "a wrong configuration fails its own start alone; mended, it comes by itself",
        run: misconfigured,
    },
];

const DROP_IN: &str = "/run/systemd/system/maitred.service.d";
/// In the place of the unit's minute.
const WATCHDOG: Duration = Duration::from_secs(15);
/// A target that wants both, as a boot's does.
const BOOT: &str = "lane-boot.target";
const MINUTE: Duration = Duration::from_secs(60);

fn lives(host: &mut Host) -> Result<String> {
    expect::same("the unit's own watchdog", &"1min".to_owned(), &systemd::property("WatchdogUSec")?)?;
    fs::create_dir_all(DROP_IN)?;
    fs::write(format!("{DROP_IN}/lane.conf"), format!("[Service]\nWatchdogSec={}s\n", WATCHDOG.as_secs()))?;
    host.reload()?;
    systemd::done("systemctl", &["restart", systemd::UNIT])?;
    daemon::registered(host.patience(), 1)?;
    host.tenants.undisturbed(&host.node)?;
    let (pid, restarts) = (daemon::only()?, systemd::property("NRestarts")?);
    let (before, begin) = (daemon::ticks(pid)?, Instant::now());
    std::thread::sleep(MINUTE);
    let (ticks, seconds) = (daemon::ticks(pid)? - before, begin.elapsed().as_secs_f64());
    expect::same("process after four of the watchdog's intervals", &pid, &daemon::only()?)?;
    expect::same("restarts", &restarts, &systemd::property("NRestarts")?)?;
    // Emulated, a tick is little work; a daemon that polls has hundreds.
    expected!(ticks < 100, "{ticks} ticks of CPU time in {seconds:.0} s with nothing to do");
    Ok(format!("{ticks} ticks in {seconds:.0} s; {}", daemon::memory(pid)?))
}

fn hangs(host: &mut Host) -> Result<String> {
    let begin = Instant::now();
    comes_back(host, Signal::SIGSTOP)?;
    let took = begin.elapsed();
    expected!(took + Duration::from_secs(1) > WATCHDOG / 2, "back after {took:?}: that was not the watchdog");
    let journal = systemd::done("journalctl", &["-u", "maitred", "--no-pager", "-n", "40"])?;
    expected!(journal.contains("Watchdog timeout"), "systemd tells of no watchdog: {journal}");
    Ok(String::new())
}

fn killed(host: &mut Host) -> Result<String> {
    comes_back(host, Signal::SIGKILL)
}

fn ended(host: &mut Host) -> Result<String> {
    comes_back(host, Signal::SIGTERM)
}

/// After this signal the unit runs as another process, is registered, and goes on seating.
fn comes_back(host: &mut Host, signal: Signal) -> Result<String> {
    let (pid, restarts) = (daemon::only()?, restarts()?);
    let begin = Instant::now();
    kill(Pid::from_raw(i32::try_from(pid)?), signal).with_context(|| format!("{signal} to {pid}"))?;
    host.returned(pid)?;
    let took = begin.elapsed();
    expect::same("restarts", &(restarts + 1), &self::restarts()?)?;
    host.tenants.undisturbed(&host.node)?;
    host.tenants.newcomer(&host.node)?;
    Ok(format!("registered after {:.1} s", took.as_secs_f64()))
}

fn restarts() -> Result<u64> {
    let text = systemd::property("NRestarts")?;
    text.parse().with_context(|| format!("NRestarts is {text:?}"))
}

fn containerd_restarted(host: &mut Host) -> Result<String> {
    let (pid, before) = (daemon::only()?, daemon::registered_so_far());
    host.restart_containerd()?;
    daemon::registered(host.patience(), before + 1)?;
    expect::same("maitred's process", &pid, &daemon::only()?)?;
    host.tenants.undisturbed(&host.node)?;
    host.tenants.newcomer(&host.node)?;
    Ok(String::new())
}

/// Both in one transaction, as at a boot: it is ready, without containerd, before containerd begins.
fn before_containerd(host: &mut Host) -> Result<String> {
    stop_both()?;
    fs::write(
        format!("/run/systemd/system/{BOOT}"),
        format!("[Unit]\nWants={} {}\n", containerd::UNIT, systemd::UNIT),
    )?;
    systemd::done("systemctl", &["start", BOOT])?;
    host.containerd_is_new()?;
    daemon::registered(host.patience(), 1)?;
    let ready = systemd::moment(systemd::UNIT, "ActiveEnter")?;
    let begun = systemd::moment(containerd::UNIT, "InactiveExit")?;
    expected!(ready <= begun, "maitred was ready at {ready} us, containerd began at {begun}");
    host.tenants.newcomer(&host.node)?;
    Ok(String::new())
}

/// systemd may not call a daemon started that could not start; containerd starts nevertheless, and nobody has to call
/// `systemctl reset-failed` afterwards.
fn misconfigured(host: &mut Host) -> Result<String> {
    let good = fs::read_to_string(MAITRED_CONFIG)?;
    stop_both()?;
    fs::write(MAITRED_CONFIG, format!("no_such_key = 1\n{good}"))?;
    let said = systemd::tell("systemctl", &["start", containerd::UNIT, systemd::UNIT])?;
    let outcome = said.code;
    host.containerd_is_new()?;
    wait::until(host.patience(), "systemd has tried it some times", || Ok(restarts()? >= 6))?;
    let state = systemd::property("ActiveState")?;
    fs::write(MAITRED_CONFIG, good)?;
    host.returned(0)?;
    expected!(
        outcome != 0,
        "systemctl start: exit status 0 with a configuration that cannot be read: {}",
        said.text
    );
    expected!(state != "active", "it was called active with a configuration that cannot be read");
    Ok(String::new())
}

fn stop_both() -> Result<()> {
    systemd::done("systemctl", &["stop", containerd::UNIT, systemd::UNIT])?;
    expect::same("processes", &Vec::new(), &daemon::all()?)
}
