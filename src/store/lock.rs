//! One daemon at a time.

use super::error::io;
use super::{Store, StoreError, file};
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::PathBuf;

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

    /// The daemon that wrote itself into the lock file last; it may have ended since.
    #[must_use]
    pub fn daemon_pid(&self) -> Option<u32> {
        written_pid(&mut file::open_regular(&self.daemon_lock_path(), file::Links::Refused).ok()?)
    }

    pub(super) fn daemon_lock_path(&self) -> PathBuf {
        self.dir.join("daemon.lock")
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
