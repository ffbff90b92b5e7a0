//! Others who set what we set, runtimes whose updates do harm, and CPUs that go and come back.

use super::*;

fn with(features: Features) -> Node {
    Node::with(Settings { features, ..settings() })
}

fn beside_rivals() -> Node {
    with(Features { rivals: true, ..Features::default() })
}

fn observed(id: &ContainerId, cpus: &str) -> Event {
    let seen = Observed { cpus: Some(cpus.parse().unwrap()), mems: None };
    Event::Observe([(id.clone(), seen)].into())
}

fn writes(outcome: &Outcome) -> Vec<(String, String)> {
    outcome.writes.iter().map(|write| (write.id.to_string(), write.cpus.to_string())).collect()
}

#[test]
fn a_cpuset_of_another_plugin_is_left_and_told_and_kept_off_exclusive_cpus() {
    for namespace in ["default", "kube-system"] {
        let mut node = beside_rivals();
        let taken = cpus(&node.create(&pod("a"), &whole("a", 2)));
        let (mut pod, mut facts) = small("s");
        pod.namespace = namespace.into();
        facts.resources.cpus = "0-7".into();

        let outcome = node.create(&pod, &facts);

        assert_eq!((&outcome.reply, updates(&outcome)), (&Reply::Nothing, vec![]), "two would set one field");
        let line = &outcome.verdicts[0];
        assert!(line.warn && line.rival, "{line:?}");
        assert!(line.reason.contains("its CPUs 0-7 were set before us"), "{}", line.reason);
        node.step(Event::Started(pod, facts.clone()));
        let rest: CpuSet = "0-7".parse().unwrap();
        let rest = rest.difference(&taken.parse().unwrap()).to_string();
        assert_eq!(writes(&node.step(observed(&facts.id, "0-7"))), [line_of(&facts, &rest)]);
    }
}

fn line_of(facts: &ContainerFacts, cpus: &str) -> (String, String) {
    line(facts.id.as_str(), cpus)
}

/// A plugin behind us in the order is not seen: the runtime refuses the container when it has asked both.
#[test]
fn what_did_not_start_with_our_cpuset_is_made_without_it_the_next_time() {
    let mut node = beside_rivals();
    node.create(&pod("a"), &whole("a", 2));
    let (pod, first) = small("s");
    let pool = cpus(&node.create(&pod, &first));
    node.stop(&pod, &first);
    node.step(Event::Remove(pod.clone(), first.clone()));

    let second = ContainerFacts { id: "second".into(), ..first };
    let outcome = node.create(&pod, &second);

    assert_eq!((&outcome.reply, updates(&outcome)), (&Reply::Nothing, vec![]));
    let line = &outcome.verdicts[0];
    assert!(
        !line.warn && !line.rival && line.reason.contains("it did not start the last time"),
        "{}",
        line.reason
    );
    node.step(Event::Started(pod.clone(), second.clone()));
    assert_eq!(writes(&node.step(observed(&second.id, "0-15"))), [line_of(&second, &pool)]);
    // The next pod is not blamed for it.
    node.step(Event::StopPod(pod.clone()));
    assert_eq!(cpus(&node.create(&pod, &second)), pool);
}

#[test]
fn what_has_started_and_what_has_no_rivals_is_adjusted_again() {
    for (rivals, starts) in [(true, true), (false, false)] {
        let mut node = with(Features { rivals, ..Features::default() });
        node.create(&pod("a"), &whole("a", 2));
        let (pod, first) = small("s");
        let pool = cpus(&node.create(&pod, &first));
        if starts {
            node.step(Event::Started(pod.clone(), first.clone()));
        }
        node.stop(&pod, &first);
        assert_eq!(cpus(&node.create(&pod, &ContainerFacts { id: "second".into(), ..first })), pool);
    }
}

/// crun under cgroup v1 writes the device rules anew at each update, without those of GPUs that NVIDIA's hook added.
#[test]
fn gpus_that_came_behind_the_runtimes_back_stay_when_the_pool_changes() {
    let legacy = || on_gpu(small("gpu").1, "GPU-c");
    let mut known = legacy();
    known.devices = vec![DeviceNode { path: "/dev/nvidia3".into(), major: 195, minor: 3 }];
    for (rewrites_devices, facts, by_update) in
        [(true, legacy(), false), (false, legacy(), true), (true, known, true)]
    {
        let mut node = with(Features { rewrites_devices, ..Features::default() });
        node.create(&small("gpu").0, &facts);
        let outcome = node.create(&pod("a"), &whole("a", 2));
        let ids = |changes: &[CpusetUpdate]| changes.iter().any(|change| change.id == facts.id);
        assert_eq!((ids(&outcome.updates), ids(&outcome.writes)), (by_update, !by_update), "{facts:?}");
    }
}

/// The machine without its last CPU.
fn smaller() -> Topology {
    let gone: CpuSet = "15".parse().unwrap();
    let mut less = machine();
    less.cpus = less.cpus.difference(&gone);
    less.packages.iter_mut().for_each(|one| one.cpus = one.cpus.difference(&gone));
    less.numa_nodes.iter_mut().for_each(|one| one.cpus = one.cpus.difference(&gone));
    less.cores.iter_mut().for_each(|one| one.cpus = one.cpus.difference(&gone));
    less
}

#[test]
fn a_cpu_that_goes_offline_is_given_to_nobody_and_one_that_comes_back_is() {
    let mut node = Node::new();
    let (pod_of_shared, shared) = small("s");
    node.create(&pod_of_shared, &shared);
    node.create(&pod("a"), &whole("a", 2));
    let pool = |node: &Node| node.state.ledger().shared_pool(&node.settings.policy.cpu).to_string();
    let before = pool(&node);

    let without = node.step(Event::Devices(Box::new(smaller())));
    assert_eq!(writes(&without), [line_of(&shared, &pool(&node))]);
    assert!(!pool(&node).parse::<CpuSet>().unwrap().contains(CpuId(15)), "{}", pool(&node));
    let mut given = CpuSet::new();
    for name in ["b", "c", "d"] {
        let outcome = node.create(&pod(name), &whole(name, 4));
        if let Reply::Adjust(edit) = outcome.reply {
            given.extend(edit.cpus.unwrap().iter());
        }
    }
    assert!(!given.contains(CpuId(15)) && given.len() == 8, "{given}");
    for name in ["b", "c", "d"] {
        node.step(Event::StopPod(pod(name)));
    }

    let with = node.step(Event::Devices(Box::new(machine())));
    assert_eq!(pool(&node), before);
    assert_eq!(writes(&with), [line_of(&shared, &before)]);
}

#[test]
fn who_holds_a_cpu_that_went_offline_holds_it_still() {
    let mut node = Node::new();
    let four = |node: &mut Node, name: &str| cpus(&node.create(&pod(name), &whole(name, 4)));
    let last = ["a", "b", "c"].map(|name| four(&mut node, name));
    assert!(last.contains(&"12-15".to_owned()), "{last:?}");
    node.step(Event::Devices(Box::new(smaller())));
    assert_eq!(node.held(), 3);
    node.step(Event::Devices(Box::new(machine())));
    assert!(matches!(node.create(&pod("d"), &whole("d", 4)).reply, Reply::Refuse(_)));
}
