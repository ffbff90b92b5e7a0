//! Which memory policies a runtime sets itself, by its own word: `runc features`, `crun features`.
//!
//! One that does not know `linux.memoryPolicy` ignores it silently, and one older than the verb has no word for it.

use super::ask::answer;
use super::error::io;
use super::{HostError, KernelModes};
use crate::model::MemoryMode;
use oci_spec::runtime::Features;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What is kept is a few hundred bytes.
const MOST: u64 = 64 << 10;

/// The memory policies a runtime sets itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeFeatures {
    modes: Vec<String>,
    flags: Vec<String>,
}

/// A runtime's answer with the binary that gave it.
#[derive(Serialize, Deserialize)]
struct Known {
    binary: PathBuf,
    /// Seconds, nanoseconds, inode and length: another binary under the same name has others.
    stamp: (i64, i64, u64, u64),
    features: RuntimeFeatures,
}

impl RuntimeFeatures {
    /// Asks `binary`, or takes what it said before from a file in `cache` while it is the same binary.
    ///
    /// A runtime that cannot answer sets no policies: that is its features, not an error. A cache that cannot be
    /// written costs the question again.
    ///
    /// # Errors
    /// There is no such binary.
    pub fn of(binary: &Path, cache: &Path) -> Result<Self, HostError> {
        let found = binary.metadata().map_err(io("look at", binary))?;
        let stamp = (found.mtime(), found.mtime_nsec(), found.ino(), found.len());
        let file = cache.join(cache_name(binary));
        let known = read(&file).ok().and_then(|json| serde_json::from_slice::<Known>(&json).ok());
        if let Some(known) = known.filter(|known| known.binary == binary && known.stamp == stamp) {
            return Ok(known.features);
        }
        let features = ask(binary).unwrap_or_default();
        let known = Known { binary: binary.to_owned(), stamp, features };
        let _ = keep(cache, &file, &known);
        Ok(known.features)
    }

    /// Reads what `features` prints.
    ///
    /// # Errors
    /// It is no JSON of that kind.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        let features: Features = serde_json::from_str(json)?;
        let policy =
            features.linux().as_ref().and_then(|linux| linux.memory_policy().clone()).unwrap_or_default();
        let list = |words: &Option<Vec<String>>| words.clone().unwrap_or_default();
        Ok(Self { modes: list(policy.modes()), flags: list(policy.flags()) })
    }

    /// Whether it sets a policy with nodes that stay as they are numbered.
    #[must_use]
    pub fn sets_policies(&self) -> bool {
        self.knows(MemoryMode::Bind) && self.flags.iter().any(|flag| flag == "MPOL_F_STATIC_NODES")
    }

    /// Whether it knows a mode.
    #[must_use]
    pub fn knows(&self, mode: MemoryMode) -> bool {
        self.modes.iter().any(|word| word == oci_mode(mode))
    }

    /// Of the kernel's newer modes those that it knows too; where it sets no policies somebody else does, and the
    /// kernel alone counts.
    #[must_use]
    pub fn narrow(&self, kernel: KernelModes) -> KernelModes {
        let other = !self.sets_policies();
        KernelModes {
            preferred_many: kernel.preferred_many && (other || self.knows(MemoryMode::PreferredMany)),
            weighted_interleave: kernel.weighted_interleave
                && (other || self.knows(MemoryMode::WeightedInterleave)),
        }
    }
}

/// The runtime-spec's word for a mode (`linux.memoryPolicy.mode`).
#[must_use]
pub fn oci_mode(mode: MemoryMode) -> &'static str {
    match mode {
        MemoryMode::Bind => "MPOL_BIND",
        MemoryMode::Preferred => "MPOL_PREFERRED",
        MemoryMode::PreferredMany => "MPOL_PREFERRED_MANY",
        MemoryMode::Interleave => "MPOL_INTERLEAVE",
        MemoryMode::WeightedInterleave => "MPOL_WEIGHTED_INTERLEAVE",
        MemoryMode::Local => "MPOL_LOCAL",
    }
}

/// `None` is a runtime that has no such verb, does not end, or prints something else.
fn ask(binary: &Path) -> Option<RuntimeFeatures> {
    RuntimeFeatures::parse(&answer(binary, "features")?).ok()
}

