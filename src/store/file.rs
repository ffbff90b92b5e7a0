//! Files as this room reads and writes them: small, and never seen half written.

use super::StoreError;
use super::error::io;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What a file being written is called first. No finished file begins like it.
const TEMPORARY: &str = ".new-";

/// How old a temporary file is when its writer must be dead: writing takes microseconds.
const STALE: Duration = Duration::from_secs(60);

/// Writes beside `path` and renames, so a reader sees the old text or the new one. Not synced to
/// disk: the store lies on a tmpfs, and what a crash of the machine leaves is not read again.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), StoreError> {
    let dir = path.parent().unwrap_or(path);
    let mut file =
        tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(dir).map_err(io("write to", dir))?;
    file.write_all(text.as_bytes()).map_err(io("write", file.path()))?;
    file.persist(path).map(drop).map_err(|error| io("replace", path)(error.error))
}

/// Reads at most `most` bytes; `None` is no such file.
pub(super) fn read_some(path: &Path, most: u64) -> Result<Option<(Vec<u8>, File)>, StoreError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        result => result.map_err(io("open", path))?,
    };
    // Most files fit, and are then read at once.
    let mut bytes = Vec::with_capacity(2048);
    (&file).take(most).read_to_end(&mut bytes).map_err(io("read", path))?;
    Ok(Some((bytes, file)))
}

/// Removes a file; tells whether there was one.
pub(super) fn remove(path: &Path) -> Result<bool, StoreError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        result => result.map(|()| true).map_err(io("remove", path)),
    }
}

/// Whether `path` is a file somebody is writing or died writing; in the latter case it is removed.
pub(super) fn sweep_temporary(path: &Path) -> bool {
    let named =
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes()));
    if named && age(path).is_some_and(|age| age > STALE) {
        // Left where that fails: it is in nobody's way, and the next reader tries again.
        let _ = std::fs::remove_file(path);
    }
    named
}

fn age(path: &Path) -> Option<Duration> {
    let modified = path.symlink_metadata().and_then(|found| found.modified()).ok()?;
    SystemTime::now().duration_since(modified).ok()
}
