//! The fuzzing targets without a fuzzer: their corpora, and a short run of random changes of them. The long run is
//! `tests/fuzz/run.sh`.

#[path = "../fuzz/targets.rs"]
mod targets;

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use targets::TARGETS;

fn dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz").join(name)
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let files = fs::read_dir(dir("corpus").join(target)).unwrap_or_else(|error| panic!("{target}: {error}"));
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{target} has no corpus");
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// By target: what long runs have kept, since it reaches what the seeds do not (`run.sh keep`).
fn kept() -> BTreeMap<String, Vec<Vec<u8>>> {
    let file = fs::File::open(dir("corpus.tar.gz")).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut kept = BTreeMap::<String, Vec<Vec<u8>>>::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.header().entry_type().is_file() {
            let path = entry.path().unwrap().into_owned();
            let target = path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            kept.entry(target).or_default().push(bytes);
        }
    }
    kept
}

fn names(of: &str) -> BTreeSet<String> {
    let files = fs::read_dir(dir(of)).unwrap();
    files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let all: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("fuzz_targets"), all);
    assert_eq!(names("corpus"), all);
    assert_eq!(kept().into_keys().collect::<BTreeSet<_>>(), all);
    let manifest = fs::read_to_string(dir("Cargo.toml")).unwrap();
    for name in &all {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not built");
    }
}

#[test]
fn what_was_found_once_is_survived() {
    let kept = kept();
    for (name, target) in TARGETS {
        corpus(name).iter().chain(&kept[name]).for_each(|bytes| target(bytes));
    }
}

/// A change of some bytes.
#[derive(Debug, Clone)]
enum Change {
    Put(u16, u8),
    Insert(u16, Vec<u8>),
    Cut(u16, u8),
    Repeat(u16, u8),
}

fn change() -> impl Strategy<Value = Change> {
    let pieces = [
        &b"\""[..],
        b"{",
        b"[",
        b"]",
        b"}",
        b":",
        b",",
        b"null",
        b"-1",
        b"18446744073709551616",
        b"1e999",
        b"\0",
        b"\n",
        b"\xff",
        "é".as_bytes(),
        b"0-4294967295",
        b"\\u0000",
        b"&a",
        b"*a",
        b"../",
    ];
    prop_oneof![
        (any::<u16>(), any::<u8>()).prop_map(|(at, byte)| Change::Put(at, byte)),
        (any::<u16>(), proptest::sample::select(pieces.to_vec()))
            .prop_map(|(at, piece)| Change::Insert(at, piece.to_vec())),
        (any::<u16>(), any::<u8>()).prop_map(|(at, count)| Change::Cut(at, count)),
        (any::<u16>(), any::<u8>()).prop_map(|(at, count)| Change::Repeat(at, count)),
    ]
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let at = |at: u16| usize::from(at) % (bytes.len() + 1);
        match self {
            Self::Put(place, byte) => {
                let place = at(*place);
                if let Some(there) = bytes.get_mut(place) {
                    *there = *byte;
                }
            }
            Self::Insert(place, piece) => drop(bytes.splice(at(*place)..at(*place), piece.iter().copied())),
            Self::Cut(place, count) => {
                let from = at(*place);
                bytes.drain(from..bytes.len().min(from + usize::from(*count)));
            }
            Self::Repeat(place, count) => {
                let from = at(*place);
                let piece = bytes[from..bytes.len().min(from + usize::from(*count))].to_vec();
                bytes.splice(from..from, piece);
            }
        }
    }
}

#[test]
fn changed_bytes_are_survived() {
    for (name, target) in TARGETS {
        let strategy = (proptest::sample::select(corpus(name)), proptest::collection::vec(change(), 1..8));
        crate::steps::run(&format!("fuzz {name}"), 500..=20_000, &strategy, |(mut bytes, changes)| {
            changes.iter().for_each(|change| change.apply(&mut bytes));
            target(&bytes);
            Ok(1)
        });
    }
}
