//! What hooks and the wrapper have made beside us, and what we have made beside them.

use super::*;

/// A container that somebody else has made: exclusive CPUs, or those of the shared pool it was told.
fn known(name: &str, cpus: &str, told: &str) -> Known {
    let key = ContainerKey::new(format!("uid-{name}").as_str().into(), name.into());
    let cpus: CpuSet = cpus.parse().unwrap();
    let nodes = (!cpus.is_empty()).then(|| machine().nodes_of(&cpus));
    let placement = Placement { cpus, affinity: nodes, preferred: true, ..Placement::default() };
    Known {
        record: Record::new(&key, &format!("id-{name}").as_str().into(), &placement),
        cgroups_path: Some(format!("/elsewhere/{name}")),
        told: told.parse().ok().filter(|told: &CpuSet| !told.is_empty()),
        reserved: false,
        claims: Default::default(),
        runs: true,
    }
}

fn writes(outcome: &Outcome) -> Vec<(String, String)> {
    outcome.writes.iter().map(|write| (write.cgroups_path.clone(), write.cpus.to_string())).collect()
}

#[test]
fn what_others_hold_is_given_to_nobody_and_taken_from_the_shared_pool() {
    let mut node = Node::new();
    let (pod_s, small) = small("s");
    node.create(&pod_s, &small);

    let told = node.step(Event::Elsewhere(vec![known("x", "4-7", "4-7")]));
    assert_eq!(writes(&told), [line("/kubepods/pod/s", "0-3,8-15")]);
    assert_eq!(cpus(&node.create(&pod("a"), &whole("a", 4))), "8-11");
    assert_eq!(node.held(), 2);

    let gone = node.step(Event::Elsewhere(vec![]));
    assert_eq!(writes(&gone), [line("/kubepods/pod/s", "0-7,12-15")]);
    assert_eq!(cpus(&node.create(&pod("b"), &whole("b", 4))), "4-7");
}

#[test]
fn others_shared_containers_make_room_by_their_cgroups() {
    let mut node = Node::new();
    let at_first = node.step(Event::Elsewhere(vec![known("shared", "", "0-15"), known("unseen", "", "")]));
    // Of one that nobody has told anything nothing is known: it is told now.
    assert_eq!(writes(&at_first), [line("/elsewhere/unseen", "0-15")]);
    let placed = node.create(&pod("a"), &whole("a", 4));
    assert_eq!(cpus(&placed), "4-7");
    assert_eq!(updates(&placed), []);
    let shared = [line("/elsewhere/shared", "0-3,8-15"), line("/elsewhere/unseen", "0-3,8-15")];
    assert_eq!(writes(&placed), shared);
    let again =
        node.step(Event::Elsewhere(vec![known("shared", "", "0-3,8-15"), known("unseen", "", "0-3,8-15")]));
    assert_eq!(writes(&again), []);
}

/// What it was made for is what it stays for, whoever looks at it later.
#[test]
fn others_without_cpus_of_their_own_stay_on_the_reserved_ones_and_near_their_devices() {
    let mut near = known("near", "", "8-11");
    let placement = Placement {
        affinity: Some("2".parse().unwrap()),
        devices: [("nvidia.com/gpu".into(), ["GPU-c".into()].into())].into(),
        ..Placement::default()
    };
    near.record = Record::new(&near.record.key, &near.record.id, &placement);
    let reserved = Known { reserved: true, ..known("system", "", "0") };
    let mut node = Node::new();
    node.settings.ineligible = Ineligible::Align;
    let outcome = node.step(Event::Elsewhere(vec![near, reserved]));
    assert_eq!(writes(&outcome), []);
    node.settings.ineligible = Ineligible::Warn;
    let outcome = node.step(Event::Elsewhere(vec![known("near", "", "8-11")]));
    assert_eq!(writes(&outcome), [line("/elsewhere/near", "0-15")]);
}

#[test]
fn a_gpu_that_others_name_is_chosen_for_nobody_while_they_run() {
    let mut node = Node::with(Settings { annotation_pool: AnnotationPool::All, ..settings() });
    let names = |runs| {
        let claims = ["GPU-a", "GPU-b", "GPU-c", "GPU-d"].map(DeviceId::from).into();
        Event::Elsewhere(vec![Known { claims, runs, ..known("x", "", "0-15") }])
    };
    let asks = asking("a", "1");
    node.step(names(true));
    let why = refusal(&node.create(&asks, &container("main")));
    assert!(why.contains("counts as in use: uid-x/x names it"), "{why}");
    node.step(names(false));
    assert_eq!(edit(&node.create(&asks, &container("main"))).env.len(), 1);
}

