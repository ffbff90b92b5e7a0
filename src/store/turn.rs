//! Whose turn it is to decide: one lock for the daemon, the hooks and the wrapper, held from the reading of the
//! allocations to the writing of the new one.

use super::error::io;
use super::{Store, StoreError};
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to sleep between two tries: holders need a fraction of a millisecond.
const PAUSE: Duration = Duration::from_micros(200);

/// Nobody else decides while this lives. The kernel ends it with the process, however that ends.
#[derive(Debug)]
pub struct Turn {
    _file: File,
}

impl Store {
    /// Waits for its turn, no longer than `limit`.
    ///
    /// # Errors
    /// [`StoreError::Busy`] where somebody else has it all the time.
    pub fn turn(&self, limit: Duration) -> Result<Turn, StoreError> {
        // Never replaced and never removed: a lock file that is can be held twice, once under each inode.
        let path = self.dir.join("lock");
        self.make_dir(&self.dir)?;
        let file = self.open_to_lock(&path)?;
        wait(&file, &path, limit)?;
        Ok(Turn { _file: file })
    }
}

/// Locks `file`, which is `path`, once nobody else has it locked: no later than after `limit`.
pub(super) fn wait(file: &File, path: &Path, limit: Duration) -> Result<(), StoreError> {
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if begin.elapsed() < limit => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Err(StoreError::Busy { path: path.to_owned(), limit }),
            Err(TryLockError::Error(error)) => return Err(io("lock", path)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch;
    use super::*;

    #[test]
    fn one_at_a_time_and_no_longer_than_the_limit() {
        let (_run, store) = scratch();
        let held = store.turn(Duration::ZERO).unwrap();
        let limit = Duration::from_millis(5);
        let error = store.turn(limit).unwrap_err();
        assert!(matches!(error, StoreError::Busy { limit: l, .. } if l == limit));
        assert!(error.to_string().ends_with("/maitred/lock for 5 ms"), "{error}");
        drop(held);
        store.turn(Duration::ZERO).unwrap();
    }
}
