//! What is found running: at Synchronize, and at the start of a container nobody decided about.

use super::*;

fn written(outcome: &Outcome) -> Vec<(String, String)> {
    outcome.writes.iter().map(|write| (write.id.to_string(), write.cpus.to_string())).collect()
}

fn in_pod(mut facts: ContainerFacts, pod: &PodFacts) -> ContainerFacts {
    facts.sandbox = pod.id.clone();
    facts.state = ContainerState::Running;
    facts
}

fn held(node: &Node, name: &str) -> String {
    let key = ContainerKey::new(pod(name).uid, name.into());
    node.state.ledger().get(&key).map(|held| held.placement.cpus.to_string()).unwrap_or_default()
}

#[test]
fn what_was_let_through_undecided_leaves_others_cpus_when_it_starts() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    node.create(&small_pod, &small);
    node.step(Event::Abandon(small.id.clone()));
    node.create(&pod("a"), &whole("a", 4));
    let started = node.step(Event::Started(small_pod, small));
    assert_eq!(written(&started), [line("id-s", "0-3,8-15")]);
}

#[test]
fn what_was_made_while_nobody_was_asked_is_pinned_when_it_starts() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    node.create(&small_pod, &small);
    let started = node.step(Event::Started(pod("a"), whole("a", 4)));
    assert_eq!(written(&started), [line("id-a", "4-7"), line("id-s", "0-3,8-15")]);
    assert_eq!(started.verdicts[0].decision, Decision::Repaired);
    assert_eq!(node.held(), 1);
    assert!(node.step(Event::Started(pod("a"), whole("a", 4))).writes.is_empty());
}

#[test]
fn what_starts_while_maitred_is_off_is_left_alone() {
    let mut node = Node::with(Settings { mode: Mode::Off, ..settings() });
    let started = node.step(Event::Started(pod("a"), whole("a", 4)));
    assert!(started == Outcome::default() && node.held() == 0);
}

#[test]
fn a_changed_cpuset_goes_back_to_where_the_memory_is() {
    let mut node = Node::new();
    node.create(&pod("a"), &whole("a", 4));
    let mut b = made(whole("b", 4), &pod("b"), &node.create(&pod("b"), &whole("b", 4)));
    assert_eq!((b.resources.cpus.as_str(), b.resources.mems.as_str()), ("8-11", "2"));
    b.resources.cpus = "0-15".into();
    let mut fresh = Node::new();
    // Alone on the machine it would be seated on node 1, its memory being on node 2.
    let outcome = fresh.step(synchronize(&[&pod("b")], &[&b]));
    assert_eq!(updates(&outcome), [line("id-b", "8-11")]);
    assert_eq!(outcome.verdicts[0].decision, Decision::Repaired);
}

#[test]
fn gpus_once_given_stay_taken_whatever_became_of_the_cpus() {
    let all = || Node::with(Settings { annotation_pool: AnnotationPool::All, ..settings() });
    let mut node = all();
    let pod_a = asking("a", "2");
    let mut a = made(whole("a", 2), &pod_a, &node.create(&pod_a, &whole("a", 2)));
    // Somebody else has its CPUs now, by a record of the same worth.
    let mut b = made(whole("b", 2), &pod("b"), &all().create(&pod("b"), &whole("b", 2)));
    b.resources.cpus = a.resources.cpus.clone();
    for cpus in ["0-15", "2", "1,3,5"] {
        a.resources.cpus = cpus.into();
        let mut fresh = all();
        fresh.step(synchronize(&[&pod("b"), &pod_a], &[&b, &a]));
        let next = fresh.create(&asking("c", "1"), &whole("c", 1));
        assert_eq!(edit(&next).env[0].1, "GPU-c", "a runs on {cpus}");
    }
}

#[test]
fn a_stricter_owner_takes_nothing_from_what_runs() {
    let lax = Settings {
        policy: Policy { topology: TopologyPolicy::BestEffort, ..settings().policy },
        ..settings()
    };
    let mut pod_a = pod("a");
    pod_a.annotations.insert("policy.maitred.io".into(), "best-effort".into());
    let a = made(whole("a", 4), &pod_a, &Node::with(lax).create(&pod_a, &whole("a", 4)));
    let mut strict = Node::new();
    assert_eq!(strict.step(synchronize(&[&pod_a], &[&a])).updates, []);
    assert_eq!(held(&strict, "a"), a.resources.cpus);
}

