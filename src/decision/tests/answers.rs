//! Answers that got lost, and answers to what others want changed.

use super::*;

#[test]
fn a_seat_nobody_sits_on_binds_no_later_attempt() {
    let mut node = Node::new();
    node.settings.policy.scope = Scope::Pod;
    let lost = node.create(&pod("a"), &whole("a", 4));
    node.step(Event::Abandon("id-a".into()));
    let taken = node.create(&pod("b"), &whole("b", 4));
    assert_eq!(cpus(&lost), cpus(&taken));
    assert_eq!(cpus(&node.create(&pod("a"), &whole("a", 4))), "8-11");
}

#[test]
fn what_was_not_written_while_off_is_written_after() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    node.create(&small_pod, &small);
    node.create(&pod("a"), &whole("a", 4));
    let stale = || {
        let seen = Observed { cpus: Some("0-15".parse().unwrap()), mems: None };
        Event::Observe(BTreeMap::from([("id-s".into(), seen)]))
    };
    node.settings.mode = Mode::Off;
    assert!(node.step(stale()).writes.is_empty());
    node.settings.mode = Mode::Enforce;
    assert_eq!(node.step(stale()).writes.len(), 1);
}

#[test]
fn an_update_without_cpus_brings_no_older_ones_back() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    node.create(&small_pod, &small);
    // The runtime failed to narrow it, which is only logged there, and its cgroup was written since.
    node.create(&pod("a"), &whole("a", 4));
    let memory = Resources { memory_limit: Some(1 << 30), ..Resources::default() };
    let answer = node.step(Event::Update(small_pod, small, memory.clone()));
    assert_eq!(cpus(&answer), "0-3,8-15");
    assert_eq!(cpus(&node.step(Event::Update(pod("a"), whole("a", 4), memory))), "4-7");
}

#[test]
fn where_nothing_is_taken_an_update_passes_as_it_came() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    node.create(&small_pod, &small);
    let memory = Resources { memory_limit: Some(1 << 30), ..Resources::default() };
    assert_eq!(node.step(Event::Update(small_pod, small, memory)), Outcome::default());
}

#[test]
fn an_exempt_container_is_resized_as_anybody_wishes() {
    let mut node = Node::new();
    let fraction = ContainerFacts { resources: limits(1500, 1 << 30), ..container("a") };
    let made = made(fraction.clone(), &pod("a"), &node.create(&pod("a"), &fraction));
    // Its namespace has become exempt since.
    node.settings.exempt.namespaces.insert("default".into());
    node.step(synchronize(&[&pod("a")], &[&made]));
    let answer = node.step(Event::Update(pod("a"), made, limits(1500, 2 << 30)));
    assert!(!matches!(answer.reply, Reply::Refuse(_)), "{answer:?}");
}

#[test]
fn with_every_cpu_taken_the_shared_ones_have_the_reserved_ones() {
    let mut node = Node::new();
    node.settings.policy.cpu = CpuOptions([CpuOption::StrictReservation].into());
    let (small_pod, mut small) = small("s");
    small.sandbox = small_pod.id.clone();
    // Three that were placed when less was reserved, and one that somebody else pinned.
    let mut found: Vec<ContainerFacts> = Vec::new();
    for (name, list) in [("a", "1-5"), ("b", "6-10"), ("c", "11-15")] {
        let mut facts = whole(name, 5);
        (facts.sandbox, facts.resources.cpus) = (pod(name).id, list.into());
        let placement = Placement { cpus: list.parse().unwrap(), ..Placement::default() };
        let key = ContainerKey::new(pod(name).uid, name.into());
        let record = Record::new(&key, &facts.id, &placement).to_json();
        facts.annotations.insert(RECORD_ANNOTATION.into(), record);
        found.push(facts);
    }
    let pods = [pod("a"), pod("b"), pod("c")];
    let pods: Vec<&PodFacts> = pods.iter().chain([&small_pod]).collect();
    let containers: Vec<&ContainerFacts> = found.iter().chain([&small]).collect();
    let outcome = node.step(synchronize(&pods, &containers));
    assert_eq!(updates(&outcome), [line("id-s", "0")]);
}
