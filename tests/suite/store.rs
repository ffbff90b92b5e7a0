//! The store as other processes leave it: a daemon killed, a file system read-only.

use maitred::store::{Store, StoreError};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// Tells a helper below, which is this same binary run again, where the store is.
const DIR: &str = "MAITRED_TEST_STORE";

/// This binary, to run only `helper`.
fn helper(helper: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", helper, "--ignored", "--nocapture"]).env(DIR, dir);
    command
}

#[test]
#[ignore = "run by a_killed_daemon_frees_the_lock"]
fn hold_the_lock() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let _held = Store::open(Path::new(&dir)).unwrap().lock_daemon().unwrap();
    println!("\nheld");
    // Until the parent kills us or is gone itself.
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_killed_daemon_frees_the_lock() {
    let run = tempfile::tempdir().unwrap();
    let dir = run.path().join("maitred");
    let mut command = helper("store::hold_the_lock", &dir);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"), "the helper did not get the lock");

    let store = Store::open(&dir).unwrap();
    let refused = store.lock_daemon().unwrap_err();
    child.kill().unwrap();
    child.wait().unwrap();
    store.lock_daemon().unwrap();

    assert!(matches!(refused, StoreError::Held { pid: Some(pid), .. } if pid == child.id()), "{refused}");
}

#[test]
#[ignore = "run by a_read_only_run_is_told_apart"]
fn open_read_only() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    for dir in [Path::new(&dir).to_owned(), Path::new(&dir).join("absent")] {
        let error = Store::open(&dir).unwrap_err();
        assert!(error.is_read_only(), "{error}");
    }
    println!("\nread-only");
}

#[test]
fn a_read_only_run_is_told_apart() {
    let run = tempfile::tempdir().unwrap();
    let dir = run.path().join("maitred");
    Store::open(&dir).unwrap();
    // In a mount namespace of its own: nothing to clean up, however the test ends.
    let inside = r#"mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", inside]).arg(&dir).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "store::open_read_only", "--ignored", "--nocapture"]).env(DIR, &dir);
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() && !out.contains("running 1 test") {
        eprintln!("skipped: a read-only mount is not permitted here: {err}");
        return;
    }
    assert!(out.contains("\nread-only\n"), "{out}{err}");
}
