//! Everything oversized: what is decided about it is what is decided about the same in small, or it is refused alone.

use crate::cli::run;
use crate::oci::{Node, stderr, whole};
use serde_json::{Value, json};

/// A container of one whole CPU with something added.
fn with(add: impl FnOnce(&mut Value)) -> String {
    let mut config: Value = serde_json::from_str(&whole(1)).unwrap();
    add(&mut config);
    config.to_string()
}

/// 10,000 variables, a command of a megabyte, thousands of mounts and devices, and annotations as long as Kubernetes
/// lets them be.
#[test]
fn a_large_container_is_seated_as_a_small_one_and_keeps_all_it_has() {
    let large = with(|config| {
        let many = |count: usize, one: &dyn Fn(usize) -> Value| Value::Array((0..count).map(one).collect());
        config["process"]["env"] = many(10_000, &|at| json!(format!("NVIDIA_{at}=/x/{at}")));
        config["process"]["args"] = json!(["sh", "-c", "#".repeat(1 << 20)]);
        config["mounts"] =
            many(4000, &|at| json!({"destination": format!("/m/{at}"), "source": "/tmp", "type": "bind"}));
        config["linux"]["devices"] =
            many(4000, &|at| json!({"path": format!("/dev/x{at}"), "type": "c", "major": 509, "minor": at}));
        config["annotations"] = json!({"io.example": "x".repeat(256 << 10)});
    });
    let node = Node::new("");
    node.bundle("large", &large);
    node.bundle("small", &whole(1));
    let output = node.create("large");
    assert!(output.status.success(), "{}", stderr(&output));
    let mut made = node.config_of("large");
    assert!(node.create("small").status.success());
    let cpus = |config: &Value| config["linux"]["resources"]["cpu"]["cpus"].as_str().unwrap().len();
    assert_eq!(cpus(&made), cpus(&node.config_of("small")));
    let asked: Value = serde_json::from_str(&large).unwrap();
    for (room, key) in [("process", "args"), ("process", "env"), ("linux", "devices")] {
        assert_eq!(made[room][key].take(), asked[room][key], "{key}");
    }
    assert_eq!(made["mounts"], asked["mounts"]);
    assert!(node.read("hook.jsonl").len() < 64 << 10, "and it is not told at length");
}

/// What is refused is told in short, and refused alone.
#[test]
fn an_endless_value_refuses_its_container_in_few_words() {
    let endless = "0,".repeat(128 << 10);
    let cases = [
        ("annotation", with(|config| config["annotations"] = json!({"policy.maitred.io": endless}))),
        ("range", with(|config| config["annotations"] = json!({"gpus.maitred.io": "9".repeat(256 << 10)}))),
        ("options", with(|config| config["annotations"] = json!({"cpu-options.maitred.io": endless}))),
        ("whole", whole(1) + &" ".repeat(65 << 20)),
    ];
    for (name, config) in cases {
        let node = Node::new("");
        node.bundle(name, &config);
        node.bundle("other", &whole(1));
        let output = node.create(name);
        assert_eq!(output.status.code(), Some(1), "{name}");
        let said = stderr(&output);
        assert!(said.contains(name) && said.len() < 8 << 10, "{name}: {} bytes", said.len());
        assert!(node.read("hook.jsonl").len() < 64 << 10, "{name}");
        assert!(node.create("other").status.success(), "{name}");
    }
}

/// A stack has an end: what is nested deeper than anybody means is refused or passed over, and nobody overflows.
#[test]
fn what_is_nested_without_end_is_an_error_and_no_overflow() {
    let deep = |count: usize| format!("{}{}", "[".repeat(count), "]".repeat(count));
    for (name, place) in [("beside", "\"x\""), ("annotations", "\"annotations\""), ("hooks", "\"hooks\"")] {
        let config = whole(1).replacen('{', &format!("{{{place}:{},", deep(500_000)), 1);
        let node = Node::new("");
        node.bundle(name, &config);
        node.bundle("other", &whole(1));
        let output = node.create(name);
        assert!(output.status.code().is_some(), "{name} ended by a signal: {:?}", output.status);
        assert!(node.create("other").status.success(), "{name}");
        let hook = node.hook("createRuntime", &format!("{{\"id\":{}}}", deep(500_000)));
        assert_eq!(hook.status.code(), Some(2), "{name}");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let name = file.to_str().unwrap();
    let objects = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let laughs = (1..12).fold("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, at| {
        let ten = vec![format!("*a{}", at - 1); 10].join(",");
        format!("{text}a{at}: &a{at} [{ten}]\n")
    });
    for (what, text) in [("nested", deep(100_000)), ("objects", objects), ("aliases", laughs)] {
        std::fs::write(&file, text).unwrap();
        for words in [&["plan", name] as &[&str], &["plan", "--topology", name, "/dev/null"]] {
            let (status, _, said) = run(words);
            assert_eq!(status, 2, "{what}: {words:?}: {said}");
            assert!(said.len() < 8 << 10, "{what}: {words:?}");
        }
    }
}