/// One file a binary: its path with `%2F` for each slash, as long as file names can be.
fn cache_name(binary: &Path) -> String {
    let path = binary.to_string_lossy().replace('%', "%25").replace('/', "%2F");
    let tail: Vec<char> = path.chars().rev().take(60).collect();
    format!("features{}.json", tail.into_iter().rev().collect::<String>())
}

/// A FIFO in its place is empty.
fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(file)?;
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn keep(cache: &Path, file: &Path, known: &Known) -> std::io::Result<()> {
    let mut new = tempfile::NamedTempFile::new_in(cache)?;
    new.write_all(&serde_json::to_vec(known)?)?;
    new.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const NEW: &str = r#"{"ociVersionMin":"1.0.0","ociVersionMax":"1.3.0","future":1,"linux":{"memoryPolicy":{
        "modes":["MPOL_DEFAULT","MPOL_BIND","MPOL_PREFERRED","MPOL_PREFERRED_MANY"],"flags":["MPOL_F_STATIC_NODES"]}}}"#;
    const OLD: &str =
        r#"{"ociVersionMin":"1.0.0","ociVersionMax":"1.0.2-dev","linux":{"namespaces":["ipc"]}}"#;

    fn runtime(dir: &Path, script: &str) -> PathBuf {
        let binary = dir.join("runc");
        // By rename: a file that is open for writing anywhere cannot be run.
        let new = dir.join("new");
        std::fs::write(&new, format!("#!/bin/sh\necho asked >> {}/asked\n{script}\n", dir.display()))
            .unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(&new, &binary).unwrap();
        binary
    }

    fn asked(dir: &Path) -> usize {
        std::fs::read_to_string(dir.join("asked")).unwrap_or_default().lines().count()
    }

    #[test]
    fn modes_are_by_the_runtimes_word() {
        let new = RuntimeFeatures::parse(NEW).unwrap();
        assert!(new.sets_policies() && new.knows(MemoryMode::PreferredMany) && !new.knows(MemoryMode::Local));
        assert!(!RuntimeFeatures::parse(OLD).unwrap().sets_policies());
        let no_flag = RuntimeFeatures::parse(&NEW.replace("STATIC", "RELATIVE")).unwrap();
        assert!(!no_flag.sets_policies(), "nodes that are renumbered are none of ours");
    }

    #[test]
    fn a_newer_mode_takes_the_runtime_and_the_kernel() {
        let all = KernelModes { preferred_many: true, weighted_interleave: true };
        let narrowed = RuntimeFeatures::parse(NEW).unwrap().narrow(all);
        assert_eq!(narrowed, KernelModes { preferred_many: true, weighted_interleave: false });
        assert_eq!(
            RuntimeFeatures::parse(NEW).unwrap().narrow(KernelModes::default()),
            KernelModes::default()
        );
        assert_eq!(
            RuntimeFeatures::parse(OLD).unwrap().narrow(all),
            all,
            "the launcher sets it, not the runtime"
        );
    }

    #[test]
    fn a_runtime_is_asked_once_and_again_when_it_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let binary = runtime(dir.path(), &format!("echo '{OLD}'"));
        for _ in 0..2 {
            assert!(!RuntimeFeatures::of(&binary, dir.path()).unwrap().sets_policies());
        }
        assert_eq!(asked(dir.path()), 1);
        runtime(dir.path(), &format!("echo '{NEW}'"));
        assert!(RuntimeFeatures::of(&binary, dir.path()).unwrap().sets_policies());
        assert_eq!(asked(dir.path()), 2);
    }

    #[test]
    fn one_that_has_no_answer_sets_nothing_and_one_that_is_absent_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        for script in ["exit 1", "echo nonsense", "kill -9 $$"] {
            let binary = runtime(dir.path(), script);
            assert_eq!(
                RuntimeFeatures::of(&binary, Path::new("/nowhere")).unwrap(),
                RuntimeFeatures::default()
            );
        }
        let error = RuntimeFeatures::of(Path::new("/nowhere/runc"), dir.path()).unwrap_err();
        assert!(error.to_string().starts_with("cannot look at /nowhere/runc"), "{error}");
    }
}