#[test]
fn a_lax_wish_nobody_granted_is_not_granted_when_it_runs() {
    let mut node = Node::new();
    for name in ["a", "b", "c", "e"] {
        node.create(&pod(name), &whole(name, 3));
    }
    let mut wishing = pod("d");
    wishing.annotations.insert("policy.maitred.io".into(), "best-effort".into());
    let started = node.step(Event::Started(wishing, whole("d", 2)));
    assert!(started.verdicts[0].warn && started.verdicts[0].reason.contains("cannot be pinned"));
    assert_eq!(held(&node, "d"), "");
}

#[test]
fn an_annotation_that_cannot_be_followed_any_more_takes_nothing_from_what_runs() {
    let a = made(whole("a", 4), &pod("a"), &Node::new().create(&pod("a"), &whole("a", 4)));
    let mut of_the_future = pod("a");
    of_the_future.annotations.insert("seat-colour.maitred.io".into(), "red".into());
    let mut older = Node::new();
    assert_eq!(older.step(synchronize(&[&of_the_future], &[&a])).updates, []);
    assert_eq!(held(&older, "a"), "4-7");
    // What has no place yet does not get one by guessing, and it is said.
    let outcome = Node::new().step(synchronize(&[&of_the_future], &[&in_pod(whole("a", 4), &of_the_future)]));
    assert!(outcome.verdicts[0].warn && outcome.verdicts[0].reason.contains("seat-colour"));
}

#[test]
fn a_pod_keeps_its_nodes_when_only_a_stopped_container_tells_them() {
    let by_pod = || {
        let mut node = Node::new();
        node.settings.policy.scope = Scope::Pod;
        node
    };
    let mut node = by_pod();
    let first = node.create(&pod("a"), &on_gpu(whole("x", 2), "GPU-c"));
    let hints = vec![Record::parse(edit(&first).record.as_ref().unwrap()).unwrap()];
    let mut fresh = by_pod();
    let (pods, containers, observed) = (vec![pod("a")], Vec::new(), BTreeMap::new());
    fresh.step(Event::Synchronize { pods, containers, observed, hints });
    let second = fresh.create(&pod("a"), &whole("y", 2));
    assert_eq!(edit(&second).mems, edit(&first).mems);
}

#[test]
fn shared_cpus_stay_as_narrow_as_they_were_made() {
    let settings = Settings {
        ineligible: Ineligible::Align,
        reserved_namespaces: ["reserved".to_owned()].into(),
        ..settings()
    };
    let mut node = Node::with(settings.clone());
    let fraction = ContainerFacts { resources: limits(1500, 1 << 30), ..container("g") };
    let g = made(fraction.clone(), &pod("g"), &node.create(&pod("g"), &on_gpu(fraction.clone(), "GPU-c")));
    let g = on_gpu(g, "GPU-c");
    let system = PodFacts { namespace: "reserved".into(), ..pod("r") };
    let fraction = ContainerFacts { id: "id-r".into(), name: "r".into(), ..fraction };
    let r = made(fraction.clone(), &system, &node.create(&system, &fraction));
    assert_eq!((g.resources.cpus.as_str(), r.resources.cpus.as_str()), ("8-11", "0"));
    let mut fresh = Node::with(settings);
    let outcome = fresh.step(synchronize(&[&pod("g"), &system], &[&g, &r]));
    assert_eq!(outcome.updates, []);
}

#[test]
fn a_container_of_a_pod_nobody_told_of_leaves_others_cpus_too() {
    let a = made(whole("a", 4), &pod("a"), &Node::new().create(&pod("a"), &whole("a", 4)));
    let (unknown, stray) = small("s");
    let stray = in_pod(stray, &unknown);
    let mut node = Node::new();
    let outcome = node.step(synchronize(&[&pod("a")], &[&a, &stray]));
    assert_eq!(updates(&outcome), [line("id-s", "0-3,8-15")]);
    node.step(Event::StopPod(unknown));
    assert_eq!(node.state.cgroups().count(), 1);
}

#[test]
fn nothing_is_sent_where_nothing_is_taken() {
    let (small_pod, small) = small("s");
    let outcome = Node::new().step(synchronize(&[&small_pod], &[&in_pod(small, &small_pod)]));
    assert_eq!(outcome.updates, []);
}

#[test]
fn the_shared_pool_is_nobodys_placement() {
    let mut node = Node::new();
    node.settings.policy.cpu = CpuOptions([CpuOption::StrictReservation].into());
    let mut on_pool = in_pod(whole("a", 15), &pod("a"));
    on_pool.resources.cpus = "1-15".into();
    node.step(synchronize(&[&pod("a")], &[&on_pool]));
    assert_eq!(node.held(), 0);
}

