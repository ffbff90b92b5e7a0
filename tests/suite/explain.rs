//! `maitred explain`: the story of a decision, after the fact.

use crate::oci::{Node, whole};
use crate::status::{BATCH, Site, VLLM, on_node_1, on_node_2};
use maitred::store::{
    AmountTold, CandidateTold, Evidence, HolderTold, LargestTold, ShortTold, Told, WeakerTold,
};

/// A pod that wanted two CPUs on a node when vLLM had those of node 1 and a stopped job one of node 2.
fn refused() -> Told {
    let holder = |pod: &str, container: &str, amount, stopped| HolderTold {
        pod: pod.into(),
        container: container.into(),
        amount,
        stopped,
    };
    let short = |nodes: &str, available, holders| CandidateTold {
        nodes: nodes.into(),
        short: vec![ShortTold { resource: "cpu".into(), needed: 2, available, holders }],
    };
    Told {
        time: "2026-01-01T00:05:00Z".into(),
        first: "2026-01-01T00:00:00Z".into(),
        times: 4,
        pod: "embed".into(),
        namespace: "inference".into(),
        pod_uid: "eeeeeeee-5".into(),
        container: Some("main".into()),
        container_id: Some("f00d".into()),
        source: "nri".into(),
        decision: "rejected".into(),
        reason: "TopologyAffinityError: container main: no single NUMA node has 2 CPUs".into(),
        request: "2 CPUs".into(),
        duration_us: Some(41),
        evidence: Some(Evidence {
            reason: "TopologyAffinityError".into(),
            candidates: vec![
                short("1", 0, vec![holder("inference/vllm-0", "server", 2, false)]),
                short("2", 1, vec![holder("work/batch", "job", 1, true)]),
            ],
            weaker: Some(WeakerTold { policy: "restricted".into(), nodes: "2-3".into() }),
            largest: Some(LargestTold {
                nodes: "2".into(),
                amounts: vec![AmountTold { resource: "cpu".into(), amount: 1 }],
            }),
        }),
        ..Told::default()
    }
}

fn site() -> Site {
    let site = Site::new();
    site.store().tell(&refused()).unwrap();
    site
}

#[test]
fn a_refusal_is_told_with_who_had_it_what_is_free_now_and_what_to_do() {
    let (status, out, err) = site().run("explain", &["embed"]);
    assert_eq!((status, err.as_str()), (1, ""), "{out}");
    assert_eq!(
        out,
        "\
inference/embed (pod eeeeeeee-5)

container main
  rejected 4 times, from 2026-01-01T00:00:00Z to 2026-01-01T00:05:00Z by nri, decided in 41 µs
  TopologyAffinityError: container main: no single NUMA node has 2 CPUs
  asked for: 2 CPUs
  node 1: 2 CPUs needed, 0 CPUs free then, 2 CPUs now
    inference/vllm-0/server has 2 CPUs there
  node 2: 2 CPUs needed, 1 CPU free then, 2 CPUs now
    work/batch/job has 1 CPU there, stopped
  under restricted it would have started on nodes 2-3
  what to do:
    - end or move pod inference/vllm-0, which has 2 CPUs on node 1
    - ask for no more than 1 CPU, which would have fitted on node 2
    - let it lie on nodes 2-3: annotation policy.maitred.io: restricted (its namespace must be in \
annotations.trusted_namespaces), or policy.topology for all
    - the kubelet tries again on this node; delete the pod to have it scheduled again
"
    );
}

