//! Names, ids and paths that want to be somewhere else, and texts that want to be something else.

use crate::cli::run;
use crate::oci::{Node, stderr, whole};
use maitred::model::{CpuSet, Placement, is_unseen};
use maitred::store::Told;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const NAMES: [&str; 12] = [
    "../../../../escaped",
    "..",
    "/etc/escaped",
    "a/../../escaped",
    "~root",
    "a\nb",
    "a\r\u{1b}[2J\u{9b}2J",
    "\u{202e}gnp.exe",
    "\u{0}x",
    "%2e%2e%2fescaped",
    "$(touch escaped)",
    "\",\"decision\":\"placed\",\"x\":\"",
];

/// Everything below a directory, but what lies in the store itself.
fn everything(below: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(below).unwrap().flatten() {
        let path = entry.path();
        let skip = path.ends_with("store/allocations");
        if path.is_dir() && !skip {
            everything(&path, found);
        }
        found.insert(path);
    }
}

/// A container of Kubernetes by its annotations, each of which is the name.
fn called(name: &str) -> String {
    let name = serde_json::to_string(name).unwrap();
    let config = whole(1).replace("\"linux\":{", "\"linux\":{\"cgroupsPath\":\"/kubepods/podu/c1\",");
    let keys = ["sandbox-id", "sandbox-uid", "sandbox-name", "sandbox-namespace", "container-name"];
    let keys: String = keys.iter().map(|key| format!("\"io.kubernetes.cri.{key}\":{name},")).collect();
    config.replacen(
        '{',
        &format!("{{\"annotations\":{{{keys}\"io.kubernetes.cri.container-type\":\"container\"}},"),
        1,
    )
}

#[test]
fn no_name_and_no_id_leaves_the_store_or_writes_a_line_of_its_own() {
    for name in NAMES {
        let node = Node::new("");
        node.bundle("named", &called(name));
        node.bundle("other", &whole(1));
        assert!(node.create("other").status.success());
        let mut before = BTreeSet::new();
        everything(&node.path(""), &mut before);

        let bundle = node.path("named").display().to_string();
        let mut ids = vec!["c1"];
        // No argument of a process can have a NUL.
        ids.extend((!name.contains('\0')).then_some(name));
        for id in ids {
            let output = node.wrapper(&["create", "--bundle", &bundle, id]).output().unwrap();
            assert!(output.status.code().is_some_and(|code| code < 2), "{name:?}: {}", stderr(&output));
            let unseen = |letter: char| is_unseen(letter) && letter != '\n';
            assert!(!stderr(&output).contains(unseen), "{name:?}: {:?}", stderr(&output));
        }

        let mut after = BTreeSet::new();
        everything(&node.path(""), &mut after);
        assert_eq!(after.difference(&before).collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "{name:?}");
        let log = node.read("hook.jsonl");
        assert!(!log.is_empty(), "{name:?}");
        for line in log.lines() {
            serde_json::from_str::<serde_json::Value>(line)
                .unwrap_or_else(|error| panic!("{name:?}: {line}: {error}"));
        }
        let other = node.create("other");
        assert!(other.status.success(), "{name:?} is in the way of others: {}", stderr(&other));
    }
}

/// Whoever sits at the terminal, and whatever a process calls itself or is said to be called in the journal.
#[test]
fn what_others_call_themselves_does_nothing_to_a_terminal() {
    let hostile = "x\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}2J\r\u{202e}";
    let site = crate::status::Site::new();
    let placement = Placement { cpus: "1,5".parse::<CpuSet>().unwrap(), ..Placement::default() };
    site.holds("uid", hostile, "c0ffee", &placement);
    site.container("/kubepods/poduid/c0ffee", 71, "app");
    site.file("sys/fs/cgroup/kubepods/poduid/c0ffee/cpuset.cpus.effective", "1,5\n");
    site.file("sys/fs/cgroup/kubepods/poduid/c0ffee/cpuset.mems.effective", "0-3\n");
    site.file(
        "proc/71/status",
        "Name:\tapp\nVmSize:\t1 kB\nCpus_allowed_list:\t1,5\nMems_allowed_list:\t0-3\n",
    );
    site.file("proc/71/numa_maps", "7f00 default anon=3 N1=3 kernelpagesize_kB=4\n");
    site.file("proc/71/cgroup", "0::/kubepods/poduid/c0ffee\n");
    site.file(
        "proc/72/status",
        &format!("Name:\t{hostile}\nVmSize:\t1 kB\nCpus_allowed_list:\t1\nMems_allowed_list:\t0-3\n"),
    );
    site.file("proc/72/comm", &format!("{hostile}\n"));
    site.file("proc/72/cgroup", "0::/user.slice\n");
    let told = Told {
        time: "2026-01-01T00:00:00Z".into(),
        times: 1,
        pod: "embed".into(),
        pod_uid: "e".into(),
        container: Some(hostile.into()),
        decision: "rejected".into(),
        reason: hostile.into(),
        request: hostile.into(),
        ..Told::default()
    };
    site.store().tell(&told).unwrap();
    let root = site.path().display().to_string();
    let mut shown = 0;
    for verb in [&["status"] as &[&str], &["verify", "-v"], &["explain", "embed"], &["doctor", "-v"]] {
        let place = if verb[0] == "doctor" { "--root" } else { "--sysroot" };
        for format in ["text", "json"] {
            let words: Vec<&str> = verb.iter().copied().chain([place, &root, "-o", format]).collect();
            let (_, out, err) = run(&words);
            assert!(!out.is_empty(), "{words:?}: {err}");
            let unseen = |letter: char| is_unseen(letter) && !matches!(letter, '\n' | '\t');
            assert!(!out.contains(unseen) && !err.contains(unseen), "{words:?}: {out:?} {err:?}");
            // As it is printed, or as the journal has kept it.
            shown += usize::from(out.contains("\\u001b[2J") || out.contains("\\u{1b}[2J"));
        }
    }
    assert!(shown >= 6, "of all but the doctor: {shown}");
}
