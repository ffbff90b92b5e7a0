//! How often the allocations have changed: who kept a copy compares and reads again only then.

use super::error::io;
use super::{Store, StoreError};
use std::io::ErrorKind;
use std::path::PathBuf;

impl Store {
    /// Changes so far; 0 before the first. Only a difference means anything.
    ///
    /// The number is the length of a file without content (it takes no memory, however long): one
    /// `stat` reads it, and it cannot be torn or malformed.
    ///
    /// # Errors
    /// The file cannot be looked at.
    pub fn generation(&self) -> Result<u64, StoreError> {
        let path = self.generation_file();
        match path.metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            found => Ok(found.map_err(io("look at", &path))?.len()),
        }
    }

    /// Counts one change, after it was made: who reads the new number finds the change as well.
    pub(super) fn count_change(&self) -> Result<(), StoreError> {
        let path = self.generation_file();
        let file = self.open_to_lock(&path)?;
        // Two writers at once must count two. Held for two system calls; freed when `file` closes.
        file.lock().map_err(io("lock", &path))?;
        let length = file.metadata().map_err(io("look at", &path))?.len();
        file.set_len(length + 1).map_err(io("extend", &path))
    }

    /// The file whose length that is, for who wants to be told.
    #[must_use]
    pub fn generation_file(&self) -> PathBuf {
        self.dir.join("generation")
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch;

    #[test]
    fn counts_changes_also_of_writers_that_meet() {
        let (_run, store) = scratch();
        assert_eq!(store.generation().unwrap(), 0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|_| store.count_change().unwrap()));
            }
        });
        assert_eq!(store.generation().unwrap(), 200);
    }
}
