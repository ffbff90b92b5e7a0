//! Break-glass: `maitred off` puts a file there, `maitred on` takes it away, and every request looks.

use super::error::io;
use super::{Store, StoreError, file};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const OFF: &str = "off";

/// More of a reason than this is not read.
const MOST: u64 = 4096;

/// maitred is off on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Off {
    /// Since when, to the second.
    pub since: SystemTime,
    /// Why, in the owner's words; may be empty.
    pub reason: String,
    /// Who, as far as known: `uid 0`, or `alice (uid 0)` through sudo.
    pub by: String,
}

/// The file's content.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Seconds since 1970.
    since: u64,
    reason: String,
    by: String,
}

impl Off {
    /// The switch in that file; `None` where there is no such file. Needs no store.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        // A link to a file elsewhere is a switch, too.
        let read = file::read_some(path, MOST, file::Links::Followed)?;
        let Some((bytes, file)) = read else { return Ok(None) };
        match serde_json::from_slice::<Written>(&bytes) {
            Ok(Written { since, reason, by }) => Ok(Some(Self { since: at(since), reason, by })),
            Err(_) => by_hand(path, &bytes, &file).map(Some),
        }
    }
}

impl Store {
    /// Whether maitred is off, and why. Cheap enough for every request: one failed `open` while on.
    ///
    /// A file made by hand (`touch /run/maitred/off`) counts: in an emergency nobody looks up a
    /// format. Its text is the reason, its date and owner the rest.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn is_off(&self) -> Result<Option<Off>, StoreError> {
        Self::is_off_in(&self.dir)
    }

    /// The same of a store that need not be opened for it, nor be there.
    ///
    /// # Errors
    /// As [`Self::is_off`].
    pub fn is_off_in(dir: &Path) -> Result<Option<Off>, StoreError> {
        Off::read(&dir.join(OFF))
    }

    /// Switches maitred off from the next request on. Off already: `since` stays, and without a reason the earlier
    /// reason and whose it was; the rest is new.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_off(&self, reason: &str) -> Result<(), StoreError> {
        let before = self.is_off().ok().flatten();
        let since = seconds(before.as_ref().map_or_else(SystemTime::now, |off| off.since));
        let (reason, by) = match before.filter(|before| reason.is_empty() && !before.reason.is_empty()) {
            Some(before) => (before.reason, before.by),
            None => (reason.to_owned(), whoever()),
        };
        // Cut so that it can be read back: a JSON string is at most six times its text.
        let reason = reason.chars().take(MOST as usize / 8).collect();
        let written = Written { since, reason, by };
        let path = self.off_path();
        let text = serde_json::to_string(&written).map_err(|error| io("write", &path)(error.into()))?;
        self.make_dir(&self.dir)?;
        file::replace(&path, &text)
    }

    /// Switches maitred on again; tells whether it was off.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn set_on(&self) -> Result<bool, StoreError> {
        file::remove(&self.off_path())
    }

    fn off_path(&self) -> PathBuf {
        self.dir.join(OFF)
    }
}

fn by_hand(path: &Path, bytes: &[u8], file: &File) -> Result<Off, StoreError> {
    let found = file.metadata().map_err(io("look at", path))?;
    Ok(Off {
        since: at(seconds(found.modified().map_err(io("look at", path))?)),
        reason: String::from_utf8_lossy(bytes).trim().to_owned(),
        by: format!("uid {}", found.uid()),
    })
}

fn at(seconds: u64) -> SystemTime {
    // A date past what the clock can hold was never written by us; the epoch says as much.
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// No name of the uid is looked up: that may ask a directory server, and this must work at once.
fn whoever() -> String {
    let uid = nix::unistd::getuid();
    match std::env::var("SUDO_USER") {
        Ok(name) if !name.is_empty() && name.len() <= 64 => format!("{name} (uid {uid})"),
        _ => format!("uid {uid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch as store;
    use super::*;

    #[test]
    fn off_tells_why_and_since_when_until_it_is_on() {
        let (_run, store) = store();
        assert_eq!(store.is_off().unwrap(), None);
        store.set_off("driver upgrade").unwrap();
        let off = store.is_off().unwrap().unwrap();
        assert_eq!(off.reason, "driver upgrade");
        assert!(off.by.contains("uid "));
        assert!(off.since.elapsed().unwrap() < Duration::from_secs(60));
        assert!(store.set_on().unwrap());
        assert_eq!(store.is_off().unwrap(), None);
        assert!(!store.set_on().unwrap());
    }

    #[test]
    fn off_twice_keeps_the_first_date() {
        let (_run, store) = store();
        std::fs::write(store.off_path(), r#"{"since":1700000000,"reason":"first","by":"uid 0"}"#).unwrap();
        store.set_off("second").unwrap();
        let off = store.is_off().unwrap().unwrap();
        assert_eq!((seconds(off.since), off.reason.as_str()), (1_700_000_000, "second"));
    }

    #[test]
    fn a_file_made_by_hand_is_off_too() {
        let (_run, store) = store();
        for (bytes, reason) in [
            (&b""[..], ""),
            (b"stop it\n", "stop it"),
            (br#"{"since":-1}"#, r#"{"since":-1}"#),
            (b"\xff", "\u{fffd}"),
        ] {
            std::fs::write(store.off_path(), bytes).unwrap();
            let off = store.is_off().unwrap().unwrap();
            assert_eq!(off.reason, reason);
            assert!(off.since.elapsed().unwrap() < Duration::from_secs(60));
        }
        std::fs::write(store.off_path(), r#"{"since":18446744073709551615,"reason":"","by":""}"#).unwrap();
        assert!(store.is_off().unwrap().is_some());
    }

    #[test]
    fn a_reason_of_any_length_can_be_read_back() {
        let (_run, store) = store();
        store.set_off(&"\u{1}é".repeat(5000)).unwrap();
        assert!(store.is_off().unwrap().unwrap().reason.starts_with("\u{1}é\u{1}é"));
    }

    #[test]
    fn something_unreadable_there_is_an_error_with_its_path() {
        let (_run, store) = store();
        std::fs::create_dir(store.off_path()).unwrap();
        assert!(matches!(store.is_off(), Err(StoreError::Io { path, .. }) if path == store.off_path()));
    }

    #[test]
    fn off_works_after_the_directory_was_deleted() {
        let (_run, store) = store();
        std::fs::remove_dir_all(store.dir()).unwrap();
        assert_eq!(store.is_off().unwrap(), None);
        store.set_off("still").unwrap();
        assert!(store.is_off().unwrap().is_some());
    }
}
