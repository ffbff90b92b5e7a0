//! The wrapper in front of a runtime.

use super::{Node, stderr, whole};
use std::fs;
use std::process::Stdio;

#[test]
fn a_whole_cpu_container_is_seated_and_the_runtime_takes_over() {
    let node = Node::new("");
    let before = whole(2);
    let bundle = node.bundle("c1", &before);
    let bundle = bundle.to_str().unwrap();
    let arguments = ["--root", "/r", "create", "--bundle", bundle, "--pid-file", "/p", "c1"];
    let mut command = node.wrapper(&arguments);
    command.env("RUNTIME", "echo out; echo err >&2; exit 42");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(42), "{}", stderr(&output));
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    assert_eq!(
        node.read("calls"),
        format!("{pid} {}\n", arguments.join(" ")),
        "the same process, the same words"
    );

    let seen = node.config_of("c1");
    let cpu = &seen["linux"]["resources"]["cpu"];
    assert_eq!((cpu["cpus"].as_str(), cpu["mems"].as_str()), (Some("1,5"), Some("1")), "{seen}");
    assert_eq!((cpu["quota"].as_i64(), cpu["period"].as_i64()), (Some(0), Some(100_000)));
    let text = node.read("c1/config.json");
    for untouched in
        ["\"ociVersion\" : \"1.2.0\"", "\"env\":[\"A=\\u0041\"],\"x\":1e3", "\"n\":98765432109876543210"]
    {
        assert!(text.contains(untouched), "{text}");
    }
    let verdicts = node.verdicts();
    assert_eq!(verdicts.len(), 1, "{}", node.read("hook.jsonl"));
    assert_eq!(
        (&verdicts[0]["decision"], &verdicts[0]["span"]["source"]),
        (&"placed".into(), &"runtime".into())
    );
}

#[test]
fn a_bundle_that_is_run_again_asks_for_the_same_again() {
    let node = Node::new("");
    node.bundle("c1", &whole(2));
    node.create("c1");
    let first = node.read("c1/config.json");
    let output = node.create("c1");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(node.read("c1/config.json"), first);
    assert_eq!(node.verdicts().len(), 2);
    assert!(node.verdicts().iter().all(|line| line["decision"] == "placed"));
}

#[test]
fn what_does_not_fit_does_not_start_and_says_why_where_its_caller_looks() {
    let node = Node::new("");
    let bundle = node.bundle("c1", &whole(4));
    let log = node.path("runtime.log");
    let output = node
        .wrapper(&[
            "--log",
            log.to_str().unwrap(),
            "--log-format",
            "json",
            "create",
            "--bundle",
            bundle.to_str().unwrap(),
            "c1",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.starts_with("maitred: TopologyAffinityError: container c1: no single NUMA node has 4 CPUs"),
        "{said}"
    );
    let line: serde_json::Value = serde_json::from_str(node.read("runtime.log").trim()).unwrap();
    assert_eq!((&line["level"], line["msg"].as_str()), (&"error".into(), Some(said.trim_end())));
    assert_eq!(node.read("calls"), "", "the runtime was not asked");
    assert_eq!(node.read("c1/config.json"), whole(4));
    assert_eq!(node.allocations(), [] as [&str; 0]);
    assert_eq!(node.verdicts()[0]["decision"], "rejected");
}

#[test]
fn other_verbs_go_through_at_once_whatever_is_wrong() {
    let node = Node::new("");
    fs::write(node.path("config.toml"), format!("mood = 1\n[runtime]\npath = {:?}\n", node.path("runtime")))
        .unwrap();
    for arguments in
        [&["state", "c1"] as &[&str], &["kill", "c1", "KILL"], &["--version"], &[], &["exec", "c1", "run"]]
    {
        assert!(
            node.wrapper(arguments).env("RUNTIME", "exit 0").status().unwrap().success(),
            "{arguments:?}"
        );
    }
    assert_eq!(node.read("calls").lines().count(), 5);
    assert!(!node.path("store").exists() && !node.path("hook.jsonl").exists());
}

#[test]
fn a_sandbox_and_a_node_that_is_off_are_passed_through() {
    let node = Node::new("");
    let sandbox = r#"{"annotations":{"io.kubernetes.cri.container-type":"sandbox",
        "io.kubernetes.cri.sandbox-id":"pause"},"linux":{}}"#;
    node.bundle("pause", sandbox);
    assert!(node.create("pause").status.success());
    assert_eq!(node.read("pause/config.json"), sandbox);
    node.switch("off");
    node.bundle("c1", &whole(4));
    assert!(node.create("c1").status.success());
    assert_eq!(node.read("c1/config.json"), whole(4));
    node.switch("on");
    assert_eq!(node.create("c1").status.code(), Some(1));
}

