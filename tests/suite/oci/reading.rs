//! Which `config.json` the wrapper reads, and what it does with one that is not as it should be.

use super::{Node, stderr, whole};
use std::fs;

#[test]
fn what_is_wrong_in_a_bundle_is_named_where_its_container_depends_on_it() {
    let node = Node::new("");
    let wrong = whole(2).replace("[\"sh\"]", "[7]");
    for (config, said) in [
        (wrong.clone(), "c1/config.json: /process/args/0 is 7: invalid type"),
        (whole(2).replace("\"linux\"", "\"Linux\""), "/Linux: expected it spelled \"linux\""),
        (whole(2).replace("\"memory\"", "\"cpu\":{\"mems\":\"0\"},\"memory\""), "it stands there twice"),
    ] {
        node.bundle("c1", &config);
        let output = node.create("c1");
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    // Whoever counts on nothing starts, and the log says how.
    node.bundle("small", r#"{"process":{"args":[7]},"linux":{"resources":{"cpu":{"shares":2}}}}"#);
    assert!(node.create("small").status.success());
    assert!(node.verdicts().last().unwrap()["reason"].as_str().unwrap().contains("let through"));
    for config in ["mode = \"audit\"", "[failure]\npolicy = \"admit\""] {
        let node = Node::new(config);
        node.bundle("c1", &wrong);
        assert!(node.create("c1").status.success(), "{config}");
        assert_eq!(node.read("c1/config.json"), wrong);
    }
}

#[test]
fn a_configuration_that_is_no_utf8_is_not_passed_on_unpinned() {
    let node = Node::new("");
    let write = |name: &str, text: &str| {
        let bundle = node.bundle(name, text);
        let bytes = text.replace("A=", "A=\u{1}").into_bytes();
        let bytes: Vec<u8> = bytes.iter().map(|byte| if *byte == 1 { 0xe9 } else { *byte }).collect();
        fs::write(bundle.join("config.json"), bytes).unwrap();
    };
    write("c1", &whole(2));
    let output = node.create("c1");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is 0xe9: expected UTF-8"), "{}", stderr(&output));
    assert_eq!(node.verdicts()[0]["decision"], "rejected");
    write("small", r#"{"process":{"env":["A=x"]},"linux":{}}"#);
    assert!(node.create("small").status.success());
    assert!(node.read("hook.jsonl").contains("let through"));
}

/// As when an option was understood in another way than the runtime does.
#[test]
fn a_configuration_that_is_not_to_be_had_is_not_passed_on_in_silence() {
    let node = Node::new("");
    node.bundle("no-json", "{");
    let fifo = node.bundle("fifo", "").join("config.json");
    fs::remove_file(&fifo).unwrap();
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (name, said) in
        [("nowhere", "No such file"), ("no-json", "it is no JSON"), ("fifo", "it is no regular file")]
    {
        node.configure("");
        let output = node.create(name);
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(stderr(&output).contains(said), "{name}: {}", stderr(&output));
        assert!(node.read("hook.jsonl").contains(said), "{name}: not in the log");
        for config in ["mode = \"audit\"", "[failure]\npolicy = \"admit\""] {
            node.configure(config);
            assert!(node.create(name).status.success(), "{name}: {config}");
        }
    }
    assert_eq!(node.read("hook.jsonl").matches("let through unpinned").count(), 6);
    node.switch("off");
    node.configure("");
    assert!(node.create("nowhere").status.success());
}

#[test]
fn the_configuration_is_the_one_the_runtime_reads() {
    let node = Node::new("");
    node.bundle("b", &whole(2));
    for arguments in [
        &["run", "--bundl", "b", "c1"] as &[&str],
        &["run", "-db", "b", "c2"],
        &["run", "-bb", "c3"],
        &["create", "-f", "config.json", "-p", "/p", "-c", "/s", "-b", "b", "c4"],
        &["run", "--config=b/config.json", "c5"],
    ] {
        node.bundle("b", &whole(2));
        let output = node.wrapper(arguments).current_dir(node.path("")).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        assert_eq!(node.config_of("b")["linux"]["resources"]["cpu"]["cpus"], "1,5", "{arguments:?}");
    }
}

/// What runc takes and nobody here is concerned with is passed on as it is.
#[test]
fn text_behind_the_document_stays_there() {
    let node = Node::new("");
    node.bundle("c1", &(whole(2) + "{} and more"));
    let output = node.create("c1");
    assert!(output.status.success(), "{}", stderr(&output));
    let text = node.read("c1/config.json");
    assert!(text.ends_with("{} and more") && text.contains("\"cpus\":\"1,5\""), "{text}");
}

/// Nothing in it is edited, and others need to know of it all the same.
#[test]
fn what_cannot_be_read_and_starts_all_the_same_is_in_the_books() {
    let node = Node::new("authority = \"maitred\"");
    let odd = r#"{"Annotations":{"a":"b"},"linux":{"cgroupsPath":"/libpod-odd","resources":{"cpu":{"shares":512}}}}"#;
    node.bundle("odd", odd);
    let mut runs = super::race::start(&node, "odd");
    assert!(super::race::is_up(&mut runs));
    assert_eq!((node.read("odd/config.json").as_str(), node.allocations().len()), (odd, 1));
    runs.kill().unwrap();
    runs.wait().unwrap();
    let output = node.hook("precreate", &odd.replace("libpod-odd", "libpod-other"));
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(node.allocations(), ["odd.odd.json", "other.other.json"]);
    assert_eq!(node.verdicts().last().unwrap()["decision"], "undecided");
}
