//! The engine against recorded decisions of the kubelet's own code (`tests/vectors/README.md`), through
//! the same entry points the daemon uses.
//!
//! `MAITRED_VECTORS=DIR` reads every file of these names in DIR as well. Run with `-- --nocapture` to
//! see `conformance NAME AGREED/TOTAL` for each.

mod scenario;

use flate2::read::GzDecoder;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The directories with vectors: the project's, and the one the environment names.
fn directories() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let other = std::env::var_os("MAITRED_VECTORS").map(PathBuf::from);
    std::iter::once(own).chain(other).collect()
}

/// The lines of a file, unpacked where its name ends in `.gz`; none where there is no such file.
fn lines(path: &Path) -> Vec<String> {
    let Ok(bytes) = std::fs::read(path) else { return Vec::new() };
    let mut text = String::new();
    let read = match path.extension().is_some_and(|end| end == "gz") {
        true => GzDecoder::new(&bytes[..]).read_to_string(&mut text),
        false => (&bytes[..]).read_to_string(&mut text),
    };
    read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn conformance_scenarios() {
    for directory in directories() {
        let path = directory.join("scenarios.jsonl.gz");
        let lines = lines(&path);
        let runs: Vec<_> = lines.iter().map(|line| scenario::run(line)).collect();
        let agreed =
            |plain: bool| runs.iter().filter(|run| run.plain == plain && run.problem.is_none()).count();
        let total = |plain: bool| runs.iter().filter(|run| run.plain == plain).count();
        let all = agreed(true) + agreed(false);
        for run in runs.iter().filter(|run| run.problem.is_some()) {
            println!("  {}: {}", run.id, run.problem.as_deref().unwrap_or_default());
        }
        println!(
            "conformance scenarios {all}/{} (without options {}/{})",
            runs.len(),
            agreed(true),
            total(true)
        );
        assert_eq!(agreed(true), total(true), "scenarios without options in {}", path.display());
    }
}
