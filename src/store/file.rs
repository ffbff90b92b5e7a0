//! Files as this room reads and writes them: small, and never seen half written.

use super::StoreError;
use super::error::io;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
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

/// Whether a link may stand for the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// It may.
    Followed,
    /// Nobody puts one there.
    Refused,
}

/// Opens a file to be read. Nothing but a regular one: a FIFO would keep the reader waiting for ever, a device may do
/// anything.
///
/// # Errors
/// It cannot be opened, or is something else.
pub fn open_regular(path: &Path, links: Links) -> std::io::Result<File> {
    open_regular_with(OpenOptions::new().read(true), path, links)
}

/// The same, as these options say.
///
/// # Errors
/// As [`open_regular`].
pub fn open_regular_with(options: &mut OpenOptions, path: &Path, links: Links) -> std::io::Result<File> {
    let links = if links == Links::Refused { libc::O_NOFOLLOW } else { 0 };
    let file = options.custom_flags(libc::O_NONBLOCK | links).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::other("it is no regular file")),
    }
}

/// Reads at most `most` bytes; `None` is no such file.
pub(super) fn read_some(path: &Path, most: u64, links: Links) -> Result<Option<(Vec<u8>, File)>, StoreError> {
    let file = match open_regular(path, links) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What would be waited for for ever, or never end.
    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        let read = |path: &Path, links| read_some(path, 9, links).map(|read| read.map(|(bytes, _)| bytes));
        for path in [&at("fifo"), Path::new("/dev/zero"), dir.path()] {
            let error = read(path, Links::Followed).unwrap_err().to_string();
            assert!(error.ends_with("it is no regular file"), "{error}");
        }
        assert_eq!(read(&at("link"), Links::Followed).unwrap().as_deref(), Some(&b"text"[..]));
        assert!(read(&at("link"), Links::Refused).is_err());
        assert_eq!(read(&at("none"), Links::Refused).unwrap(), None);
        let append = open_regular_with(OpenOptions::new().append(true), &at("fifo"), Links::Refused);
        assert!(append.is_err());
    }
}
