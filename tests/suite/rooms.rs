//! The table of `src/lib.rs` is true: each room uses only the rooms it names, and the pure ones touch no
//! files, environment, clock or threads.

use std::path::{Path, PathBuf};

const PURE: [&str; 4] = ["model", "engine", "ledger", "decision"];

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

/// The rooms in the table's order, each with those it may use.
fn table(text: &str) -> Vec<(String, Vec<String>)> {
    let mut rooms: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("//! | [`")) {
        let (room, rest) = line.split_once("`]").expect("a room's name");
        let uses = rest.trim_end_matches([' ', '|']).rsplit('|').next().expect("the last column").trim();
        let mut may_use: Vec<String> = match uses {
            "nothing" => Vec::new(),
            "all above" => rooms.iter().map(|(room, _)| room.clone()).collect(),
            list => list.split(", ").map(str::to_owned).collect(),
        };
        assert!(may_use.iter().all(|other| rooms.iter().any(|(room, _)| room == other)), "{room}: {uses}");
        may_use.push(room.to_owned());
        rooms.push((room.to_owned(), may_use));
    }
    rooms
}

fn sources(path: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(path) else { return found.push(path.with_extension("rs")) };
    for entry in entries {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// What a line of a room must not name; comments aside.
fn offence(line: &str, pure: bool, may_use: &[String]) -> Option<String> {
    let code = line.split("//").next().unwrap_or_default();
    // `use std::{fs, …}` is caught with the plain path.
    let grouped =
        code.contains("use std::{").then(|| code.replace("use std::{", "std::").replace(", ", " std::"));
    let code = grouped.as_deref().unwrap_or(code);
    let impure = IMPURE.iter().find(|path| pure && code.contains(*path)).map(|path| (*path).to_owned());
    let rooms = code.split("crate::").skip(1).map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next());
    let mut rooms = rooms.flatten().filter(|room| !room.is_empty());
    impure.or_else(|| {
        rooms.find(|room| !may_use.iter().any(|may| may == room)).map(|room| format!("crate::{room}"))
    })
}

#[test]
fn rooms_use_what_the_table_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let rooms = table(&std::fs::read_to_string(root.join("lib.rs")).expect("src/lib.rs"));
    assert!(PURE.iter().all(|pure| rooms.iter().any(|(room, _)| room == pure)), "{rooms:?}");
    let mut offences = Vec::new();
    for (room, may_use) in &rooms {
        let pure = PURE.contains(&room.as_str());
        let mut files = Vec::new();
        sources(&root.join(room), &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            for (at, line) in text.lines().enumerate() {
                if let Some(what) = offence(line, pure, may_use) {
                    offences.push(format!("{}:{}: {what}", file.display(), at + 1));
                }
            }
        }
    }
    assert!(offences.is_empty(), "{offences:#?}");
}

#[test]
fn every_module_is_a_room_of_the_table() {
    let text = std::fs::read_to_string("src/lib.rs").expect("src/lib.rs");
    let mut modules: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let rooms = table(&text);
    let mut rooms: Vec<_> = rooms.iter().map(|(room, _)| room.as_str()).collect();
    modules.sort_unstable();
    rooms.sort_unstable();
    assert_eq!(rooms, modules);
}

#[test]
fn an_offence_is_seen() {
    let seen = |line: &str| offence(line, true, &["model".into(), "engine".into()]);
    assert_eq!(seen("use std::fs;").as_deref(), Some("std::fs"));
    assert_eq!(seen("use std::{fmt, time::Duration};").as_deref(), Some("std::time"));
    assert_eq!(seen("use crate::ledger::Ledger;").as_deref(), Some("crate::ledger"));
    assert_eq!(
        seen("fn f(a: crate::model::CpuSet, b: crate::host::Cgroups)").as_deref(),
        Some("crate::host")
    );
    assert_eq!(seen("let now = std::time::Instant::now();").as_deref(), Some("std::time"));
    assert_eq!(seen("use crate::model::CpuSet; // as std::fs would"), None);
    assert_eq!(offence("use std::fs;", false, &[]), None);
}
