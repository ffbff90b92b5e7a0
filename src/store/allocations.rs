//! One small file an allocation.

use super::error::io;
use super::{Store, StoreError, file, name};
use crate::model::ContainerKey;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A record is a few hundred bytes; a file over this is none of ours.
const MOST: u64 = 64 << 10;

/// Everything that was there.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Records by key, ascending.
    pub records: Vec<(ContainerKey, String)>,
    /// Files that are no records: worth a warning each, left where they are.
    pub skipped: Vec<Skipped>,
}

/// A file that was not taken for a record.
#[derive(Debug)]
pub struct Skipped {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub reason: SkippedReason,
}

/// Why a file is no record.
#[derive(Debug)]
pub enum SkippedReason {
    /// The name stands for no key.
    Name,
    /// Not a regular file.
    Kind,
    /// Not ours.
    Owner(u32),
    /// Longer than a record can be: its bytes.
    Size(u64),
    /// Not UTF-8, or no JSON.
    Content(String),
    /// JSON of another kind, or of a version that writes it otherwise.
    Format(String),
    /// It could not be read.
    Unreadable(StoreError),
}

impl Skipped {
    /// Whether it is where an allocation would be, so that one may be lost with it; else it is no business of ours.
    #[must_use]
    pub fn is_allocation(&self) -> bool {
        !matches!(self.reason, SkippedReason::Name | SkippedReason::Kind)
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ignored: ", self.path.display())?;
        match &self.reason {
            SkippedReason::Name => f.write_str("its name is not of the form POD_UID.CONTAINER.json"),
            SkippedReason::Kind => f.write_str("not a regular file"),
            SkippedReason::Owner(uid) => write!(f, "it belongs to uid {uid}"),
            SkippedReason::Size(bytes) => write!(f, "{bytes} bytes, expected at most {MOST}"),
            SkippedReason::Content(why) => write!(f, "no JSON: {why}"),
            SkippedReason::Format(why) => write!(f, "no allocation: {why}"),
            SkippedReason::Unreadable(error) => error.fmt(f),
        }
    }
}

impl Store {
    /// Keeps `json` under `key`, in place of what was there.
    ///
    /// # Errors
    /// `json` is no JSON, or the file cannot be written.
    pub fn put(&self, key: &ContainerKey, json: &str) -> Result<(), StoreError> {
        let parsed: Result<serde::de::IgnoredAny, _> = serde_json::from_str(json);
        parsed.map_err(|source| StoreError::Record { key: key.clone(), source })?;
        self.make_dir(&self.dir)?;
        self.make_dir(&self.allocations_dir())?;
        file::replace(&self.record_path(key), json)?;
        self.count_change()
    }

    /// Forgets `key`; tells whether there was something to forget.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self, key: &ContainerKey) -> Result<bool, StoreError> {
        let was = file::remove(&self.record_path(key))?;
        if was {
            self.count_change()?;
        }
        Ok(was)
    }

    /// Everything kept. What cannot be understood is skipped and told.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn load(&self) -> Result<Loaded, StoreError> {
        let dir = self.allocations_dir();
        let mut loaded = Loaded::default();
        let entries = match std::fs::read_dir(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(loaded),
            entries => entries.map_err(io("list", &dir))?,
        };
        for entry in entries {
            let path = entry.map_err(io("list", &dir))?.path();
            if file::sweep_temporary(&path) {
                continue;
            }
            match read_record(&path) {
                Ok(Some(record)) => loaded.records.push(record),
                Ok(None) => {}
                Err(reason) => loaded.skipped.push(Skipped { path, reason }),
            }
        }
        loaded.records.sort();
        loaded.skipped.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(loaded)
    }

    pub(super) fn allocations_dir(&self) -> PathBuf {
        self.dir.join("allocations")
    }

    pub(super) fn record_path(&self, key: &ContainerKey) -> PathBuf {
        self.allocations_dir().join(name::of(key))
    }
}

/// `None` is a file that was removed since it was listed.
fn read_record(path: &Path) -> Result<Option<(ContainerKey, String)>, SkippedReason> {
    let file_name = path.file_name().and_then(|name| name.to_str());
    let key = file_name.and_then(name::key).ok_or(SkippedReason::Name)?;
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|error| SkippedReason::Unreadable(io("look at", path)(error)))?,
    };
    // Before it is opened: a FIFO would keep the reader waiting for ever.
    if !found.is_file() {
        return Err(SkippedReason::Kind);
    }
    if found.uid() != nix::unistd::geteuid().as_raw() {
        return Err(SkippedReason::Owner(found.uid()));
    }
    if found.len() > MOST {
        return Err(SkippedReason::Size(found.len()));
    }
    let read = file::read_some(path, MOST, file::Links::Refused).map_err(SkippedReason::Unreadable)?;
    read.map(|(bytes, _)| Ok((key, json(bytes)?))).transpose()
}

