//! Who is spared: the exempt, audit mode, the switch, and the undecided.

use super::*;

#[test]
fn the_exempt_start_on_a_full_node_and_it_is_said() {
    let mut node = Node::new();
    for name in ["a", "b", "c"] {
        node.create(&pod(name), &whole(name, 4));
    }
    let system = PodFacts { namespace: "kube-system".into(), ..pod("sys") };
    let outcome = node.create(&system, &whole("sys", 4));
    assert_eq!(cpus(&outcome), "0-3");
    assert_eq!(outcome.verdicts[0].decision, Decision::Exempt);
    assert!(outcome.verdicts[0].reason.contains("would have been refused: TopologyAffinityError"));
    let mut broken = system;
    broken.annotations.insert("policy.maitred.io".into(), "strict".into());
    assert_eq!(cpus(&node.create(&broken, &container("sys2"))), "0-3");
}

#[test]
fn audit_says_everything_and_changes_nothing() {
    let mut node = Node::with(Settings { mode: Mode::Audit, ..settings() });
    let (small_pod, small) = small("s");
    node.create(&small_pod, &small);
    for name in ["a", "b", "c", "d"] {
        let outcome = node.create(&pod(name), &whole(name, 4));
        assert!(outcome.reply == Reply::Nothing && outcome.updates.is_empty());
        assert!(outcome.verdicts[0].simulated);
        let wanted = if name == "d" { Decision::Rejected } else { Decision::Placed };
        assert_eq!(outcome.verdicts[0].decision, wanted);
    }
    assert_eq!(node.held(), 3, "the ledger is simulated");
}

/// It starts all the same; the word that it would have been refused is to stay the last one.
#[test]
fn what_audit_would_have_refused_is_decided_about_once() {
    let mut node = Node::with(Settings { mode: Mode::Audit, ..settings() });
    let (pod, wide) = (pod("a"), whole("a", 5));
    node.step(allotted(&pod, &[("a", "nvidia.com/gpu", &["GPU-a"])]));
    assert_eq!(node.create(&pod, &wide).verdicts[0].decision, Decision::Rejected);
    let started = node.step(Event::Started(pod.clone(), wide.clone()));
    assert_eq!(started.verdicts, []);
    assert_eq!(held_gpus(&node, "a"), ["GPU-a"], "it has what the kubelet gave it");
    node.stop(&pod, &wide);
    node.step(Event::StopPod(pod));
    assert_eq!(node.held(), 0);
}

#[test]
fn off_lets_everything_through_and_on_catches_up() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    node.settings.mode = Mode::Off;
    node.create(&small_pod, &small);
    let off = node.create(&pod("a"), &whole("a", 4));
    assert!(off.reply == Reply::Nothing && off.updates.is_empty() && node.held() == 0);
    node.settings.mode = Mode::Enforce;
    let on = node.create(&pod("b"), &whole("b", 4));
    assert_eq!(updates(&on), [line("id-a", "0-3,8-15"), line("id-s", "0-3,8-15")]);
}

#[test]
fn an_undecided_container_is_refused_only_where_it_counts_on_us() {
    let why = "the deadline of 1000 ms passed";
    let pinned = Event::Create(pod("a"), whole("a", 4));
    let text = refusal(&failure(&pinned, None, &settings(), why));
    assert_eq!(text, format!("InternalError: container a: maitred could not decide: {why}"));
    let (small_pod, small) = small("s");
    assert_eq!(failure(&Event::Create(small_pod, small), None, &settings(), why).reply, Reply::Nothing);
    let system = PodFacts { namespace: "kube-system".into(), ..pod("a") };
    assert_eq!(failure(&Event::Create(system, whole("a", 4)), None, &settings(), why).reply, Reply::Nothing);
    let admit = Settings { failure: FailurePolicy::Admit, ..settings() };
    assert_eq!(failure(&pinned, None, &admit, why).reply, Reply::Nothing);
    let audit = Settings { mode: Mode::Audit, ..settings() };
    assert_eq!(failure(&pinned, None, &audit, why).reply, Reply::Nothing);
}
