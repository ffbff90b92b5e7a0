//! Synchronize: what runs already is taken over, put right or named.

use super::*;

#[test]
fn a_restarted_daemon_finds_everything_where_it_was() {
    let mut node = Node::with(Settings { annotation_pool: AnnotationPool::All, ..settings() });
    let (small_pod, small) = small("s");
    let pods = [asking("a", "2"), pod("b")];
    node.create(&small_pod, &small);
    let a = made(whole("a", 2), &pods[0], &node.create(&pods[0], &whole("a", 2)));
    let b = made(whole("b", 4), &pods[1], &node.create(&pods[1], &whole("b", 4)));
    let before: Vec<_> = node.state.ledger().iter().map(|(k, h)| (k.clone(), h.placement.clone())).collect();
    let mut s = small;
    s.sandbox = small_pod.id.clone();
    s.resources.cpus = node.state.ledger().shared_pool(&CpuOptions::default()).to_string();

    let mut fresh = Node::with(node.settings.clone());
    let outcome = fresh.step(synchronize(&[&small_pod, &pods[0], &pods[1]], &[&s, &a, &b]));

    assert_eq!(outcome.updates, [], "nothing changes for those that run");
    let after: Vec<_> = fresh.state.ledger().iter().map(|(k, h)| (k.clone(), h.placement.clone())).collect();
    assert_eq!(before, after);
    let third = fresh.create(&asking("c", "2"), &whole("c", 2));
    assert_eq!(edit(&third).env[0].1, "GPU-c,GPU-d", "its GPUs are known to be taken");
}

#[test]
fn what_started_unpinned_is_pinned_and_its_neighbours_make_room() {
    let mut node = Node::new();
    let (small_pod, mut small) = small("s");
    small.sandbox = small_pod.id.clone();
    let mut loose = on_gpu(whole("a", 4), "GPU-c");
    loose.sandbox = pod("a").id;
    let outcome = node.step(synchronize(&[&small_pod, &pod("a")], &[&small, &loose]));
    assert_eq!(updates(&outcome), [line("id-a", "8-11"), line("id-s", "0-7,12-15")]);
    assert!(outcome.updates.iter().all(|update| update.mems.is_none()), "mems of the running never change");
    assert_eq!(outcome.verdicts[0].decision, Decision::Repaired);
    assert_eq!(cpus(&node.create(&pod("b"), &whole("b", 4))), "4-7");
}

#[test]
fn what_cannot_be_pinned_any_more_is_named_and_runs_on() {
    let mut node = Node::new();
    let taken: Vec<_> = ["a", "b", "c"]
        .map(|name| made(whole(name, 4), &pod(name), &node.create(&pod(name), &whole(name, 4))))
        .into();
    let mut loose = whole("d", 4);
    loose.sandbox = pod("d").id;
    let pods = ["a", "b", "c", "d"].map(pod);
    let mut fresh = Node::new();
    let all: Vec<&ContainerFacts> = taken.iter().chain([&loose]).collect();
    let outcome = fresh.step(synchronize(&pods.iter().collect::<Vec<_>>(), &all));
    let line_of_d = outcome.verdicts.iter().find(|v| v.pod == "d").unwrap();
    assert!(line_of_d.warn && line_of_d.reason.contains("without a restart"), "{}", line_of_d.reason);
    assert_eq!(updates(&outcome), [line("id-d", "0-3")], "it leaves the others' CPUs");
}

#[test]
fn a_stopped_containers_seat_is_remembered_while_its_pod_lives() {
    for scope in [Scope::Container, Scope::Pod] {
        remembers(scope);
    }
}

fn remembers(scope: Scope) {
    let scoped = || {
        let mut node = Node::new();
        node.settings.policy.scope = scope;
        node
    };
    let mut node = scoped();
    let [first, gone] = ["a", "gone"].map(|name| node.create(&pod(name), &whole(name, 4)));
    let hint = |outcome: &Outcome| Record::parse(edit(outcome).record.as_ref().unwrap()).unwrap();
    let mut fresh = scoped();
    let Event::Synchronize { pods, containers, observed, .. } = synchronize(&[&pod("a")], &[]) else {
        panic!()
    };
    let hints = vec![hint(&first), hint(&gone)];
    fresh.step(Event::Synchronize { pods, containers, observed, hints });
    assert_eq!(fresh.held(), 1, "the other's pod has ended");
    // Others take all the rest that a pod of this size could have.
    for other in ["b", "c"] {
        assert_ne!(cpus(&fresh.create(&pod(other), &whole(other, 4))), cpus(&first));
    }
    let again = ContainerFacts { id: "id-a2".into(), ..whole("a", 4) };
    assert_eq!(cpus(&fresh.create(&pod("a"), &again)), cpus(&first));
}

#[test]
fn a_record_that_does_not_hold_up_counts_for_nothing() {
    let mut node = Node::new();
    let outcome = node.create(&pod("a"), &whole("a", 4));
    let honest = made(whole("a", 4), &pod("a"), &outcome);
    let record = honest.annotations[RECORD_ANNOTATION].clone();
    // b carries a's record and runs on all CPUs.
    let mut thief = whole("b", 4);
    thief.sandbox = pod("b").id;
    thief.annotations.insert(RECORD_ANNOTATION.into(), record);
    // c's own record, whose CPUs its cgroup does not have.
    let c = node.create(&pod("c"), &whole("c", 4));
    let mut moved = made(whole("c", 4), &pod("c"), &c);
    moved.resources.cpus = "12-15".into();
    let mut fresh = Node::new();
    fresh.step(synchronize(&[&pod("a"), &pod("b"), &pod("c")], &[&honest, &thief, &moved]));
    let held = |name: &str| {
        let key = ContainerKey::new(pod(name).uid, name.into());
        fresh.state.ledger().get(&key).unwrap().placement.cpus.to_string()
    };
    assert_eq!([held("a"), held("b"), held("c")], ["4-7", "8-11", "12-15"]);
}
