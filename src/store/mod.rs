//! What lies below `/run/maitred`: whether maitred is off, which daemon runs, and one small file an
//! allocation.
//!
//! ```text
//! /run/maitred/            0700, root
//!   daemon.lock            held by the one daemon; never replaced
//!   lock                   held while somebody decides; never replaced
//!   off                    there while maitred is off
//!   generation             its length counts the changes of allocations/
//!   allocations/UID.NAME.json
//!   machine.cache          the topology, with the signs by which it is known to be true
//!   daemon.json            what the daemon tells of itself
//!   verdicts               what was decided, one JSON object a line; at most a mebibyte
//! ```
//!
//! To the daemon what it wrote itself is a hint. A container that runs tells what it holds itself; only for a
//! stopped container of a live pod, which the runtime leaves out of its list, is there no other witness.
//! Hooks and the wrapper have nobody to ask: to them the allocations are the ledger. Every write makes what is
//! missing again, but the directory must not be deleted while containers run that a hook or the wrapper has
//! placed, nor under a running daemon: its lock goes with it.

mod allocation;
mod allocations;
mod cache;
mod error;
mod file;
mod generation;
mod journal;
mod lock;
mod name;
mod notice;
mod off;
mod turn;

pub use allocation::{Allocation, By, Process};
pub use allocations::{Loaded, Skipped, SkippedReason};
pub use error::StoreError;
pub use file::{Links, open_regular, open_regular_with};
pub use journal::{
    AmountTold, CandidateTold, Evidence, HolderTold, JOURNAL_MOST, LargestTold, ShortTold, Told, WeakerTold,
};
pub use lock::DaemonLock;
pub use notice::Notice;
pub use off::Off;
pub use turn::Turn;

use error::io;
use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where the store lies unless told otherwise: on a tmpfs, so a reboot empties it.
pub const DEFAULT_DIR: &str = "/run/maitred";

/// The store below one directory. Holds no file open; any number may exist side by side.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// Opens the store in `dir`, which is made (mode 0700) where it is missing; its parent is not.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`] where nothing can be written there: a daemon goes on in memory then
    /// and says so. [`StoreError::Owner`] and [`StoreError::Writable`] where somebody else could have
    /// put the files there.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let store = Self { dir: dir.to_owned() };
        store.make_dir(dir)?;
        check(dir)?;
        store.make_dir(&store.allocations_dir())?;
        check(&store.allocations_dir())?;
        store.open_to_lock(&store.daemon_lock_path())?;
        store.open_to_lock(&store.generation_file())?;
        Ok(store)
    }

    /// The store in `dir`, to be read only: nothing is made. `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError::Owner`] and [`StoreError::Writable`] where somebody else could have put the files there.
    pub fn look(dir: &Path) -> Result<Option<Self>, StoreError> {
        if dir.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Ok(None);
        }
        check(dir)?;
        Ok(Some(Self { dir: dir.to_owned() }))
    }

    /// The directory it lies in.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn make_dir(&self, dir: &Path) -> Result<(), StoreError> {
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            // The order of the kernel's checks is the file system's: EROFS may come before EEXIST.
            Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem && dir.is_dir() => Ok(()),
            result => result.map_err(io("make", dir)),
        }
    }

    /// Opens, and makes where missing, a file that is only ever locked or measured in place.
    fn open_to_lock(&self, path: &Path) -> Result<std::fs::File, StoreError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        file::open_regular_with(&mut options, path, Links::Refused).map_err(io("open", path))
    }
}

fn check(dir: &Path) -> Result<(), StoreError> {
    // Not followed: a link would let whoever owns it choose the directory.
    let found = dir.symlink_metadata().map_err(io("look at", dir))?;
    check_found(dir, &found, nix::unistd::geteuid().as_raw())
}

fn check_found(dir: &Path, found: &Metadata, expected: u32) -> Result<(), StoreError> {
    if !found.is_dir() {
        return Err(StoreError::NotADirectory { path: dir.to_owned() });
    }
    if found.uid() != expected {
        return Err(StoreError::Owner { dir: dir.to_owned(), owner: found.uid(), expected });
    }
    match found.mode() & 0o7777 {
        mode if mode & 0o022 != 0 => Err(StoreError::Writable { dir: dir.to_owned(), mode }),
        _ => Ok(()),
    }
}

/// A store of its own for a test; its directory goes with the first of the two.
#[cfg(test)]
fn scratch() -> (tempfile::TempDir, Store) {
    let run = tempfile::tempdir().unwrap();
    let store = Store::open(&run.path().join("maitred")).unwrap();
    (run, store)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, metadata, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn opening_makes_a_private_directory_and_opening_again_keeps_it() {
        let run = tempfile::tempdir().unwrap();
        let dir = run.path().join("maitred");
        Store::open(&dir).unwrap();
        let store = Store::open(&dir).unwrap();
        assert_eq!(metadata(store.dir()).unwrap().mode() & 0o7777, 0o700);
    }

    #[test]
    fn a_directory_others_can_write_is_refused_by_name_and_mode() {
        let run = tempfile::tempdir().unwrap();
        for mode in [0o720, 0o702, 0o777] {
            let dir = run.path().join(format!("{mode:o}"));
            create_dir(&dir).unwrap();
            set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
            let error = Store::open(&dir).unwrap_err();
            assert!(matches!(&error, StoreError::Writable { dir: d, mode: m } if *d == dir && *m == mode));
            assert!(error.to_string().contains(&format!("{} has mode 0{mode:o}", dir.display())));
        }
    }

    #[test]
    fn a_directory_of_somebody_else_is_refused() {
        let run = tempfile::tempdir().unwrap();
        let found = metadata(run.path()).unwrap();
        let error = check_found(run.path(), &found, found.uid() + 1).unwrap_err();
        assert!(matches!(error, StoreError::Owner { owner, .. } if owner == found.uid()));
    }

    #[test]
    fn neither_a_link_nor_a_file_is_a_directory() {
        let run = tempfile::tempdir().unwrap();
        let (real, link, file) = (run.path().join("real"), run.path().join("link"), run.path().join("file"));
        create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        std::fs::write(&file, "").unwrap();
        for path in [link, file] {
            assert!(matches!(Store::open(&path), Err(StoreError::NotADirectory { path: p }) if p == path));
        }
    }

    #[test]
    fn a_missing_parent_is_an_error_with_the_path() {
        let run = tempfile::tempdir().unwrap();
        let dir = run.path().join("absent/maitred");
        let error = Store::open(&dir).unwrap_err();
        assert!(matches!(&error, StoreError::Io { verb: "make", path, .. } if *path == dir), "{error}");
    }
}
