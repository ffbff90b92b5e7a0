//! The engine against recorded decisions of the kubelet's own code (`tests/vectors/README.md`), through
//! the same entry points the daemon uses.
//!
//! Run with `-- --nocapture` to see `conformance NAME AGREED/TOTAL` for each file, and below it what does
//! not agree. `MAITRED_VECTORS=DIR` reads another directory as well: every `*.jsonl` and `*.jsonl.gz` in
//! it, whatever its name and however many there are; what a row is, the row itself tells. Fields nobody
//! knows are passed over, and topologies that DIR does not describe are the project's.

mod json;
mod memory;
mod outside;
mod rules;
mod scenario;
mod unusual;

use flate2::read::GzDecoder;
use outside::Outside;
use std::collections::BTreeMap;
use std::io::Read;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// How a row went: agreed, disagreed, or about something the engine leaves to others.
pub enum Verdict {
    Agreed,
    Disagreed(String),
    Outside(Outside),
}

/// The files the project has copies of, and how many rows each has at least.
const OWN: [(&str, usize); 10] = [
    ("cpu_hints_upstream.jsonl", 1),
    ("cpu_static_alloc_upstream.jsonl", 97),
    ("cpu_take_distribute_fuzz.jsonl", 1),
    ("cpu_take_fuzz.jsonl", 1),
    ("cpu_take_upstream.jsonl", 1),
    ("dev_hints_upstream.jsonl", 1),
    ("mem_hints_upstream.jsonl", 1),
    ("mem_static_alloc_upstream.jsonl", 41),
    ("scenarios.jsonl.gz", 287),
    ("tm_merge_upstream.jsonl", 1),
];

fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

/// The files with rows in a directory, by name.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    let rows = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")
    };
    paths.retain(rows);
    paths.sort();
    paths
}

/// The lines of a file, unpacked where its name ends in `.gz`.
fn lines(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    let read = match path.extension().is_some_and(|end| end == "gz") {
        true => GzDecoder::new(&bytes[..]).read_to_string(&mut text),
        false => (&bytes[..]).read_to_string(&mut text),
    };
    read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

/// The topologies that rows name: a directory's own before the project's.
fn topologies(directory: &Path) -> rules::Topologies {
    let read = |directory: &Path| {
        let text = std::fs::read_to_string(directory.join("topologies.json"));
        text.map(|text| rules::topologies(&text)).unwrap_or_default()
    };
    let mut all = read(&own());
    all.extend(read(directory));
    all
}

/// Plays one row of any kind. A row that cannot be read disagrees, and so does one that panics: the rows
/// after it are still counted.
fn row(line: &str, topologies: &rules::Topologies) -> Verdict {
    let played = catch_unwind(|| match serde_json::from_str(line) {
        Err(error) => Verdict::Disagreed(format!("no JSON: {error}")),
        Ok(row) => match scenario::is_one(&row) {
            true => scenario::play(&row).map_or_else(Verdict::Disagreed, |()| Verdict::Agreed),
            false => rules::row(&row, topologies),
        },
    });
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Verdict::Disagreed(format!("panicked: {}", text.unwrap_or_default()))
    })
}

/// How a file's rows went.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Count {
    agreed: usize,
    total: usize,
    disagreed: Vec<String>,
    outside: BTreeMap<Outside, Vec<usize>>,
}

fn count(path: &Path, topologies: &rules::Topologies) -> Count {
    let mut count = Count::default();
    for (at, line) in lines(path).iter().enumerate() {
        count.total += 1;
        match row(line, topologies) {
            Verdict::Agreed => count.agreed += 1,
            Verdict::Disagreed(problem) => {
                count.disagreed.push(format!("row {} {}: {problem}", at + 1, json::id(line)));
            }
            Verdict::Outside(why) => count.outside.entry(why).or_default().push(at + 1),
        }
    }
    count
}

/// Plays every file of a directory.
fn play(directory: &Path) -> BTreeMap<String, Count> {
    let topologies = topologies(directory);
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    files(directory).iter().map(|path| (name(path), count(path, &topologies))).collect()
}

/// Plays every file of a directory and says how it went.
fn report(directory: &Path) -> BTreeMap<String, Count> {
    println!("vectors of {}", directory.display());
    let played = play(directory);
    for (name, count) in &played {
        println!("conformance {name} {}/{}", count.agreed, count.total);
        count.disagreed.iter().for_each(|problem| println!("  {name} {problem}"));
        for (why, rows) in &count.outside {
            println!("  {name} rows {rows:?}: {why}");
        }
    }
    played
}

#[test]
fn conformance() {
    let other = std::env::var_os("MAITRED_VECTORS").map(PathBuf::from);

    let own = report(&own());
    let other = other.map(|directory| report(&directory)).unwrap_or_default();

    for (name, least) in OWN {
        let rows = own.get(name).map_or(0, |count| count.total);
        assert!(rows >= least, "the project's copy of {name} is missing or cut short: {rows} rows");
    }
    let disagreed = |(name, count): (&String, &Count)| (!count.disagreed.is_empty()).then(|| name.clone());
    let worse: Vec<String> = own.iter().chain(&other).filter_map(disagreed).collect();
    assert!(worse.is_empty(), "rows disagree in {worse:?}");
}

/// A directory of the owner's: other names, packed or not, a part of the files, fields nobody knows.
#[test]
fn conformance_reads_a_directory_of_any_such_files() {
    use std::io::Write;
    let directory = tempfile::tempdir().expect("a directory");
    let put = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("a file");
    let scenarios = lines(&own().join("scenarios.jsonl.gz"));
    let extended = |line: &String| line.replacen('{', r#"{"comment":{"seed":7},"note":"x","#, 1);
    let known: Vec<String> = scenarios[..3].iter().map(extended).collect();
    put("hidden.jsonl", &(known.join("\n") + "\n\n"));
    let moved = scenarios[0].replace(r#""exclusive":"12-23,36-47""#, r#""exclusive":"0-11,24-35""#);
    assert_ne!(moved, scenarios[0]);
    let packed = std::fs::File::create(directory.path().join("scenarios_hidden.jsonl.gz")).expect("a file");
    let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    packed.write_all([&moved, &scenarios[4], "{\"steps\": 1", "{}"].join("\n").as_bytes()).expect("written");
    packed.finish().expect("packed");
    put("cpu_take_fuzz.jsonl", &lines(&own().join("cpu_take_fuzz.jsonl"))[..5].join("\n"));
    put("README.md", "nothing to play");

    let played = play(directory.path());

    let agreed: Vec<_> =
        played.iter().map(|(name, count)| (name.as_str(), count.agreed, count.total)).collect();
    assert_eq!(
        agreed,
        [("cpu_take_fuzz.jsonl", 5, 5), ("hidden.jsonl", 3, 3), ("scenarios_hidden.jsonl.gz", 1, 4)]
    );
    let problems = &played["scenarios_hidden.jsonl.gz"].disagreed;
    assert!(problems[0].contains("step 0, pod p0") && problems[1].contains("no JSON"), "{problems:?}");
    assert!(problems[2].contains("neither a scenario nor a rule"), "{problems:?}");
}