fn json(bytes: Vec<u8>) -> Result<String, SkippedReason> {
    let text = String::from_utf8(bytes).map_err(|error| SkippedReason::Content(error.to_string()))?;
    let parsed: Result<serde::de::IgnoredAny, _> = serde_json::from_str(&text);
    parsed.map_err(|error| SkippedReason::Content(error.to_string()))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::scratch as store;
    use super::*;

    fn key(pod: &str, container: &str) -> ContainerKey {
        ContainerKey::new(pod.into(), container.into())
    }

    #[test]
    fn what_was_put_is_loaded_until_it_is_removed() {
        let (_run, store) = store();
        store.put(&key("b", "main"), r#"{"cpus":"0-3"}"#).unwrap();
        store.put(&key("a", "main"), "{}").unwrap();
        store.put(&key("a", "main"), r#"{"cpus":"4-7"}"#).unwrap();
        let records = store.load().unwrap().records;
        assert_eq!(
            records,
            [
                (key("a", "main"), r#"{"cpus":"4-7"}"#.to_owned()),
                (key("b", "main"), r#"{"cpus":"0-3"}"#.into())
            ]
        );
        assert!(store.remove(&key("a", "main")).unwrap());
        assert!(!store.remove(&key("a", "main")).unwrap());
        assert_eq!(store.load().unwrap().records.len(), 1);
        // Three puts and one removal changed something, the second removal did not.
        assert_eq!(store.generation().unwrap(), 4);
    }

    #[test]
    fn what_is_no_json_is_not_kept() {
        let (_run, store) = store();
        let error = store.put(&key("a", "main"), "{").unwrap_err();
        assert!(error.to_string().starts_with("the record of a/main is no JSON: "), "{error}");
        assert!(store.load().unwrap().records.is_empty());
    }

    #[test]
    fn foreign_and_damaged_files_are_named_and_skipped() {
        let (_run, store) = store();
        let dir = store.allocations_dir();
        store.put(&key("a", "fine"), "{}").unwrap();
        std::fs::write(dir.join("README"), "").unwrap();
        std::fs::write(dir.join("a.cut.json"), "{\"cpus\":").unwrap();
        std::fs::write(dir.join("a.latin.json"), b"\"\xe9\"").unwrap();
        std::fs::write(dir.join("a.long.json"), vec![b' '; MOST as usize + 1]).unwrap();
        std::fs::create_dir(dir.join("a.dir.json")).unwrap();
        nix::unistd::mkfifo(&dir.join("a.fifo.json"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        let loaded = store.load().unwrap();
        assert_eq!(loaded.records, [(key("a", "fine"), "{}".to_owned())]);
        let told: Vec<String> = loaded.skipped.iter().map(ToString::to_string).collect();
        let expected = [
            ("README", "its name is not"),
            ("a.cut.json", "no JSON: EOF"),
            ("a.dir.json", "not a regular file"),
            ("a.fifo.json", "not a regular file"),
            ("a.latin.json", "no JSON: invalid utf-8"),
            ("a.long.json", "65537 bytes, expected at most 65536"),
        ];
        assert_eq!(told.len(), expected.len(), "{told:#?}");
        for (told, (file, why)) in told.iter().zip(expected) {
            assert!(told.starts_with(&format!("{} ignored: {why}", dir.join(file).display())), "{told}");
        }
    }

    #[test]
    fn a_dead_writers_file_is_swept_a_living_ones_kept() {
        let (_run, store) = store();
        let (old, new) = (store.allocations_dir().join(".new-old"), store.allocations_dir().join(".new-new"));
        let file = std::fs::File::create(&old).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(3600)).unwrap();
        std::fs::write(&new, "").unwrap();
        let loaded = store.load().unwrap();
        assert!(loaded.skipped.is_empty() && loaded.records.is_empty());
        assert!(!old.exists() && new.exists());
    }

    #[test]
    fn deleting_everything_loses_only_the_hints() {
        let (_run, store) = store();
        store.put(&key("a", "main"), "{}").unwrap();
        std::fs::remove_dir_all(store.dir()).unwrap();
        assert!(store.load().unwrap().records.is_empty());
        assert!(!store.remove(&key("a", "main")).unwrap());
        store.put(&key("a", "main"), "{}").unwrap();
        assert_eq!(store.load().unwrap().records.len(), 1);
    }

    #[test]
    fn a_key_longer_than_a_file_name_is_an_error() {
        let (_run, store) = store();
        let error = store.put(&key("a", &"n".repeat(300)), "{}").unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
    }
}