/// It was pinned when it started, without a record, on what is now all of the pool.
#[test]
fn what_was_taken_in_is_known_again_by_what_is_remembered() {
    let mut node = Node::new();
    let loose = in_pod(whole("a", 4), &pod("a"));
    let started = node.step(Event::Started(pod("a"), loose.clone()));
    let given = started.writes[0].cpus.clone();
    let (key, holding) = node.state.ledger().iter().next().unwrap();
    let hints = vec![Record::new(key, holding.id.as_ref().unwrap(), &holding.placement)];
    // Others have everything else, so that its CPUs look like the shared pool.
    let names = ["b", "c", "d"];
    let others = names.map(|name| {
        let cpus = if name == "d" { 3 } else { 4 };
        made(whole(name, cpus), &pod(name), &node.create(&pod(name), &whole(name, cpus)))
    });

    let mut fresh = Node::new();
    fresh.settings.policy.cpu = CpuOptions([CpuOption::StrictReservation].into());
    let pods = [pod("a"), pod("b"), pod("c"), pod("d")];
    let all: Vec<&ContainerFacts> = others.iter().chain([&loose]).collect();
    let Event::Synchronize { pods, containers, mut observed, .. } =
        synchronize(&pods.iter().collect::<Vec<_>>(), &all)
    else {
        panic!()
    };
    observed.insert(loose.id.clone(), Observed { cpus: Some(given.clone()), mems: None });
    fresh.step(Event::Synchronize { pods, containers, observed, hints });

    assert_eq!(held(&fresh, "a"), given.to_string());
}

#[test]
fn options_that_no_longer_go_together_take_nothing_from_what_runs() {
    let mut asking = pod("a");
    asking.annotations.insert("cpu-options.maitred.io".into(), "distribute-cpus-across-cores".into());
    let facts = whole("main", 2);
    let mut node = Node::new();
    let outcome = node.create(&asking, &facts);
    let running = made(facts, &asking, &outcome);
    let cpu = CpuOptions([CpuOption::FullPcpusOnly].into());
    let mut stricter = Node::with(Settings { policy: Policy { cpu, ..settings().policy }, ..settings() });

    let found = stricter.step(synchronize(&[&asking], &[&running]));

    assert!(found.updates.is_empty(), "{:?}", found.updates);
    assert_eq!(stricter.held(), 1);
}

/// The first node of the machine alone, with one GPU.
fn one_node() -> Topology {
    let mut topology = machine();
    topology.numa_nodes.truncate(1);
    topology.packages.truncate(1);
    topology.cores.truncate(2);
    topology.cpus = "0-3".parse().unwrap();
    topology.packages[0].cpus = topology.cpus.clone();
    topology.gpus.truncate(1);
    topology.gpus[0].numa_node = Some(NodeId(0));
    topology.nics = Vec::new();
    topology
}

/// How a container is made, and how again by a maitred that has not seen it, only what is remembered of it.
fn made_again(pod: &PodFacts, facts: &ContainerFacts) -> (Outcome, Outcome) {
    let mut owner = Settings { annotation_pool: AnnotationPool::All, ..settings() };
    owner.policy.scope = Scope::Pod;
    let first = Node::over(one_node(), owner.clone()).create(pod, facts);
    let hints = vec![Record::parse(edit(&first).record.as_ref().unwrap()).unwrap()];
    let mut fresh = Node::over(one_node(), owner);
    let (pods, containers) = (vec![pod.clone()], Vec::new());
    fresh.step(Event::Synchronize { pods, containers, observed: BTreeMap::new(), hints });
    (first, fresh.create(pod, facts))
}

/// On one node nothing is aligned, and what has stopped was seated there all the same.
#[test]
fn on_a_machine_of_one_node_a_stopped_container_gets_its_cpus_back() {
    let (first, again) = made_again(&pod("a"), &whole("a", 3));
    assert_eq!(edit(&again).cpus, edit(&first).cpus);
}

/// Nothing of it tells of a seat, and no other GPU is free.
#[test]
fn on_a_machine_of_one_node_a_stopped_container_of_the_pool_gets_its_gpu_back() {
    let (mut pod, facts) = small("a");
    pod.annotations.insert("gpus.maitred.io".into(), "1".into());
    let (first, again) = made_again(&pod, &facts);
    assert_eq!(edit(&first).env.len(), 1, "{first:?}");
    assert_eq!(edit(&again).env, edit(&first).env);
}
