//! Whether maitred's daemon runs, and whether containerd has taken it in.

use crate::discover::{Process, Root, Sockets};

const LOCK: &str = "run/maitred/daemon.lock";

/// maitred's daemon.
#[derive(Debug)]
pub enum Daemon {
    /// Nobody can tell: processes were not gathered.
    Unknown,
    /// There is none.
    Dead,
    /// It runs.
    Alive {
        /// The process.
        process: Process,
        /// containerd has started it.
        prelaunched: bool,
        /// It is connected to something; `None` where nobody can tell.
        connected: Option<bool>,
    },
}

impl Daemon {
    /// The process that holds the lock, else one that is called like a daemon. Nothing is locked: a daemon that is
    /// just starting must get it.
    pub fn find(root: &Root, processes: Option<&[Process]>, sockets: Option<&Sockets>) -> Self {
        let Some(processes) = processes else { return Self::Unknown };
        let holder = root.read(LOCK).ok().flatten().and_then(|text| text.parse::<u32>().ok());
        let ours = |process: &&Process| {
            process.name.contains("maitred") && !is_self(root, process) && process.is_the_hosts(root)
        };
        let mut candidates = processes.iter().filter(ours);
        let found = candidates
            .clone()
            .find(|process| Some(process.pid) == holder)
            .or_else(|| candidates.find(|process| is_daemon(root, process)));
        let Some(process) = found else { return Self::Dead };
        let parent = process.parent(root);
        let prelaunched = processes.iter().any(|one| Some(one.pid) == parent && one.name == "containerd");
        let connected = sockets.and_then(|sockets| sockets.has_connected(root, process));
        Self::Alive { process: process.clone(), prelaunched, connected }
    }
}

/// The doctor is a process of the same name.
fn is_self(root: &Root, process: &Process) -> bool {
    root.is_host() && process.pid == std::process::id()
}

/// `maitred nri …`, or `NN-maitred` without a word.
fn is_daemon(root: &Root, process: &Process) -> bool {
    let line = process.line(root);
    process.name.starts_with(|first: char| first.is_ascii_digit()) || line.iter().any(|word| word == "nri")
}
