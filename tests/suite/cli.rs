//! The command line: verbs, exit statuses, the switch.

use assert_cmd::Command;
use std::path::Path;

/// The binary, in an environment of its own.
pub fn maitred(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("maitred").unwrap();
    command.env_clear().args(args);
    command
}

/// Exit status, standard output, standard error.
pub fn run(args: &[&str]) -> (i32, String, String) {
    let output = maitred(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_version_is_told_both_ways() {
    let expected = format!("maitred {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["version"]), (0, expected.clone(), String::new()));
    assert_eq!(run(&["--version"]), (0, expected, String::new()));
}

#[test]
fn help_names_every_verb_and_only_those_there_are() {
    let (status, help, _) = run(&["--help"]);
    assert_eq!(status, 0);
    for verb in [
        "nri", "hook", "runtime", "topology", "plan", "status", "explain", "verify", "doctor", "off", "on",
        "version",
    ] {
        assert!(
            help.lines().any(|line| line.trim_start().starts_with(&format!("{verb} "))),
            "{verb}: {help}"
        );
    }
    // As other tools have it.
    assert_eq!(run(&["help"]), (0, help, String::new()));
    assert_eq!(run(&["help", "plan"]).1, run(&["plan", "--help"]).1);
}

#[test]
fn bad_usage_is_2() {
    for args in [
        &[] as &[&str],
        &["seat"],
        &["plan"],
        &["plan", "pod.yaml", "-o", "svg"],
        &["plan", "pod.yaml", "--topology", "a", "--sysroot", "b"],
        &["nri", "--index", "5"],
        &["nri", "--name", "a b"],
    ] {
        let (status, out, err) = run(args);
        assert_eq!((status, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(!err.is_empty());
    }
}

#[test]
fn bad_configuration_is_2_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    std::fs::write(&file, "version = 1\nmode = \"loud\"\n").unwrap();
    let file = file.to_str().unwrap();
    for args in [&["nri", "--config", file] as &[&str], &["topology", "--config", file]] {
        let (status, _, err) = run(args);
        assert_eq!(status, 2);
        let expected =
            format!("maitred: {file}:2: mode = \"loud\": expected one of \"enforce\", \"audit\"\n");
        assert_eq!(err, expected);
    }
    let (status, _, err) = run(&["topology", "--config", "/nowhere/config.toml"]);
    assert_eq!(status, 2);
    assert!(err.starts_with("maitred: cannot read the configuration /nowhere/config.toml: No such file"));
}

#[test]
fn a_bad_log_filter_is_2_and_named() {
    let output = maitred(&["version"]).env("MAITRED_LOG", "maitred=loud").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8(output.stderr).unwrap().starts_with("maitred: MAITRED_LOG is \"maitred=loud\"")
    );
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("maitred"));
    let status = command.arg("version").stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}

fn switch(verb: &[&str], store: &Path) -> (i32, String, String) {
    run(&[verb, &["--store", store.to_str().unwrap()]].concat())
}

#[test]
fn off_and_on_turn_the_switch() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("maitred");
    let look = || maitred::store::Store::open(&store).unwrap().is_off().unwrap();

    let (status, out, _) = switch(&["off", "--reason", "ticket 7"], &store);
    assert_eq!(status, 0);
    assert_eq!(out, "maitred is off on this node: containers start unpinned until `maitred on`\n");
    assert_eq!(look().unwrap().reason, "ticket 7");
    let again = switch(&["off"], &store).1;
    assert!(again.starts_with("maitred is already off on this node (still: ticket 7)"), "{again}");
    assert_eq!(look().unwrap().reason, "ticket 7", "who repeats it without a word takes no reason away");

    assert_eq!(switch(&["on"], &store), (0, "maitred is on again on this node\n".into(), String::new()));
    assert_eq!(look(), None);
    assert_eq!(switch(&["on"], &store).1, "maitred was not off on this node\n");
}

#[test]
fn a_switch_that_cannot_be_written_is_3() {
    let dir = tempfile::tempdir().unwrap();
    let (status, out, err) = switch(&["off"], &dir.path().join("no/such/parent"));
    assert_eq!((status, out.as_str()), (3, ""));
    assert!(err.starts_with("maitred: cannot make ") && err.contains("No such file"), "{err}");
}

/// Colours are for terminals, and for whoever says so; `NO_COLOR` has the last word. One rule for all verbs.
#[test]
fn every_verb_has_the_same_rule_for_colours() {
    let site = crate::status::busy();
    let (root, config) = (site.path().display().to_string(), site.path().join("none.toml"));
    std::fs::write(&config, "version = 1\n").unwrap();
    let config = config.display().to_string();
    let pod = "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: main}]}";
    let verbs: [&[&str]; 5] = [
        &["topology", "--sysroot", &root],
        &["plan", "-", "--sysroot", &root],
        &["status", "--sysroot", &root],
        &["explain", "vllm-0", "--sysroot", &root],
        &["doctor", "--root", &root],
    ];
    for verb in verbs {
        let coloured = |variables: &[(&str, &str)]| {
            let mut command = maitred(&[verb, &["--config", &config]].concat());
            let output = command.envs(variables.iter().copied()).write_stdin(pod).output().unwrap();
            let out = String::from_utf8(output.stdout).unwrap();
            assert!(!out.is_empty(), "{verb:?}: {}", String::from_utf8_lossy(&output.stderr));
            out.contains('\u{1b}')
        };
        assert!(!coloured(&[]), "{verb:?} into a pipe");
        assert!(coloured(&[("CLICOLOR_FORCE", "1")]), "{verb:?} where colours are forced");
        assert!(!coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), "{verb:?} with NO_COLOR");
    }
}
