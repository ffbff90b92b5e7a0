//! The one door to the kernel's files: a directory that holds `sys/` and `proc/`.

mod walk;

use super::DiscoverError;
use super::parse;
use crate::model::IdSet;
use crate::model::{Id, ListError};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

/// The most that is read of one file. The kernel's are a page; the kubelet's state is far below.
const LIMIT: u64 = 1 << 20;

/// A machine's kernel files, of this machine or gathered from another.
#[derive(Debug, Clone)]
pub struct Root {
    dir: PathBuf,
    host: bool,
}

impl Root {
    /// This machine.
    #[must_use]
    pub fn host() -> Self {
        Self { dir: PathBuf::from("/"), host: true }
    }

    /// The machine whose `sys/` lies in `dir`; `/` is this machine.
    ///
    /// # Errors
    /// Where there is no such directory, or no `sys` in it.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, DiscoverError> {
        let asked = dir.as_ref();
        let dir = fs::canonicalize(asked).map_err(|source| failed("open", asked.into(), source))?;
        let root = Self { host: dir == Path::new("/"), dir };
        let sys = root.full("sys");
        match sys.is_dir() {
            true => Ok(root),
            false => Err(DiscoverError::Missing { path: sys, expected: "a copy of a machine's /sys" }),
        }
    }

    /// What was gathered of a node into `dir`, such as a support bundle: any part of it may be absent; `/` is this
    /// machine.
    ///
    /// # Errors
    /// Where there is no such directory.
    pub fn gathered(dir: impl AsRef<Path>) -> Result<Self, DiscoverError> {
        let asked = dir.as_ref();
        let dir = fs::canonicalize(asked).map_err(|source| failed("open", asked.into(), source))?;
        match dir.is_dir() {
            true => Ok(Self { host: dir == Path::new("/"), dir }),
            false => Err(DiscoverError::Missing { path: dir, expected: "a directory" }),
        }
    }

    /// Whether this is the machine that runs us: only then do drivers' libraries speak of it.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.host
    }

    /// The path to name in an error.
    #[must_use]
    pub fn full(&self, inside: &str) -> PathBuf {
        self.dir.join(inside)
    }

    /// The text of a file, without white space or zero bytes around it; `None` where there is none.
    ///
    /// # Errors
    /// As [`Root::text`].
    pub fn read(&self, inside: &str) -> Result<Option<String>, DiscoverError> {
        Ok(self.text(inside)?.map(|text| parse::bare(&text).to_owned()))
    }

    /// The text of a file as it is; `None` where there is none.
    ///
    /// # Errors
    /// Where it is there and cannot be read, is no regular file, too large, or not UTF-8.
    pub fn text(&self, inside: &str) -> Result<Option<String>, DiscoverError> {
        self.text_up_to(inside, LIMIT)
    }

    /// The same of a file that may have so many bytes: some of the kernel's grow with the machine.
    ///
    /// # Errors
    /// As [`Root::text`].
    pub fn text_up_to(&self, inside: &str, limit: u64) -> Result<Option<String>, DiscoverError> {
        let path = self.full(inside);
        let Some(file) = self.open_file(inside, &path)? else { return Ok(None) };
        tracing::trace!(target: "maitred::read", path = %path.display());
        // Most of the kernel's files fit, and are then read at once.
        let mut bytes = Vec::with_capacity(4096);
        let read = file.take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|source| failed("read", path.clone(), source))?;
        if bytes.len() as u64 > limit {
            return Err(DiscoverError::TooLarge { path, limit });
        }
        let not_text =
            |error: FromUtf8Error| malformed(path, &String::from_utf8_lossy(error.as_bytes()), "UTF-8 text");
        String::from_utf8(bytes).map(Some).map_err(not_text)
    }

    /// The last lines of a file that may be long, such as a log, and whole lines only; `None` where there is none. What
    /// is not UTF-8 is replaced.
    ///
    /// # Errors
    /// As [`Root::read`], but for size and text.
    pub fn last_lines(&self, inside: &str) -> Result<Option<String>, DiscoverError> {
        let path = self.full(inside);
        let Some(mut file) = self.open_file(inside, &path)? else { return Ok(None) };
        let length = file.metadata().map_err(|source| failed("look at", path.clone(), source))?.len();
        let mut bytes = Vec::new();
        let sought = file.seek(SeekFrom::Start(length.saturating_sub(LIMIT)));
        let read = sought.and_then(|_| file.take(LIMIT).read_to_end(&mut bytes));
        read.map_err(|source| failed("read", path, source))?;
        let text = String::from_utf8_lossy(&bytes);
        let whole = if length > LIMIT { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
        Ok(Some(whole.to_owned()))
    }

    /// The text of a file that must be there.
    ///
    /// # Errors
    /// As [`Root::read`], and where it is absent.
    pub fn need(&self, inside: &str, expected: &'static str) -> Result<String, DiscoverError> {
        let absent = || DiscoverError::Missing { path: self.full(inside), expected };
        self.read(inside)?.ok_or_else(absent)
    }

    /// A file's value; `None` where there is no file.
    ///
    /// # Errors
    /// As [`Root::read`], and where `parse` does not take the text.
    pub fn value<T>(
        &self,
        inside: &str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, DiscoverError> {
        let Some(text) = self.read(inside)? else { return Ok(None) };
        let value = parse(&text);
        value.map(Some).ok_or_else(|| malformed(self.full(inside), &text, expected))
    }

    /// The kernel list in a file; `None` where there is no file.
    ///
    /// # Errors
    /// As [`Root::read`], and where it holds no list.
    pub fn list<I: Id>(&self, inside: &str) -> Result<Option<IdSet<I>>, DiscoverError> {
        let Some(text) = self.read(inside)? else { return Ok(None) };
        let list = text.parse();
        list.map(Some).map_err(|source: ListError| DiscoverError::List { path: self.full(inside), source })
    }

    /// The set that one of two files tells: a list, or on older kernels only a mask. Says also which
    /// file it was.
    ///
    /// # Errors
    /// As [`Root::read`], and where it holds no set.
    pub fn set<I: Id>(&self, list: &str, mask: &str) -> Result<Option<(IdSet<I>, PathBuf)>, DiscoverError> {
        if let Some(set) = self.list(list)? {
            return Ok(Some((set, self.full(list))));
        }
        let set = self.value(mask, "a mask such as 00000000,000000ff", parse::mask)?;
        Ok(set.map(|set| (set, self.full(mask))))
    }

    /// The names in a directory, in the order of the numbers in them; `None` where there is none.
    ///
    /// # Errors
    /// Where it is there and cannot be read.
    pub fn names(&self, inside: &str) -> Result<Option<Vec<String>>, DiscoverError> {
        let Some(real) = self.place(inside)? else { return Ok(None) };
        let entries = match fs::read_dir(real) {
            Err(error) if is_absent(&error) => return Ok(None),
            other => other.map_err(|source| failed("list", self.full(inside), source))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|source| failed("list", self.full(inside), source))?;
            // The kernel makes no other names; one that is not UTF-8 can be none of those sought.
            names.extend(entry.file_name().into_string());
        }
        names.sort_by_cached_key(|name| parse::natural(name));
        Ok(Some(names))
    }

    /// The numbers N of the entries `prefixN` of a directory, ascending; `None` where there is no
    /// directory.
    ///
    /// # Errors
    /// Where it is there and cannot be read.
    pub fn numbered(&self, inside: &str, prefix: &str) -> Result<Option<Vec<u32>>, DiscoverError> {
        let Some(names) = self.names(inside)? else { return Ok(None) };
        let number = |name: &String| parse::digits(name.strip_prefix(prefix)?);
        Ok(Some(names.iter().filter_map(number).collect()))
    }

    /// Where a path leads to after all links, as a path within the root; `None` where it leads nowhere.
    ///
    /// # Errors
    /// Where a component cannot be looked at, or links lead in a circle.
    pub fn real(&self, inside: &str) -> Result<Option<PathBuf>, DiscoverError> {
        let walked = self.walk(inside)?;
        Ok(walked.map(|inside| PathBuf::from("/").join(inside)))
    }

    fn open_file(&self, inside: &str, path: &Path) -> Result<Option<File>, DiscoverError> {
        let Some(real) = self.place(inside)? else { return Ok(None) };
        // Not blocking: a pipe in a gathered tree must not hold us up.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(real);
        let file = match file {
            Err(error) if is_absent(&error) => return Ok(None),
            other => other.map_err(|source| failed("open", path.into(), source))?,
        };
        let about = file.metadata().map_err(|source| failed("look at", path.into(), source))?;
        match about.is_file() {
            true => Ok(Some(file)),
            false => Err(DiscoverError::NotAFile { path: path.into() }),
        }
    }

    /// The YAML in a file; `None` where there is no file.
    ///
    /// # Errors
    /// As [`Root::read`], and where it is no such document.
    pub fn yaml<T: serde::de::DeserializeOwned>(&self, inside: &str) -> Result<Option<T>, DiscoverError> {
        let Some(text) = self.read(inside)? else { return Ok(None) };
        let value = serde_saphyr::from_str(&text);
        value
            .map(Some)
            .map_err(|source| DiscoverError::Yaml { path: self.full(inside), source: Box::new(source) })
    }

    /// The path to open, or to connect to; `None` where there is nothing. Below `/` it is not looked at.
    ///
    /// # Errors
    /// As [`Root::real`].
    pub fn place(&self, inside: &str) -> Result<Option<PathBuf>, DiscoverError> {
        match self.host {
            true => Ok(Some(self.full(inside))),
            false => Ok(self.walk(inside)?.map(|real| self.dir.join(real))),
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn failed(verb: &'static str, path: PathBuf, source: io::Error) -> DiscoverError {
    DiscoverError::Io { verb, path, source }
}

/// The error for a file that does not hold what was expected, quoting no more than a line's worth.
pub(super) fn malformed(path: PathBuf, found: &str, expected: &'static str) -> DiscoverError {
    let found = found.chars().take(80).collect();
    DiscoverError::Malformed { path, found, expected }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CpuId;

    pub(super) fn tree() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sys/a")).unwrap();
        fs::write(dir.path().join("sys/a/list"), "0-3\n\0").unwrap();
        let root = Root::open(dir.path()).unwrap();
        (dir, root)
    }

    #[test]
    fn absent_is_none_and_unreadable_is_an_error() {
        let (dir, root) = tree();
        assert_eq!(root.read("sys/none").unwrap(), None);
        assert_eq!(root.read("sys/a/list/under-a-file").unwrap(), None);
        assert_eq!(root.names("sys/none").unwrap(), None);
        assert!(matches!(root.read("sys/a").unwrap_err(), DiscoverError::NotAFile { .. }));
        let error = root.need("sys/none", "a list").unwrap_err().to_string();
        assert_eq!(error, format!("{}/sys/none is not there: expected a list", dir.path().display()));
    }

    #[test]
    fn a_pipe_does_not_hold_us_up() {
        let (dir, root) = tree();
        nix::unistd::mkfifo(&dir.path().join("sys/pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(matches!(root.read("sys/pipe").unwrap_err(), DiscoverError::NotAFile { .. }));
    }

    #[test]
    fn large_and_binary_files_are_errors_that_quote_little() {
        let (dir, root) = tree();
        fs::write(dir.path().join("sys/large"), vec![b'0'; 2 << 20]).unwrap();
        fs::write(dir.path().join("sys/binary"), vec![0xff; 4096]).unwrap();
        assert!(matches!(root.read("sys/large").unwrap_err(), DiscoverError::TooLarge { .. }));
        assert!(root.read("sys/binary").unwrap_err().to_string().len() < 500);
    }

    #[test]
    fn of_a_long_log_the_last_lines_are_read() {
        let (dir, root) = tree();
        let lines: String = (0..200_000).map(|line| format!("line {line}\n")).collect();
        fs::write(dir.path().join("sys/log"), lines).unwrap();
        let read = root.last_lines("sys/log").unwrap().unwrap();
        assert!(read.starts_with("line ") && read.ends_with("\nline 199999\n") && read.len() < 1 << 20);
        fs::write(dir.path().join("sys/log"), b"one \xff\n").unwrap();
        assert_eq!(root.last_lines("sys/log").unwrap().unwrap(), "one \u{fffd}\n");
        assert_eq!(root.last_lines("sys/none").unwrap(), None);
    }

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        let (dir, root) = tree();
        for name in ["cpu10", "cpu9", "cpu0", "cpufreq", "cpu00", "cpu99999999999"] {
            fs::create_dir(dir.path().join("sys/a").join(name)).unwrap();
        }
        assert_eq!(root.numbered("sys/a", "cpu").unwrap().unwrap(), [0, 9, 10]);
    }

    #[test]
    fn a_bad_list_names_file_and_text() {
        let (dir, root) = tree();
        fs::write(dir.path().join("sys/a/bad"), "0-x").unwrap();
        let error = root.list::<CpuId>("sys/a/bad").unwrap_err().to_string();
        assert!(error.ends_with(
            r#"/sys/a/bad: "0-x" in the CPU list "0-x" is neither a number nor a range such as 0-3"#
        ));
        let none = Root::open(dir.path().join("sys")).unwrap_err().to_string();
        assert!(none.ends_with("/sys/sys is not there: expected a copy of a machine's /sys"));
    }
}