#[test]
fn it_goes_by_any_of_its_names_and_json_says_the_same() {
    let site = site();
    for name in
        ["embed", "inference/embed", "embed/main", "inference/embed/main", "main", "eeeeeeee-5", "f00d"]
    {
        let (status, out, err) = site.run("explain", &[name]);
        assert_eq!(status, 1, "{name}: {err}");
        assert!(out.starts_with("inference/embed "), "{name}: {out}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&site.run("explain", &["embed", "-o", "json"]).1).unwrap();
    let part = &json["parts"][0];
    assert_eq!((&json["pod"], &part["container"]), (&"inference/embed".into(), &"main".into()));
    let held = &part["verdicts"][0]["evidence"]["candidates"][0]["short"][0]["holders"][0];
    assert_eq!(held["pod"], "inference/vllm-0");
    assert_eq!((&part["now"][0]["available"], part["what_to_do"].as_array().unwrap().len()), (&2.into(), 4));
}

#[test]
fn several_are_listed_and_an_unknown_name_gets_the_nearest() {
    let site = site();
    let other = Told { namespace: "research".into(), pod_uid: "eeeeeeee-6".into(), ..refused() };
    site.store().tell(&other).unwrap();
    let (status, out, err) = site.run("explain", &["embed"]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(
        err.contains("\"embed\" is several: say which of inference/embed/main, research/embed/main"),
        "{err}"
    );
    assert_eq!(site.run("explain", &["research/embed"]).0, 1);
    let (status, _, err) = site.run("explain", &["inference/embde"]);
    assert_eq!(status, 2);
    assert!(
        err.contains("nothing is known of \"inference/embde\"") && err.contains("is it inference/embed"),
        "{err}"
    );
    let (status, _, err) = Site::new().run("explain", &["embed"]);
    assert_eq!(status, 2);
    assert!(err.contains("journalctl -u maitred -o cat | maitred explain embed --log -"), "{err}");
}

#[test]
fn one_that_runs_is_told_from_its_allocation_and_what_was_before_too() {
    let site = site();
    site.store()
        .tell(&Told {
            time: "2026-01-01T00:06:00Z".into(),
            times: 1,
            decision: "placed".into(),
            reason: "aligned on node 1, CPUs 1,5".into(),
            evidence: None,
            ..refused()
        })
        .unwrap();
    site.holds("eeeeeeee-5", "main", "f00d", &on_node_1());
    site.container("/kubepods/podeeeeeeee-5/f00d", 71, "vllm");
    let (status, out, _) = site.run("explain", &["embed"]);
    assert_eq!(status, 0, "{out}");
    assert!(out.contains("\n  now: runs with cpus 1,5, mems 1, nvidia.com/gpu GPU-"), "{out}");
    assert!(out.contains("\n  placed at 2026-01-01T00:06:00Z by nri"), "{out}");
    assert!(out.contains("before: 2026-01-01T00:05:00Z rejected (4 times): Topology"), "{out}");
    // Of this one only its allocation and the kubelet's log directory tell.
    site.holds(BATCH, "job", "beef", &on_node_2());
    site.file(&format!("sys/fs/cgroup/kubepods/pod{BATCH}/cgroup.events"), "populated 0\n");
    site.file(&format!("var/log/pods/work_batch_{BATCH}/x"), "");
    let (status, out, err) = site.run("explain", &["batch"]);
    assert_eq!(status, 0, "{err}");
    assert!(
        out.contains("has stopped; kept while its pod lives: cpus 2, mems 2 (placed by nri, id beef)"),
        "{out}"
    );
    assert!(out.contains("no verdict is remembered"), "{out}");
    let _ = VLLM;
}

#[test]
fn the_log_tells_it_too_and_a_placed_one_is_fine() {
    let site = Site::new();
    let line = |decision: &str, reason: &str| {
        format!(
            r#"{{"timestamp":"2026-01-01T00:00:00Z","level":"INFO","message":"verdict","decision":"{decision}","reason":"{reason}","request":"2 CPUs","span":{{"pod":"old","namespace":"default","pod_uid":"u-1","container":"main","source":"nri"}}}}"#
        )
    };
    site.file("log", &format!("starting up\n{}\n", line("rejected", "TopologyAffinityError: no")));
    let log = site.path().join("log");
    let (status, out, err) = site.run("explain", &["old", "--log", log.to_str().unwrap()]);
    assert_eq!(status, 1, "{err}");
    assert!(out.contains("TopologyAffinityError: no") && out.contains("what to do:"), "{out}");
    site.file("log", &line("placed", "aligned"));
    assert_eq!(site.run("explain", &["old", "--log", log.to_str().unwrap()]).0, 0);
    assert_eq!(site.run("explain", &["old", "--log", "/no/such"]).0, 2);
}

/// From the decision to the explanation, nothing put there by hand.
#[test]
fn what_the_wrapper_refuses_can_be_explained_afterwards() {
    let node = Node::new("");
    node.bundle("holder", &whole(2));
    let held = node
        .wrapper(&["create", "--bundle", node.path("holder").to_str().unwrap(), "holder"])
        .status()
        .unwrap();
    assert!(held.success());
    node.bundle("big", &whole(4));
    assert_eq!(node.create("big").status.code(), Some(1));
    let (store, root, config) = (node.path("store"), &node.sysroot, node.path("config.toml"));
    let args = ["explain", "big", "--store", store.to_str().unwrap(), "--sysroot", root.to_str().unwrap()];
    let args = [&args[..], &["--config", config.to_str().unwrap()]].concat();
    let (status, out, err) = crate::cli::run(&args);
    assert_eq!(status, 1, "{err}");
    assert!(out.contains("rejected at ") && out.contains("by runtime"), "{out}");
    assert!(out.contains("4 CPUs needed, 2 CPUs free then"), "{out}");
    assert!(out.contains("what to do:\n"), "{out}");
    // The log alone tells the same; only the time is another.
    let log = node.path("hook.jsonl").display().to_string();
    let (status, by_log, err) = crate::cli::run(&[&args[..], &["--log", &log]].concat());
    assert_eq!(status, 1, "{err}");
    let story =
        |out: &str| out.lines().filter(|line| !line.contains("rejected at")).collect::<Vec<_>>().join("\n");
    assert_eq!(story(&by_log), story(&out));
    assert!(by_log.contains("4 CPUs needed, 2 CPUs free then"), "{by_log}");
}
