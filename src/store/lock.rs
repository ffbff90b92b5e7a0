//! One daemon at a time.

use super::error::io;
use super::{Store, StoreError, file};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs_core::{FromBufRead, LockType, Locks};
use std::fs::{File, TryLockError};
use std::io::{BufReader, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a daemon that was told to end may take. containerd waits five seconds for a plugin that it launched.
const END: Duration = Duration::from_secs(3);
const BETWEEN: Duration = Duration::from_millis(10);

/// Held for the life of a daemon. The kernel frees it when the process ends, however it ends.
#[derive(Debug)]
pub struct DaemonLock {
    file: File,
}

impl Store {
    /// Takes the daemon's lock, without waiting.
    ///
    /// # Errors
    /// [`StoreError::Held`] names the daemon that has it.
    pub fn lock_daemon(&self) -> Result<DaemonLock, StoreError> {
        let path = self.daemon_lock_path();
        let mut file = self.open_to_lock(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Held { pid: written_pid(&mut file), path });
            }
            Err(TryLockError::Error(error)) => return Err(io("lock", &path)(error)),
        }
        // In place: a lock file that is replaced can be held twice, once under each inode.
        file.set_len(0).map_err(io("empty", &path))?;
        file.write_all(std::process::id().to_string().as_bytes()).map_err(io("write", &path))?;
        Ok(DaemonLock { file })
    }

    /// Takes the daemon's lock, from a daemon that has it if need be: that one is told to end, by a signal.
    ///
    /// # Errors
    /// [`StoreError::Held`] where it does not end.
    pub fn take_over_daemon(&self, signal: Signal) -> Result<DaemonLock, StoreError> {
        let begin = Instant::now();
        let mut told = None;
        loop {
            match self.lock_daemon() {
                Err(StoreError::Held { path, .. }) if begin.elapsed() < END => {
                    // Once each: somebody may start it again at once.
                    if let Some(holder) = holder(&path).filter(|holder| told != Some(*holder)) {
                        tell_to_end(holder, signal);
                        told = Some(holder);
                    }
                    sleep(BETWEEN);
                }
                taken => return taken,
            }
        }
    }

    /// The daemon that wrote itself into the lock file last; it may have ended since.
    #[must_use]
    pub fn daemon_pid(&self) -> Option<u32> {
        written_pid(&mut file::open_regular(&self.daemon_lock_path(), file::Links::Refused).ok()?)
    }

    pub(super) fn daemon_lock_path(&self) -> PathBuf {
        self.dir.join("daemon.lock")
    }
}

/// Who holds the lock, as the kernel has it. The number in the file may be that of one before, and be somebody else's by
/// now.
fn holder(path: &Path) -> Option<Pid> {
    let file = path.metadata().ok()?;
    let (major, minor) = (nix::sys::stat::major(file.dev()), nix::sys::stat::minor(file.dev()));
    let locks = Locks::from_buf_read(BufReader::new(File::open("/proc/locks").ok()?)).ok()?;
    let lock = locks.0.into_iter().find(|lock| {
        let place = (u64::from(lock.devmaj), u64::from(lock.devmin), lock.inode);
        lock.lock_type == LockType::FLock && place == (major, minor, file.ino())
    })?;
    lock.pid.filter(|pid| *pid > 0).map(Pid::from_raw)
}

fn tell_to_end(holder: Pid, signal: Signal) {
    tracing::warn!(pid = holder.as_raw(), "another maitred runs: it is told to end");
    if let Err(error) = kill(holder, signal) {
        tracing::warn!(pid = holder.as_raw(), %error, "it cannot be told");
    }
}

fn written_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

impl Drop for DaemonLock {
    fn drop(&mut self) {
        // The next holder's pid must not be ours while it is about to write its own. No harm if it is.
        let _ = self.file.set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch;
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_second_daemon_is_told_who_the_first_is() {
        let (_run, store) = scratch();
        let held = store.lock_daemon().unwrap();
        let error = store.lock_daemon().unwrap_err();
        assert!(matches!(error, StoreError::Held { pid: Some(pid), .. } if pid == std::process::id()));
        assert!(error.to_string().contains(&format!("(pid {})", std::process::id())));
        drop(held);
        store.lock_daemon().unwrap();
    }

    /// That it makes room is tried with daemons (`tests/suite/nri/process.rs`).
    #[test]
    fn who_holds_it_is_known_whatever_the_file_says() {
        let (_run, store) = scratch();
        let path = store.daemon_lock_path();
        assert_eq!(holder(&path), None, "nobody has ever held it");
        let lock = store.lock_daemon().unwrap();
        std::fs::write(&path, "1").unwrap();
        assert_eq!((store.daemon_pid(), holder(&path)), (Some(1), Some(Pid::this())));
        drop(lock);
        assert_eq!(holder(&path), None);
    }

    #[test]
    fn taking_it_never_replaces_the_file() {
        let (_run, store) = scratch();
        let inode = || store.daemon_lock_path().metadata().unwrap().ino();
        let before = inode();
        drop(store.lock_daemon().unwrap());
        Store::open(store.dir()).unwrap();
        assert_eq!(inode(), before);
    }

    #[test]
    fn a_lock_file_with_something_else_in_it_still_locks() {
        let (_run, store) = scratch();
        std::fs::write(store.daemon_lock_path(), "no pid, and longer than any pid could be").unwrap();
        let _held = store.lock_daemon().unwrap();
        let text = std::fs::read_to_string(store.daemon_lock_path()).unwrap();
        assert_eq!(text, std::process::id().to_string());
    }
}
