//! The dependency rule of `src/lib.rs`: the pure rooms touch no files, environment, clock or threads,
//! and use only the rooms before them.

use std::path::{Path, PathBuf};

const PURE: [(&str, &[&str]); 4] = [
    ("model", &["model"]),
    ("engine", &["model", "engine"]),
    ("ledger", &["model", "engine", "ledger"]),
    ("decision", &["model", "engine", "ledger", "decision"]),
];

const ROOMS: [&str; 11] =
    ["model", "engine", "ledger", "decision", "discover", "host", "store", "config", "nri", "cli", "oci"];

const IMPURE: [&str; 9] = [
    "std::fs",
    "std::env",
    "std::time",
    "std::process",
    "std::thread",
    "std::net",
    "tokio",
    "nix::",
    "libc::",
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    for entry in entries {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// What a line of a pure room must not name; comments aside.
fn offence(line: &str, may_use: &[&str]) -> Option<String> {
    let code = line.split("//").next().unwrap_or_default();
    // `use std::{fs, …}` is caught with the plain path.
    let grouped =
        code.contains("use std::{").then(|| code.replace("use std::{", "std::").replace(", ", " std::"));
    let code = grouped.as_deref().unwrap_or(code);
    let impure = IMPURE.iter().find(|path| code.contains(*path)).map(|path| (*path).to_owned());
    let other = ROOMS.iter().filter(|room| !may_use.contains(room));
    impure.or_else(|| other.map(|room| format!("crate::{room}")).find(|path| code.contains(path.as_str())))
}

#[test]
fn pure_rooms_stay_pure() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut offences = Vec::new();
    for (room, may_use) in PURE {
        let mut files = Vec::new();
        sources(&root.join(room), &mut files);
        assert!(!files.is_empty(), "the room {room} has no files");
        for file in files {
            let text = std::fs::read_to_string(&file).expect("a source file");
            for (at, line) in text.lines().enumerate() {
                if let Some(what) = offence(line, may_use) {
                    offences.push(format!("{}:{}: {what}", file.display(), at + 1));
                }
            }
        }
    }
    assert!(offences.is_empty(), "{offences:#?}");
}

#[test]
fn an_offence_is_seen() {
    let seen = |line: &str| offence(line, &["model", "engine"]);
    assert_eq!(seen("use std::fs;").as_deref(), Some("std::fs"));
    assert_eq!(seen("use std::{fmt, time::Duration};").as_deref(), Some("std::time"));
    assert_eq!(seen("use crate::ledger::Ledger;").as_deref(), Some("crate::ledger"));
    assert_eq!(seen("let now = std::time::Instant::now();").as_deref(), Some("std::time"));
    assert_eq!(seen("use crate::model::CpuSet; // as std::fs would"), None);
}
