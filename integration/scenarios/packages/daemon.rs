//! maitred's own process: who runs it, what it costs, whether containerd has it.

use crate::expect::expected;
use crate::metrics;
use crate::observe;
use crate::packages::systemd;
use crate::wait;
use anyhow::{Context, Result};
use std::fs;
use std::time::{Duration, Instant};

const BETWEEN: Duration = Duration::from_millis(200);

pub const BINARY: &str = "/usr/bin/maitred";
const CONNECTED: &str = "maitred_nri_connected";
const REGISTRATIONS: &str = "maitred_nri_registrations_total";

/// Every process whose program is the package's binary, that of an earlier version too.
pub fn all() -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("reading /proc")?.flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        // One that ends meanwhile has no program any more.
        let Ok(program) = fs::read_link(entry.path().join("exe")) else { continue };
        let program = program.to_string_lossy().into_owned();
        if program.trim_end_matches(" (deleted)") == BINARY {
            found.push(pid);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The unit's process, which is the only daemon.
pub fn only() -> Result<u32> {
    let main = systemd::main_pid(systemd::UNIT)?;
    let all = all()?;
    expected!(
        main.is_some() && all == main.into_iter().collect::<Vec<_>>(),
        "the unit's process is {main:?}, maitred runs as {all:?}"
    );
    Ok(all[0])
}

/// How often this daemon has registered; nothing unless containerd has it now. Not to be asked all the time: emulated, an
/// answer takes it a tenth of a second.
fn registrations() -> Option<u64> {
    std::thread::sleep(BETWEEN);
    let page = metrics::page().ok()?;
    let connected = metrics::value(&page, CONNECTED).ok()? > 0.5;
    let count = metrics::value(&page, REGISTRATIONS).ok()?;
    connected.then_some(count as u64)
}

pub fn is_registered() -> bool {
    registrations().is_some()
}

/// Waits until containerd has this daemon, for at least the `nth` time.
pub fn registered(limit: Duration, nth: u64) -> Result<()> {
    wait::until(limit, &format!("containerd has registered maitred {nth} times"), || {
        Ok(registrations().is_some_and(|count| count >= nth))
    })
}

pub fn registered_so_far() -> u64 {
    registrations().unwrap_or(0)
}

/// How long containerd had no daemon while `disturb` ran and after it, as seen by one who asks all the time.
pub fn gap(limit: Duration, disturb: impl FnOnce() -> Result<()>) -> Result<Duration> {
    std::thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let watcher = scope.spawn(move || {
            let (mut last_seen, mut longest) = (Instant::now(), Duration::ZERO);
            while matches!(stopped.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)) {
                if is_registered() {
                    longest = longest.max(last_seen.elapsed());
                    last_seen = Instant::now();
                }
            }
            longest
        });
        let outcome = disturb().and_then(|()| registered(limit, 1));
        // One more look before the end.
        std::thread::sleep(4 * BETWEEN);
        drop(stop);
        let longest = watcher.join().expect("watching does not panic");
        outcome.map(|()| longest)
    })
}

/// A line of its `status`, such as `VmRSS`.
pub fn status(pid: u32, name: &str) -> Result<String> {
    let text = observe::proc(pid, "status")?;
    Ok(observe::field(&text, name).with_context(|| format!("process {pid}"))?.to_owned())
}

pub fn memory(pid: u32) -> Result<String> {
    Ok(format!("VmRSS {}, RssAnon {}", status(pid, "VmRSS")?, status(pid, "RssAnon")?))
}

/// utime and stime, in ticks of a hundredth of a second.
pub fn ticks(pid: u32) -> Result<u64> {
    let text = observe::proc(pid, "stat")?;
    // After the name, which may hold blanks.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field = |index: usize| fields.get(index).and_then(|word| word.parse::<u64>().ok());
    field(11)
        .zip(field(12))
        .map(|(user, system)| user + system)
        .with_context(|| format!("stat of {pid}: {text}"))
}

/// The version the lane wrote behind the end of the binary that runs; nothing for the one under test.
pub fn version(pid: u32) -> Result<String> {
    let bytes = fs::read(format!("/proc/{pid}/exe")).context("reading the daemon's program")?;
    let tail = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(64)..]).into_owned();
    Ok(tail.rsplit_once("maitred-version=").map(|(_, version)| version.trim().to_owned()).unwrap_or_default())
}
