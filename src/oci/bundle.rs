//! The `config.json` of a bundle: read whole, written beside itself and renamed.

mod origin;

use super::OciError;
use super::document::{self, Document};
use super::edit;
use super::error::io;
use super::facts::{self, Party};
use super::outline::Outline;
use crate::decision::Edit;
use crate::store::{Links, open_regular};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Nothing larger is read as a configuration or a state, in bytes: an endless text would take the node's memory.
const MOST: u64 = 64 << 20;

/// All that `source` has; `path` is its name in errors.
///
/// # Errors
/// It cannot be read, or is larger than any configuration.
pub(super) fn whole(source: impl Read, path: &Path) -> Result<Vec<u8>, OciError> {
    let mut bytes = Vec::new();
    source.take(MOST + 1).read_to_end(&mut bytes).map_err(io("read", path))?;
    match bytes.len() as u64 > MOST {
        true => Err(io("read", path)(std::io::Error::other(format!("it has more than {MOST} bytes")))),
        false => Ok(bytes),
    }
}

/// A container's configuration, and where it is from.
#[derive(Debug)]
pub struct Bundle {
    path: PathBuf,
    document: Document,
    /// What follows the document: runtimes look at none of it.
    rest: String,
    /// As it was before our own edits; `None` is that there are none.
    origin: Option<Document>,
    /// What is read of it as it was then.
    outline: Outline,
    /// What must not be guessed about.
    trouble: Option<OciError>,
}

impl Bundle {
    /// Reads a configuration.
    ///
    /// # Errors
    /// The file cannot be read, is too large, or is no configuration.
    pub fn read(path: &Path) -> Result<Self, OciError> {
        let file = open_regular(path, Links::Followed).map_err(io("open", path))?;
        Self::parse(&whole(file, path)?, path)
    }

    /// Takes a text as a configuration; `path` is its name in errors.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, OciError> {
        let document_error = |source| OciError::Document { path: path.to_owned(), source };
        let text = String::from_utf8_lossy(bytes);
        let (text, rest) = document::first(&text).map_err(document_error)?;
        let (outline, wrong) = Outline::read(text, path)?;
        let document = Document::new(text.to_owned()).map_err(document_error)?;
        let trouble = not_text(bytes, path).or(wrong);
        Self { path: path.to_owned(), document, rest: rest.to_owned(), origin: None, outline, trouble }
            .looked_through()
    }

    /// What is wrong with it as far as it was looked at, told once. Nothing can be decided then, or nothing be
    /// edited; what can be read of the container tells whether that matters.
    pub fn take_trouble(&mut self) -> Option<OciError> {
        self.trouble.take()
    }

    /// The facts of the container, which its caller calls `id`.
    #[must_use]
    pub fn party(&self, id: &str) -> Party {
        facts::party(id, &self.outline)
    }

    /// The `cgroupsPath` as it stands there.
    #[must_use]
    pub fn cgroups_path(&self) -> Option<&str> {
        self.outline.linux.as_ref()?.cgroups_path.as_deref().filter(|path| !path.is_empty())
    }

    /// Carries an edit out on the text.
    ///
    /// # Errors
    /// Something in it is not what the runtime-spec says.
    pub fn edit(&mut self, edit: &Edit) -> Result<(), OciError> {
        edit::apply(&mut self.document, edit)
            .map_err(|source| OciError::Document { path: self.path.clone(), source })
    }

    /// The text as it is now.
    #[must_use]
    pub fn text(&self) -> String {
        self.document.text().to_owned() + &self.rest
    }

    /// Writes it back: whoever reads the file sees the old text or the new one. Not synced: after a crash of the
    /// machine the bundle is made anew.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self) -> Result<(), OciError> {
        // Through a link, so that it stays one.
        let path = self.path.canonicalize().map_err(io("find", &self.path))?;
        let before = path.metadata().map_err(io("look at", &path))?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::Builder::new()
            .prefix(".config.json-")
            .permissions(before.permissions())
            .tempfile_in(directory)
            .map_err(io("write to", directory))?;
        file.write_all(self.text().as_bytes()).map_err(io("write", file.path()))?;
        // The umask has had its say in the mode, and the owner is us.
        file.as_file().set_permissions(before.permissions()).map_err(io("write", file.path()))?;
        let (uid, gid) =
            (std::os::unix::fs::MetadataExt::uid(&before), std::os::unix::fs::MetadataExt::gid(&before));
        std::os::unix::fs::fchown(file.as_file(), Some(uid), Some(gid)).map_err(io("write", file.path()))?;
        file.persist(&path).map(drop).map_err(|error| io("replace", &path)(error.error))
    }
}

/// Bytes that are no UTF-8 were read as other characters, and could not be written back.
fn not_text(bytes: &[u8], path: &Path) -> Option<OciError> {
    let at = std::str::from_utf8(bytes).err()?.valid_up_to();
    Some(OciError::NotText { path: path.to_owned(), at, byte: bytes[at] })
}
