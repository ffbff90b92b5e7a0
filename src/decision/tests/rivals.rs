//! Two containers on one GPU: while maitred is off nobody keeps them apart.

use super::*;

/// One was there first and holds it, the other was let on to the same GPU and to one more.
fn rivals() -> (Node, [(PodFacts, ContainerFacts); 2]) {
    let mut node = Node::with(Settings { mode: Mode::Off, ..settings() });
    let first = given(&mut node, "z", 2, &["GPU-c::0"]);
    let second = given(&mut node, "a", 2, &["GPU-c", "GPU-d"]);
    for (pod, facts) in [&first, &second] {
        assert_eq!(node.create(pod, facts).reply, Reply::Nothing);
    }
    (node, [first, second])
}

#[test]
fn what_is_contested_is_the_firsts_and_the_rest_is_held_all_the_same() {
    let (node, _) = rivals();
    assert_eq!(
        (held_gpus(&node, "z"), held_gpus(&node, "a")),
        (vec!["GPU-c::0".into()], vec!["GPU-d".into()])
    );
}

#[test]
fn after_a_restart_the_first_has_it_still() {
    let (node, both) = rivals();
    let record = |(key, held): (&ContainerKey, &crate::ledger::Holding)| {
        Record::new(key, held.id.as_ref().unwrap(), &held.placement)
    };
    let hints: Vec<Record> =
        node.state.ledger().iter().map(record).filter(|one| one.key.pod.as_str() == "uid-z").collect();

    let mut fresh = Node::new();
    fresh.step(allotted(&both[0].0, &[("z", "nvidia.com/gpu", &["GPU-c::0"])]));
    fresh.step(allotted(&both[1].0, &[("a", "nvidia.com/gpu", &["GPU-c", "GPU-d"])]));
    let running = both.clone().map(|(pod, facts)| ContainerFacts {
        sandbox: pod.id,
        state: ContainerState::Running,
        ..facts
    });
    // The runtime tells of them by their ids.
    let event = synchronize(&[&both[1].0, &both[0].0], &[&running[1], &running[0]]);
    let Event::Synchronize { pods, containers, observed, .. } = event else { panic!() };
    let outcome = fresh.step(Event::Synchronize { pods, containers, observed, hints });

    assert_eq!(held_gpus(&fresh, "z"), ["GPU-c::0"]);
    assert_eq!(held_gpus(&fresh, "a"), ["GPU-d"], "what nobody else has is not free");
    let told = outcome.verdicts.iter().find(|line| line.pod_uid.as_str() == "uid-a").unwrap();
    assert!(told.warn && told.reason.contains("GPU-c is held by uid-z/z"), "{}", told.reason);
}
