//! What takes long to find out and seldom changes: kept as text with the signs by which it is known to be true.

use super::{Store, StoreError, file};
use std::path::PathBuf;

/// The topology of the largest machine is some hundred kilobytes.
const MOST: u64 = 8 << 20;

impl Store {
    /// What is kept under a name, if it was kept with these very signs.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn cached(&self, name: &str, signs: &str) -> Result<Option<String>, StoreError> {
        let Some((bytes, _)) = file::read_some(&self.cache_path(name), MOST, file::Links::Refused)? else {
            return Ok(None);
        };
        // What is no UTF-8 was cut or is not ours: as good as nothing.
        let text = String::from_utf8(bytes).unwrap_or_default();
        let kept = text.split_once('\n').filter(|(first, _)| *first == signs);
        Ok(kept.map(|(_, rest)| rest.to_owned()))
    }

    /// Keeps a text under a name, with its signs (one line).
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn cache(&self, name: &str, signs: &str, text: &str) -> Result<(), StoreError> {
        self.make_dir(&self.dir)?;
        file::replace(&self.cache_path(name), &format!("{signs}\n{text}"))
    }

    fn cache_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.cache"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch;

    #[test]
    fn only_the_same_signs_bring_it_back() {
        let (_run, store) = scratch();
        assert_eq!(store.cached("machine", "boot-1 0-3").unwrap(), None);
        store.cache("machine", "boot-1 0-3", "{\n}").unwrap();
        assert_eq!(store.cached("machine", "boot-1 0-3").unwrap().as_deref(), Some("{\n}"));
        assert_eq!(store.cached("machine", "boot-2 0-3").unwrap(), None);
        std::fs::write(store.cache_path("machine"), b"\xff").unwrap();
        assert_eq!(store.cached("machine", "").unwrap(), None);
    }
}
