//! What the daemon tells of itself to whoever asks on the node (`maitred status`, `doctor`): one small file that it
//! replaces when something of it changes.

use super::{Process, Store, StoreError, file};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// More than this is no notice of ours.
const MOST: u64 = 16 << 10;

/// A daemon, as it last described itself. Whether it still runs is told by its process alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Notice {
    /// Its process; `None` where it could not read its own start time.
    pub process: Option<Process>,
    /// Its version.
    pub version: String,
    /// `enforce` or `audit`.
    pub mode: String,
    /// Who picks exclusive CPUs, `maitred` or `kubelet`; `None` before the first registration.
    pub authority: Option<String>,
    /// `policy.topology`.
    pub policy: String,
    /// `policy.scope`.
    pub scope: String,
    /// The runtime it last registered with, name and version.
    pub runtime: Option<String>,
    /// Whether that connection stands.
    pub connected: bool,
    /// How often it has registered.
    pub registrations: u64,
    /// When any of this last changed (RFC 3339, UTC).
    pub since: String,
}

impl Store {
    /// Replaces what the daemon tells of itself.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_notice(&self, notice: &Notice) -> Result<(), StoreError> {
        // Strings and numbers: there is nothing in it that JSON could not say.
        let text = serde_json::to_string(notice).unwrap_or_default();
        self.make_dir(&self.dir)?;
        file::replace(&self.notice_path(), &text)
    }

    /// What a daemon last told of itself; `None` where none has, or what is there was not written by one.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn notice(&self) -> Result<Option<Notice>, StoreError> {
        let read = file::read_some(&self.notice_path(), MOST, file::Links::Refused)?;
        Ok(read.and_then(|(bytes, _)| serde_json::from_slice(&bytes).ok()))
    }

    fn notice_path(&self) -> PathBuf {
        self.dir.join("daemon.json")
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch;
    use super::*;

    #[test]
    fn what_the_daemon_tells_is_read_back_and_nonsense_is_nothing() {
        let (_run, store) = scratch();
        assert_eq!(store.notice().unwrap(), None);
        let notice = Notice {
            process: Some(Process { pid: 7, start: 9, until: None }),
            connected: true,
            ..Notice::default()
        };
        store.set_notice(&notice).unwrap();
        assert_eq!(store.notice().unwrap(), Some(notice));
        // A later version says more; an earlier one said less.
        std::fs::write(store.notice_path(), r#"{"mode":"audit","mood":"fine"}"#).unwrap();
        assert_eq!(store.notice().unwrap().unwrap().mode, "audit");
        std::fs::write(store.notice_path(), "{").unwrap();
        assert_eq!(store.notice().unwrap(), None);
    }
}
