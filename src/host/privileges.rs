//! The daemon's capabilities: one of them, once it has started.
//!
//! Root's own files need no capability, and everything the daemon touches is root's own:
//!
//! | what it does | why that needs none |
//! |---|---|
//! | write cpuset and cpu files | uid 0 owns them with mode 0644; runtimes hand a cgroup to a user namespace by its `cgroup.*` files alone (`/sys/kernel/cgroup/delegate`) |
//! | read cgroups, `/sys`, the kubelet's files | owner or everybody may (no `CAP_DAC_READ_SEARCH`) |
//! | connect to containerd, podresources, systemd | the sockets are root's (no `CAP_DAC_OVERRIDE`) |
//! | keep `/run/maitred` | it made it (no `CAP_CHOWN`, no `CAP_FOWNER`) |
//! | ask NVML | the device nodes are root's and exist once anything has used the driver; where they do not, making them takes `CAP_MKNOD`, NVML is not usable, and the GPUs are those of the kernel's files |
//!
//! What it keeps is `CAP_SYS_PTRACE`: [`super::numa_maps`] of a container's process, which the daemon compares
//! with its placement once the container runs, is shown to nobody without it, and neither is `/proc/PID/status`
//! where /proc is mounted with hidepid. Commands such as `verify` keep what root has.

use caps::{CapSet, CapsHashSet, errors::CapsError};

pub use caps::Capability;

/// What the daemon keeps; the table above says why nothing else.
pub const DAEMON: &[Capability] = &[Capability::CAP_SYS_PTRACE];

