//! Beside the kubelet's static CPU Manager.

use super::*;

fn followed() -> Node {
    Node::with(Settings { authority: CpuAuthority::Kubelet, ..settings() })
}

/// The CPUs and GPUs that the kubelet gave a pod's only container.
fn gives(node: &mut Node, name: &str, cpus: &str, gpus: &[&str]) -> PodFacts {
    let ids = gpus.iter().map(|id| ((*id).to_owned(), None)).collect();
    let devices = BTreeMap::from([("nvidia.com/gpu".into(), ids)]);
    let one = Allotment { devices, cpus: Some(cpus.parse().unwrap()), ..Allotment::default() };
    let containers = BTreeMap::from([(name.into(), one)]);
    let known = PodAllotment { source: AllotmentSource::PodResources, containers };
    node.step(Event::Allotted(pod(name).uid, known));
    pod(name)
}

#[test]
fn cpus_are_never_changed_and_all_else_is_put_around_them() {
    let mut node = followed();
    let (small_pod, small) = small("s");
    assert_eq!(node.create(&small_pod, &small).reply, Reply::Nothing);
    let pod_a = gives(&mut node, "a", "8-9", &["GPU-c"]);
    let mut facts = on_gpu(whole("a", 2), "GPU-c");
    facts.resources.cpus = "8-9".into();
    let outcome = node.create(&pod_a, &facts);
    let edit = edit(&outcome);
    assert_eq!((edit.cpus.as_ref(), edit.drop_quota), (None, false));
    assert_eq!(edit.mems.as_ref().unwrap().to_string(), "2");
    assert!(outcome.updates.is_empty() && outcome.quotas.is_empty());
    assert!(outcome.verdicts[0].reason.contains("aligned on node 2, CPUs 8-9"), "{:?}", outcome.verdicts[0]);
    assert!(node.stop(&pod_a, &facts).updates.is_empty());
    let seen = Observed { cpus: Some("1-3".parse().unwrap()), mems: None };
    let observed = node.step(Event::Observe(BTreeMap::from([("id-s".into(), seen)])));
    assert!(observed.writes.is_empty());
}

#[test]
fn cpus_apart_from_the_devices_are_refused() {
    let mut node = followed();
    let pod_a = gives(&mut node, "a", "4-5", &["GPU-c"]);
    let text = refusal(&node.create(&pod_a, &on_gpu(whole("a", 2), "GPU-c")));
    let start = "TopologyAffinityError: container a: the kubelet gave it CPUs 4-5: GPU GPU-c is on node 2";
    assert!(text.starts_with(start), "{text}");
    let wide = gives(&mut node, "w", "3-4", &[]);
    let text = refusal(&node.create(&wide, &whole("w", 2)));
    assert!(text.contains("CPUs 3-4 are on nodes 0-1, more than policy single-numa-node allows"), "{text}");
    node.settings.policy.topology = TopologyPolicy::Restricted;
    assert!(matches!(node.create(&wide, &whole("w", 2)).reply, Reply::Refuse(_)), "one node would have done");
    let large = gives(&mut node, "l", "2-7", &[]);
    assert!(matches!(node.create(&large, &whole("l", 6)).reply, Reply::Adjust(_)), "it takes two");
    node.settings.policy.topology = TopologyPolicy::BestEffort;
    assert!(matches!(node.create(&wide, &whole("w", 2)).reply, Reply::Adjust(_)));
}

#[test]
fn a_cpuset_of_the_right_size_speaks_where_no_book_does() {
    let mut node = followed();
    let mut facts = whole("a", 4);
    facts.resources.cpus = "8-11".into();
    assert_eq!(edit(&node.create(&pod("a"), &facts)).mems.as_ref().unwrap().to_string(), "2");
    // The shared pool, which the kubelet writes too.
    let mut shared = whole("b", 4);
    shared.resources.cpus = "0-7,12-15".into();
    let outcome = node.create(&pod("b"), &shared);
    assert!(outcome.verdicts[0].reason.contains("shared CPUs"), "{:?}", outcome.verdicts[0]);
}

#[test]
fn the_kubelets_later_changes_of_cpus_stand_and_of_mems_do_not() {
    let mut node = followed();
    let pod_a = gives(&mut node, "a", "8-9", &["GPU-c"]);
    let facts = on_gpu(whole("a", 2), "GPU-c");
    node.create(&pod_a, &facts);
    let wide = Resources { cpus: "8-9".into(), mems: "0-3".into(), ..Resources::default() };
    let answer = node.step(Event::Update(pod_a.clone(), facts.clone(), wide));
    assert_eq!(
        (edit(&answer).cpus.as_ref(), edit(&answer).mems.as_ref().unwrap().to_string()),
        (None, "2".into())
    );
    let plain = Resources { cpus: "10-11".into(), ..Resources::default() };
    assert_eq!(node.step(Event::Update(pod_a.clone(), facts.clone(), plain)), Outcome::default());
    let more = node.step(Event::Update(pod_a, facts, limits(3000, 1 << 30)));
    assert!(!matches!(more.reply, Reply::Refuse(_)), "its CPUs are the kubelet's to change");
}

#[test]
fn nothing_is_pinned_when_the_daemon_comes_back() {
    let mut node = followed();
    let pod_a = gives(&mut node, "a", "8-9", &["GPU-c"]);
    let mut facts = on_gpu(whole("a", 2), "GPU-c");
    facts.resources.cpus = "8-9".into();
    let outcome = node.create(&pod_a, &facts);
    let mut running = made(facts, &pod_a, &outcome);
    running.resources.cpus = "8-9".into();
    let mut unpinned = whole("u", 4);
    unpinned.sandbox = pod("u").id;
    let mut back = followed();
    gives(&mut back, "a", "8-9", &["GPU-c"]);
    let outcome = back.step(synchronize(&[&pod_a, &pod("u")], &[&running, &unpinned]));
    assert!(outcome.updates.is_empty(), "{:?}", outcome.updates);
    assert_eq!(held_gpus(&back, "a"), ["GPU-c"]);
    assert!(
        outcome.verdicts.iter().any(|line| line.reason.contains("by its record")),
        "{:?}",
        outcome.verdicts
    );
}