#[test]
fn audit_says_all_and_changes_nothing() {
    let node = Node::new("mode = \"audit\"");
    for (name, cpus) in [("fits", 2), ("large", 4)] {
        node.bundle(name, &whole(cpus));
        assert!(node.create(name).status.success());
        assert_eq!(node.read(&format!("{name}/config.json")), whole(cpus));
    }
    let said: Vec<_> =
        node.verdicts().iter().map(|line| (line["decision"].clone(), line["simulated"].clone())).collect();
    assert_eq!(said, [("placed".into(), true.into()), ("rejected".into(), true.into())]);
    assert_eq!(node.allocations(), [] as [&str; 0]);
}

#[test]
fn maitred_in_front_of_itself_is_an_error() {
    let node = Node::new("");
    let link = node.path("maitred-runtime");
    std::os::unix::fs::symlink(assert_cmd::cargo::cargo_bin("maitred"), &link).unwrap();
    fs::write(node.path("config.toml"), format!("version = 1\n[runtime]\npath = {link:?}\n")).unwrap();
    for arguments in [&["state", "c1"] as &[&str], &["create", "c1"]] {
        let output = node.wrapper(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("which is maitred itself"), "{}", stderr(&output));
    }
}

#[test]
fn nothing_that_could_be_waited_for_is_opened() {
    let fifo = |path| nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let node = Node::new("");
    node.bundle("c1", &whole(2));
    fifo(node.path("fifo"));
    for (variable, said) in [
        ("MAITRED_CONFIG", "fifo: it is no regular file"),
        ("MAITRED_HOOK_LOG", ""),
        ("MAITRED_STORE", "is not a directory"),
    ] {
        let bundle = node.path("c1").display().to_string();
        let mut command = node.wrapper(&["create", "--bundle", &bundle, "c1"]);
        let output = command.env(variable, node.path("fifo")).output().unwrap();
        assert_eq!(output.status.success(), said.is_empty(), "{variable}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{variable}: {}", stderr(&output));
    }
    for name in ["off", "machine.cache", "verdicts", "lock"] {
        let node = Node::new("");
        node.bundle("c1", &whole(2));
        fs::DirBuilder::new().create(node.path("store")).unwrap();
        fs::set_permissions(node.path("store"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        fifo(node.path("store").join(name));
        // Only without its lock nothing can be decided.
        assert_eq!(node.create("c1").status.success(), name != "lock", "{name}");
    }
}

#[test]
fn an_annotation_that_is_not_followed_is_told() {
    let node = Node::new("");
    node.bundle(
        "c1",
        &whole(1).replace("\"linux\"", "\"annotations\":{\"gpus.maitred.io/container.x\":\"1\"},\"linux\""),
    );
    assert!(node.create("c1").status.success());
    assert!(node.read("hook.jsonl").contains("the annotation is not followed: it is for a container"));
}

/// Each bundle would have a store of its own.
#[test]
fn a_relative_store_is_an_error() {
    let node = Node::new("");
    let bundle = node.bundle("c1", &whole(2));
    let mut command = node.wrapper(&["create", "c1"]);
    let output = command.env("MAITRED_STORE", "store").current_dir(&bundle).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the store store is a relative path"), "{}", stderr(&output));
    assert!(!bundle.join("store").exists());
}

#[test]
fn an_id_of_any_length_is_seated() {
    let node = Node::new("");
    let bundle = node.bundle("long", &whole(2)).display().to_string();
    let id = "c".repeat(250);
    let output = node.wrapper(&["create", "--bundle", &bundle, &id]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(node.config_of("long")["linux"]["resources"]["cpu"]["cpus"], "1,5");
}

/// What is no cgroup can have nobody in it: it must not hold CPUs for ever, nor be promised any.
#[test]
fn a_cgroup_that_cannot_be_holds_nothing() {
    let node = Node::new("");
    let with =
        |path: &str| whole(1).replace("\"linux\":{", &format!("\"linux\":{{\"cgroupsPath\":\"{path}\","));
    for round in 0..2 {
        for (number, path) in ["/a/../b", "a:b", "../../x", "a/b"].iter().enumerate() {
            let name = format!("c{round}-{number}");
            node.bundle(&name, &with(path));
            let output = node.create(&name);
            assert!(output.status.success(), "{path}: {}", stderr(&output));
            assert_eq!(node.allocations().len(), 1, "the one before has ended");
        }
    }
    node.bundle("bad", &with("no:such:slice"));
    let bundle = node.path("bad").display().to_string();
    let output = node.wrapper(&["--systemd-cgroup", "create", "--bundle", &bundle, "bad"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("\"no:such:slice\" names no cgroup"), "{}", stderr(&output));
}

/// Only who counts on being pinned is kept from starting when nothing can be decided.
#[test]
fn without_a_configuration_that_can_be_used_the_defaults_say_who_may_start() {
    let node = Node::new("mood = 1");
    node.bundle("whole", &whole(2));
    node.bundle("small", r#"{"linux":{"resources":{"cpu":{"shares":2}}}}"#);
    let output = node.create("whole");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("InternalError: container whole: maitred could not decide"),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("unknown field `mood`"), "{}", stderr(&output));
    assert!(node.create("small").status.success());
}

#[test]
fn a_record_nobody_wrote_is_refused_in_kubernetes() {
    let node = Node::new("");
    let config = |annotation: &str| {
        format!(
            r#"{{"annotations":{{"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.sandbox-id":"s",
            "io.kubernetes.cri.container-name":"main"{annotation}}},
            "linux":{{"cgroupsPath":"/kubepods/podu/c1","resources":{{"cpu":{{"shares":2048,"quota":200000,"period":100000}},
            "memory":{{"limit":268435456}}}}}}}}"#
        )
    };
    node.bundle("c1", &config(r#","allocation.maitred.io":"{}""#));
    let output = node.create("c1");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the shared store knows nothing of it"), "{}", stderr(&output));
    node.bundle("c2", &config(""));
    assert!(node.create("c2").status.success());
    assert_eq!(node.config_of("c2")["linux"]["resources"]["cpu"]["cpus"], "1,5");
}

/// No walk through sysfs: once the machine is known, a few files tell that it is the same.
#[test]
fn a_known_machine_is_known_again_by_a_few_files() {
    let node = Node::new("");
    node.bundle("c1", &whole(1));
    let read = || {
        let before = node.read("hook.jsonl").len();
        let bundle = node.path("c1").display().to_string();
        let status = node
            .wrapper(&["create", "--bundle", &bundle, "c1"])
            .env("MAITRED_LOG", "warn,maitred::read=trace")
            .status();
        assert!(status.unwrap().success());
        node.read("hook.jsonl")[before..].matches("\"target\":\"maitred::read\"").count()
    };
    let (first, second) = (read(), read());
    assert!(first > 60, "the first one reads the machine: {first}");
    // Four signs are there, and of each of the four nodes its memory and two pools with two numbers each.
    assert!(second <= 4 + 4 * (1 + 2 * 2) + 2, "the second one read {second} files");
}

/// Which GPUs a device plugin gave is told by the kubelet, which hooks and the wrapper do not ask.
#[test]
fn gpus_that_are_to_be_swapped_are_refused_clearly() {
    for word in ["repair", "choose"] {
        let node = Node::new(&format!("[gpu]\nplacement = \"{word}\""));
        node.bundle("plain", &whole(1));
        assert!(node.create("plain").status.success(), "no GPU is named");
        node.bundle("gpu", &whole(1).replace("\"A=\\u0041\"", "\"NVIDIA_VISIBLE_DEVICES=0\""));
        let output = node.create("gpu");
        assert_eq!(output.status.code(), Some(1));
        let expected = format!("gpu.placement = \"{word}\" cannot be followed by a hook or the wrapper");
        assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
    }
}

/// Everything that an earlier run of the bundle left in it is taken back where nobody places it this time.
#[test]
fn a_bundle_that_was_placed_once_starts_as_it_came_when_nobody_places_it() {
    let node = Node::new("");
    for (name, config) in
        [("off", ""), ("audit", "mode = \"audit\""), ("broken", "mood = 1\n[failure]\npolicy = \"admit\"")]
    {
        node.configure("");
        node.bundle(name, &whole(2));
        assert!(node.create(name).status.success());
        assert_eq!(node.config_of(name)["linux"]["resources"]["cpu"]["quota"], 0);
        node.configure(config);
        if config.is_empty() {
            node.switch("off");
        }
        // With a configuration that cannot be used it is refused, and is left as it is.
        let output = node.create(name);
        node.switch("on");
        match name {
            "broken" => assert_eq!(output.status.code(), Some(1), "{}", stderr(&output)),
            _ => assert_eq!(node.read(&format!("{name}/config.json")), whole(2), "{name}"),
        }
    }
    // Let through by the owner's wish.
    node.configure("[failure]\npolicy = \"admit\"\ndeadline_ms = 100");
    node.bundle("admit", &whole(2));
    assert!(node.create("admit").status.success());
    let store = maitred::store::Store::open(&node.path("store")).unwrap();
    let turn = store.turn(std::time::Duration::ZERO).unwrap();
    let output = node.create("admit");
    assert!(output.status.success(), "{}", stderr(&output));
    drop(turn);
    let cpu = &node.config_of("admit")["linux"]["resources"]["cpu"];
    assert_eq!(cpu, &serde_json::json!({ "quota": 200_000, "period": 100_000 }));
}

/// Who is let through since it was not our turn is known all the same, and loses what others are given later.
#[test]
fn what_is_let_through_on_a_busy_lock_is_in_the_books_and_told_as_undecided() {
    let node = Node::new("[failure]\ndeadline_ms = 100");
    let store = maitred::store::Store::open(&node.path("store")).unwrap();
    node.bundle("small", r#"{"linux":{"resources":{"cpu":{"shares":2}}}}"#);
    let turn = store.turn(std::time::Duration::ZERO).unwrap();
    assert!(node.create("small").status.success());
    assert_eq!(node.allocations(), ["small.small.json"]);
    let said = &node.verdicts()[0];
    assert_eq!(said["decision"], "undecided");
    assert!(said["reason"].as_str().unwrap().ends_with("let through"), "{said}");
    assert_eq!(node.config_of("small")["hooks"]["createRuntime"][0]["args"][2], "settle");
    drop(turn);
}

/// A container that has an id in one directory of a runtime says nothing of one that has it in another.
#[test]
fn a_namesake_in_another_cgroup_gets_cpus_of_its_own() {
    let node = Node::new("");
    let at = |cgroup: &str| {
        whole(2).replace("\"linux\":{", &format!("\"linux\":{{\"cgroupsPath\":\"/maitred-none/{cgroup}\","))
    };
    let run = |bundle: &str| {
        let bundle = node.path(bundle).display().to_string();
        let mut command = node.wrapper(&["run", "--bundle", &bundle, "same"]);
        command.env("RUNTIME", "echo up; exec sleep 60").stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    for (bundle, cgroup) in [("one", "one"), ("two", "two"), ("again", "one")] {
        node.bundle(bundle, &at(cgroup));
    }
    let mut children = ["one", "two", "again"].map(|bundle| {
        let mut child = run(bundle);
        assert!(super::race::is_up(&mut child), "{bundle}");
        child
    });
    let cpus = |bundle: &str| node.config_of(bundle)["linux"]["resources"]["cpu"]["cpus"].clone();
    assert_eq!((cpus("one"), cpus("two")), ("1,5".into(), "2,6".into()));
    assert_eq!(cpus("again"), "1,5", "of those in one cgroup only one can come to be");
    assert_eq!(node.allocations(), ["same%7e2.same.json", "same.same.json"]);
    // The one that fails leaves the other what it has, and the word of an end is about one that has ended.
    children[2].kill().unwrap();
    children[2].wait().unwrap();
    let ended =
        serde_json::json!({ "ociVersion": "1.2.0", "id": "same", "status": "stopped", "bundle": "/" });
    assert!(node.hook("poststop", &ended.to_string()).status.success());
    node.bundle("late", &whole(2));
    assert!(node.create("late").status.success());
    assert_eq!(cpus("late"), "3,7");
    assert_eq!(node.allocations().len(), 3);
    children[..2].iter_mut().for_each(|child| {
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

/// podman's annotations are anybody's: what they say of pod and name is no key.
#[test]
fn two_that_call_themselves_the_same_are_two() {
    let node = Node::new("");
    let named = whole(2).replace(
        "\"ociVersion\"",
        "\"annotations\":{\"io.container.manager\":\"libpod\",\"io.kubernetes.pod.uid\":\"u\",\"io.kubernetes.container.name\":\"n\"},\"ociVersion\"",
    );
    ["a", "b"].iter().for_each(|name| drop(node.bundle(name, &named)));
    let mut children = ["a", "b"].map(|name| {
        let mut child = super::race::start(&node, name);
        assert!(super::race::is_up(&mut child));
        child
    });
    // What podman's users write names nobody.
    assert_eq!(node.allocations(), ["a.a.json", "b.b.json"]);
    let both: std::collections::BTreeSet<u32> =
        ["a", "b"].iter().flat_map(|name| super::race::cpus_of(&node, name)).collect();
    assert_eq!(both.len(), 4, "{both:?}");
    children.iter_mut().for_each(|child| {
        child.kill().unwrap();
        child.wait().unwrap();
    });
}