#[test]
fn the_same_again_is_no_change() {
    let mut node = Node::new();
    node.step(Event::Elsewhere(vec![known("x", "4-7", "4-7")]));
    let generation = node.state.ledger().generation();
    node.step(Event::Elsewhere(vec![known("x", "4-7", "4-7")]));
    assert_eq!(node.state.ledger().generation(), generation);
}

#[test]
fn a_stopped_one_of_a_pod_that_lives_lends_what_it_keeps() {
    let mut node = Node::new();
    let (pod_s, small) = small("s");
    node.create(&pod_s, &small);
    node.step(Event::Elsewhere(vec![known("x", "4-7", "4-7")]));
    let stopped = node.step(Event::Elsewhere(vec![Known { runs: false, ..known("x", "4-7", "4-7") }]));
    assert_eq!(writes(&stopped), [line("/kubepods/pod/s", "0-15")]);
    assert_eq!(cpus(&node.create(&pod("a"), &whole("a", 4))), "8-11");
}

#[test]
fn what_others_hold_outlives_a_registration_and_stays_theirs() {
    let mut node = Node::new();
    node.step(Event::Elsewhere(vec![known("x", "4-7", "4-7")]));
    let unpinned = whole("a", 4);
    let a = pod("a");
    let unpinned = ContainerFacts { sandbox: a.id.clone(), state: ContainerState::Running, ..unpinned };
    let outcome = node.step(synchronize(&[&a], &[&unpinned]));
    assert_eq!(updates(&outcome), [line("id-a", "8-11")]);
    assert!(node.state.is_elsewhere(&known("x", "", "").record.key));
    assert!(!node.state.is_elsewhere(&ContainerKey::new(a.uid, unpinned.name)));
}

#[test]
fn a_word_that_cannot_be_is_told_and_not_believed() {
    let mut node = Node::new();
    node.create(&pod("a"), &whole("a", 4));
    let outcome = node.step(Event::Elsewhere(vec![known("x", "4-7", "4-7")]));
    assert!(
        outcome.verdicts[0].warn && outcome.verdicts[0].reason.contains("CPUs 4-7 are held by uid-a/a"),
        "{outcome:?}"
    );
    assert_eq!(node.held(), 1);
}

/// It runs on the CPU that is left and uses its GPU, whatever became of the other CPU.
#[test]
fn of_a_word_that_cannot_be_what_can_be_counts() {
    let gpu = |cpus: &str| {
        let mut one = known("x", cpus, cpus);
        let mut placement = one.record.placement().clone();
        placement.devices = [("nvidia.com/gpu".into(), ["GPU-1".into()].into())].into();
        one.record = Record::new(&one.record.key, &one.record.id, &placement);
        one
    };
    let mut node = Node::new();
    node.create(&pod("a"), &whole("a", 4));
    // 4-7 are a's, and the machine ends with 15.
    let outcome = node.step(Event::Elsewhere(vec![gpu("7-8,16")]));
    assert_eq!(outcome.verdicts.len(), 1, "{outcome:?}");
    assert!(outcome.verdicts[0].warn && outcome.verdicts[0].reason.contains("16"), "{outcome:?}");
    let held = |node: &Node| {
        let holding = node.state.ledger().get(&known("x", "", "").record.key);
        holding.map(|held| (held.placement.cpus.to_string(), held.placement.devices.len()))
    };
    assert_eq!(held(&node), Some(("8".to_owned(), 1)));
    assert_eq!(cpus(&node.create(&pod("b"), &whole("b", 4))), "12-15");
    // With no CPU of its own left it keeps the GPU, and is not put on the shared pool either.
    let outcome = node.step(Event::Elsewhere(vec![gpu("4-5")]));
    assert_eq!(held(&node), Some((String::new(), 1)));
    assert!(writes(&outcome).iter().all(|(path, _)| path != "/elsewhere/x"), "{outcome:?}");
}

#[test]
fn a_new_attempt_of_ours_answers_for_what_others_held_under_its_name() {
    let mut node = Node::new();
    node.step(Event::Elsewhere(vec![Known { runs: false, ..known("a", "4-7", "4-7") }]));
    let placed = node.create(&pod("a"), &whole("a", 4));
    assert_eq!(cpus(&placed), "4-7", "its own seat is not in its way");
    node.step(Event::Elsewhere(vec![]));
    assert_eq!(node.held(), 1, "it is not the others' to take back");
}
