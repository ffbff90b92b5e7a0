//! Between create and the end of the pod: what is lent, taken back, written again.

use super::*;

#[test]
fn shared_containers_lose_and_regain_what_is_given_away() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    assert_eq!(node.create(&small_pod, &small).reply, Reply::Nothing, "nothing is taken yet");
    let first = node.create(&pod("a"), &whole("a", 4));
    assert_eq!(cpus(&first), "4-7");
    assert_eq!(updates(&first), [line("id-s", "0-3,8-15")]);
    let (late_pod, late) = super::small("late");
    assert_eq!(cpus(&node.create(&late_pod, &late)), "0-3,8-15");
    let lent = node.stop(&pod("a"), &whole("a", 4));
    assert_eq!(updates(&lent), [line("id-late", "0-15"), line("id-s", "0-15")]);
    let ended = node.step(Event::StopPod(pod("a")));
    assert!(ended.updates.is_empty() && ended.writes.is_empty(), "the CPUs were back already");
    assert_eq!(node.held(), 0);
}

#[test]
fn lent_cpus_stay_closed_and_a_restart_gets_its_own_back() {
    let mut node = Node::new();
    let first = node.create(&pod("a"), &whole("a", 4));
    node.stop(&pod("a"), &whole("a", 4));
    let other = node.create(&pod("b"), &whole("b", 4));
    assert_ne!(cpus(&first), cpus(&other));
    let again = ContainerFacts { id: "id-a2".into(), ..whole("a", 4) };
    assert_eq!(cpus(&node.create(&pod("a"), &again)), cpus(&first));
}

#[test]
fn the_stop_of_an_old_attempt_takes_nothing_from_the_new_one() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    node.create(&small_pod, &small);
    node.create(&pod("a"), &whole("a", 4));
    let again = ContainerFacts { id: "id-a2".into(), ..whole("a", 4) };
    node.create(&pod("a"), &again);
    assert_eq!(node.stop(&pod("a"), &whole("a", 4)).updates, []);
    assert_eq!(updates(&node.stop(&pod("a"), &again)), [line("id-s", "0-15")]);
}

#[test]
fn the_old_sandbox_takes_nothing_from_the_new_one() {
    let mut node = Node::new();
    let old = pod("a");
    let new = PodFacts { id: "sandbox-a2".into(), ..pod("a") };
    node.step(Event::RunPod(old.clone()));
    node.step(Event::RunPod(new.clone()));
    node.create(&new, &whole("a", 4));
    node.step(Event::StopPod(old));
    assert_eq!(node.held(), 1);
    node.step(Event::StopPod(new));
    assert_eq!(node.held(), 0);
}

#[test]
fn a_late_result_is_taken_back() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    node.create(&small_pod, &small);
    let lost = node.create(&pod("a"), &whole("a", 4));
    node.step(Event::Abandon("id-a".into()));
    assert_eq!(node.held(), 0);
    let next = node.create(&pod("b"), &whole("b", 4));
    assert_eq!(cpus(&next), cpus(&lost));
    assert_eq!(updates(&next), [line("id-s", "0-3,8-15")], "the lost reply's update is sent again");
}

#[test]
fn an_abandoned_restart_still_holds_its_seat() {
    let mut node = Node::new();
    node.create(&pod("a"), &whole("a", 4));
    node.stop(&pod("a"), &whole("a", 4));
    node.create(&pod("a"), &ContainerFacts { id: "id-a2".into(), ..whole("a", 4) });
    node.step(Event::Abandon("id-a2".into()));
    assert_eq!(node.held(), 1);
    assert_ne!(cpus(&node.create(&pod("b"), &whole("b", 4))), "4-7");
}

#[test]
fn an_update_cannot_undo_a_placement() {
    let mut node = Node::new();
    let first = node.create(&pod("a"), &whole("a", 4));
    let wide = Resources { cpus: "0-15".into(), mems: "0-3".into(), ..Resources::default() };
    let answer = node.step(Event::Update(pod("a"), whole("a", 4), wide));
    assert_eq!(cpus(&answer), cpus(&first));
    assert_eq!(edit(&answer).mems, edit(&first).mems);
    let throttled = node.step(Event::Update(pod("a"), whole("a", 4), limits(4000, 1 << 30)));
    assert!(edit(&throttled).drop_quota);
    let resize = node.step(Event::Update(pod("a"), whole("a", 4), limits(6000, 1 << 30)));
    assert!(refusal(&resize).contains("from 4000m to 6000m"), "{}", refusal(&resize));
    let grow = node.step(Event::Update(pod("a"), whole("a", 4), limits(4000, 2 << 30)));
    assert!(refusal(&grow).contains("memory from 1Gi to 2Gi"), "{}", refusal(&grow));
}

#[test]
fn the_cgroup_is_the_truth() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    node.step(Event::RunPod(small_pod.clone()));
    node.create(&small_pod, &small);
    node.create(&pod("a"), &whole("a", 4));
    let see = |cpus: &str| {
        let seen = Observed { cpus: Some(cpus.parse().unwrap()), mems: None };
        Event::Observe(BTreeMap::from([("id-s".into(), seen)]))
    };
    let stale = node.step(see("0-15"));
    assert_eq!(stale.writes[0].cpus.to_string(), "0-3,8-15");
    assert_eq!(stale.verdicts[0].decision, Decision::Repaired);
    assert!(node.step(see("0-15")).writes.is_empty(), "it was tried and changed nothing");
    assert!(node.step(see("0-3,8-15")).writes.is_empty());
    assert_eq!(node.step(see("0-7")).writes.len(), 1);
    let unread = Event::Observe(BTreeMap::from([("id-s".into(), Observed::default())]));
    assert!(node.step(unread).writes.is_empty(), "unread is not empty");
}

/// A container can go without having been stopped: containerd's own clean-up after a failed start.
#[test]
fn a_removed_container_has_stopped_and_a_removed_pod_has_ended() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    node.create(&small_pod, &small);
    node.create(&pod("a"), &whole("a", 4));
    let removed = node.step(Event::Remove(pod("a"), whole("a", 4)));
    assert!(removed.updates.is_empty(), "nobody reads updates in this answer");
    assert_eq!(removed.writes.iter().map(|write| write.cpus.to_string()).collect::<Vec<_>>(), ["0-15"]);
    assert_eq!(node.held(), 1, "its seat is kept while the pod lives");
    node.step(Event::RemovePod(pod("a")));
    assert_eq!(node.held(), 0);
}

#[test]
fn what_runs_is_not_taken_back() {
    let mut node = Node::new();
    node.create(&pod("a"), &whole("a", 4));
    node.step(Event::Started(pod("a"), whole("a", 4)));
    node.step(Event::Abandon("id-a".into()));
    assert_eq!(node.held(), 1);
}