/// Why capabilities could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// Started by somebody else.
    #[error("maitred runs as uid {euid}, expected root: cgroup files are root's to write")]
    NotRoot { euid: u32 },
    /// Capabilities are a thread's; the others would keep theirs.
    #[error("{count} threads run, expected one: capabilities are given up before threads are made")]
    Threads { count: usize },
    /// The kernel refused.
    #[error("cannot change the {set} capabilities: {source}")]
    Set { set: &'static str, source: CapsError },
    /// What the kernel tells about this process is needed, and cannot be read.
    #[error("cannot read {path}: {source}")]
    Proc { path: &'static str, source: std::io::Error },
    /// It was done and something else came of it.
    #[error("{path} shows {line:?}, expected {expected}")]
    Left { path: &'static str, line: String, expected: String },
}

/// One entry a thread.
const TASKS: &str = "/proc/self/task";
/// The capability sets of the calling thread.
const STATUS: &str = "/proc/thread-self/status";

/// Gives up every capability but `keep`, for good: the bounding, inheritable and ambient sets are
/// emptied, so no program started later has any either. Returns what is kept: of `keep`, what there
/// was. To be called while there is one thread; threads made later have what this one has.
///
/// # Errors
/// Not root, more than one thread, or the kernel refuses. Some may be given up by then.
pub fn keep_only(keep: &[Capability]) -> Result<Vec<Capability>, PrivilegeError> {
    let euid = nix::unistd::geteuid();
    if !euid.is_root() {
        return Err(PrivilegeError::NotRoot { euid: euid.as_raw() });
    }
    let count = entries(TASKS).map_err(|source| PrivilegeError::Proc { path: TASKS, source })?;
    if count != 1 {
        return Err(PrivilegeError::Threads { count });
    }
    give_up(&kept(keep)?)
}

/// Leaves the calling thread with `kept`.
fn give_up(kept: &CapsHashSet) -> Result<Vec<Capability>, PrivilegeError> {
    // First, while CAP_SETPCAP is still there to allow it.
    step("bounding", caps::clear(None, CapSet::Bounding))?;
    step("ambient", caps::clear(None, CapSet::Ambient))?;
    step("inheritable", caps::clear(None, CapSet::Inheritable))?;
    step("effective", caps::set(None, CapSet::Effective, kept))?;
    step("permitted", caps::set(None, CapSet::Permitted, kept))?;
    check(kept)?;
    let mut kept: Vec<_> = kept.iter().copied().collect();
    kept.sort_by_key(Capability::index);
    Ok(kept)
}

fn step<T>(set: &'static str, result: Result<T, CapsError>) -> Result<T, PrivilegeError> {
    result.map_err(|source| PrivilegeError::Set { set, source })
}

fn entries(dir: &str) -> std::io::Result<usize> {
    Ok(std::fs::read_dir(dir)?.count())
}

fn kept(keep: &[Capability]) -> Result<CapsHashSet, PrivilegeError> {
    let permitted = step("permitted", caps::read(None, CapSet::Permitted))?;
    Ok(keep.iter().copied().filter(|capability| permitted.contains(capability)).collect())
}

/// Asks the kernel, which may know capabilities that the crate does not.
fn check(kept: &CapsHashSet) -> Result<(), PrivilegeError> {
    let mask = kept.iter().fold(0, |mask, capability| mask | capability.bitmask());
    let status = std::fs::read_to_string(STATUS);
    let status = status.map_err(|source| PrivilegeError::Proc { path: STATUS, source })?;
    let expected = [("CapInh:", 0), ("CapPrm:", mask), ("CapEff:", mask), ("CapBnd:", 0), ("CapAmb:", 0)];
    for (key, mask) in expected {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        let found = line.strip_prefix(key).and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        if found != Some(mask) {
            let expected = format!("{key} {mask:016x}");
            return Err(PrivilegeError::Left { path: STATUS, line: line.to_owned(), expected });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Cgroups;
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    /// Runs on a thread that has given up all but `keep`. Capabilities are a thread's, so the other
    /// tests keep theirs. `None`, with the reason printed, where there are none to give up.
    fn with_only<T: Send>(keep: &[Capability], then: impl FnOnce(Vec<Capability>) -> T + Send) -> Option<T> {
        if !caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP).unwrap_or(false) {
            eprintln!("skipped: no capabilities to give up");
            return None;
        }
        let kept = kept(keep).unwrap();
        let on_thread = || then(give_up(&kept).unwrap());
        Some(std::thread::scope(|scope| scope.spawn(on_thread).join().unwrap()))
    }

    fn sets(status: &str) -> Vec<(String, u64)> {
        let lines = status.lines().filter_map(|line| line.split_once(":\t"));
        let sets = lines.filter(|(key, _)| key.starts_with("Cap"));
        sets.map(|(key, hex)| (key.to_owned(), u64::from_str_radix(hex, 16).unwrap())).collect()
    }

    fn expected(permitted: u64, effective: u64) -> Vec<(String, u64)> {
        let sets =
            [("CapInh", 0), ("CapPrm", permitted), ("CapEff", effective), ("CapBnd", 0), ("CapAmb", 0)];
        sets.map(|(key, mask)| (key.to_owned(), mask)).to_vec()
    }

    #[test]
    fn a_process_can_be_left_with_none() {
        let told = with_only(&[], |kept| (kept, fs::read_to_string(STATUS).unwrap()));
        let Some((kept, own)) = told else { return };
        assert_eq!(kept, []);
        assert_eq!(sets(&own), expected(0, 0));
    }

    #[test]
    fn what_a_daemon_keeps_is_not_passed_on() {
        let told = with_only(DAEMON, |kept| {
            let program = Command::new("cat").arg("/proc/self/status").output().unwrap();
            (kept, fs::read_to_string(STATUS).unwrap(), String::from_utf8(program.stdout).unwrap())
        });
        let Some((kept, own, programs)) = told else { return };
        assert_eq!(kept, [Capability::CAP_SYS_PTRACE]);
        assert_eq!(sets(&own), expected(1 << 19, 1 << 19));
        assert_eq!(sets(&programs), expected(0, 0));
    }

    #[test]
    fn it_cannot_be_undone() {
        let undone = with_only(DAEMON, |_| caps::raise(None, CapSet::Effective, Capability::CAP_SYS_ADMIN));
        assert!(undone.is_none_or(|undone| undone.is_err()));
    }

    #[test]
    fn a_cpuset_can_be_written_with_that() {
        let path = format!("/maitred-test-{}-capless", std::process::id());
        let dir = Path::new("/sys/fs/cgroup/cpuset").join(&path[1..]);
        if !dir.with_file_name("cpuset.mems").exists() || fs::create_dir(&dir).is_err() {
            eprintln!("skipped: no cpuset cgroup of v1 can be made here");
            return;
        }
        let written = with_only(DAEMON, |_| {
            let cgroups = Cgroups::find(Path::new("/"))?;
            cgroups.write_cpuset(&path, &"0".parse().unwrap(), Some(&"0".parse().unwrap()))
        });
        fs::remove_dir(&dir).unwrap();
        written.unwrap_or(Ok(())).unwrap();
    }
}
