//! Memory policies on their way, and huge pages that the runtime hides.

use super::*;

fn launched(name: &str, calls: PolicyCalls) -> ContainerFacts {
    ContainerFacts { args: vec!["serve".into()], policy_calls: calls, ..whole(name, 2) }
}

fn with(features: Features) -> Settings {
    Settings { features, launcher: Some("/run/maitred/launcher".into()), ..settings() }
}

fn wishing(mode: &str) -> PodFacts {
    let mut pod = pod("a");
    pod.annotations.insert("memory-policy.maitred.io".into(), mode.into());
    pod
}

#[test]
fn a_policy_is_recorded_as_it_is_delivered_and_logged_with_its_way() {
    let mut node = Node::with(with(Features { memory_policy: true, ..Features::default() }));
    let outcome = node.create(&pod("a"), &whole("a", 2));
    let policy = MemoryPolicy { mode: MemoryMode::Bind, nodes: edit(&outcome).mems.clone().unwrap() };
    assert_eq!(edit(&outcome).memory_policy.as_ref(), Some(&policy));
    assert_eq!(edit(&outcome).delivery, Some(Delivery::Native));
    assert_eq!(outcome.verdicts[0].memory_policy, Some(format!("{policy} native")));
    let record = Record::parse(edit(&outcome).record.as_ref().unwrap()).unwrap();
    assert_eq!(record.placement().policy, Some(policy));
}

#[test]
fn a_wish_for_a_mode_is_followed_and_none_leaves_the_kernels_default() {
    let native = || Node::with(with(Features { memory_policy: true, ..Features::default() }));
    let outcome = native().create(&wishing("local"), &whole("a", 2));
    assert_eq!(edit(&outcome).memory_policy.as_ref().unwrap().to_string(), "local");
    let outcome = native().create(&wishing("none"), &whole("a", 2));
    let Edit { memory_policy, delivery, mems, .. } = edit(&outcome);
    assert_eq!((memory_policy, delivery), (&None, &None));
    assert!(mems.is_some(), "the limit stays");
}

/// The owner wants the cpuset alone: a tenant's wish for a mode brings no policy either.
#[test]
fn by_cpuset_alone_no_wish_brings_a_policy() {
    let native = Features { memory_policy: true, ..Features::default() };
    let mut node = Node::with(Settings { delivery: Some(Delivery::Cpuset), ..with(native) });
    let outcome = node.create(&wishing("interleave"), &whole("a", 2));
    assert_eq!((&edit(&outcome).memory_policy, edit(&outcome).delivery), (&None, Some(Delivery::Cpuset)));
    assert!(edit(&outcome).mems.is_some());
}

#[test]
fn a_way_that_cannot_be_gone_refuses_and_holds_nothing() {
    let mut node = Node::with(Settings { delivery: Some(Delivery::Launcher), ..with(Features::default()) });
    let text = refusal(&node.create(&pod("a"), &launched("a", PolicyCalls::Allowed)));
    assert!(text.contains("memory.delivery = \"launcher\" cannot be followed"), "{text}");
    assert_eq!(node.held(), 0);
    // An exempt container is never refused, and one without a place of its own has nothing to be delivered.
    let system = PodFacts { namespace: "kube-system".into(), ..pod("s") };
    assert!(!matches!(node.create(&system, &whole("s", 2)).reply, Reply::Refuse(_)));
    let (small_pod, small) = small("b");
    assert!(!matches!(node.create(&small_pod, &small).reply, Reply::Refuse(_)));
}

/// A pod whose cgroup allows that many MiB of 2 MiB pages, and one of its containers, which mounts them or does not.
fn hidden(name: &str, mebibytes: u64, mounts: bool) -> ContainerFacts {
    let hugepages = HugepageHints {
        of_pod: [(HugepageSize::MIB2, Bytes(mebibytes << 20))].into(),
        mounted: mounts.then_some(HugepageSize::MIB2).into_iter().collect(),
    };
    ContainerFacts { hugepages, ..whole(name, 1) }
}

fn promised(node: &Node, name: &str) -> u64 {
    let key = ContainerKey::new("uid-p".into(), name.into());
    let blocks = node.state.ledger().get(&key).map(|holding| holding.placement.memory.clone());
    let huge = |block: &&MemoryBlock| block.kind == MemoryKind::Hugepages(HugepageSize::MIB2);
    blocks.unwrap_or_default().iter().filter(huge).map(|block| block.bytes.0 >> 20).sum()
}

fn annotated(pairs: &[(&str, &str)]) -> PodFacts {
    let mut pod = pod("p");
    pod.annotations = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    pod
}

#[test]
fn a_hidden_limit_is_the_pods_for_the_container_that_mounts_the_pages() {
    let mut node = Node::new();
    node.create(&pod("p"), &hidden("side", 32, false));
    node.create(&pod("p"), &hidden("main", 32, true));
    node.create(&pod("p"), &hidden("other", 32, true));
    assert_eq!(promised(&node, "side"), 0);
    assert_eq!(promised(&node, "main"), 32);
    assert_eq!(promised(&node, "other"), 0, "nothing is promised twice");
    // The container comes again, and its own promise is not in its way.
    node.create(&pod("p"), &ContainerFacts { id: "id-again".into(), ..hidden("main", 32, true) });
    assert_eq!(promised(&node, "main"), 32);
}

#[test]
fn an_annotation_tells_which_container_gets_how_much() {
    let key = "hugepages-2Mi.maitred.io/container.late";
    let pod = annotated(&[(key, "16Mi")]);
    let mut node = Node::new();
    node.create(&pod, &hidden("early", 32, true));
    node.create(&pod, &hidden("late", 32, true));
    assert_eq!((promised(&node, "early"), promised(&node, "late")), (0, 16));
}

/// A program can map huge pages without any mount: nobody is to think that they were promised.
#[test]
fn a_container_that_shows_no_pages_of_its_pods_is_said_to_have_none_promised() {
    let mut node = Node::new();
    let early = node.create(&pod("p"), &hidden("early", 32, false));
    let line = &early.verdicts[0];
    assert!(line.warn && promised(&node, "early") == 0);
    let text = "; 32Mi of its pod's 2Mi pages are promised to no container: it mounts none (annotation \
                hugepages-SIZE.maitred.io says how much is its own)";
    assert!(line.reason.ends_with(text), "{}", line.reason);
    let main = node.create(&pod("p"), &hidden("main", 32, true));
    assert!(!main.verdicts[0].warn, "{}", main.verdicts[0].reason);
    let late = node.create(&pod("p"), &hidden("late", 32, false));
    assert!(!late.verdicts[0].warn, "all of them are promised: {}", late.verdicts[0].reason);
}

#[test]
fn an_annotation_asks_for_no_more_than_the_pod_has() {
    let mut node = Node::new();
    let text =
        refusal(&node.create(&annotated(&[("hugepages-2Mi.maitred.io", "64Mi")]), &hidden("a", 32, false)));
    assert!(
        text.contains("asks for 64Mi: the pod's limit is 32Mi, and other containers of it have 0"),
        "{text}"
    );
    let both = annotated(&[("hugepages-2Mi.maitred.io", "20Mi")]);
    node.create(&both, &hidden("a", 32, false));
    let text = refusal(&node.create(&both, &hidden("b", 32, false)));
    assert!(text.contains("have 20Mi of that"), "{text}");
    // Where no limit is known nothing keeps it from its pages, and the promise is honest.
    let mut unknown = whole("c", 1);
    unknown.resources.cpus = String::new();
    let mut node = Node::new();
    node.create(&annotated(&[("hugepages-2Mi.maitred.io", "64Mi")]), &unknown);
    assert_eq!(promised(&node, "c"), 64);
}

#[test]
fn a_limit_that_is_shown_is_the_limit() {
    let mut facts = hidden("main", 128, true);
    facts.resources.hugepage_limits = vec![("2MB".into(), 8 << 20)];
    let mut node = Node::new();
    node.create(&pod("p"), &facts);
    assert_eq!(promised(&node, "main"), 8);
    let asks = |amount| annotated(&[("hugepages-2Mi.maitred.io", amount)]);
    let text = refusal(&Node::new().create(&asks("16Mi"), &facts));
    assert!(text.contains("annotation hugepages-2Mi.maitred.io asks for 16Mi, its limit is 8Mi"), "{text}");
    let mut node = Node::new();
    node.create(&asks("4Mi"), &facts);
    assert_eq!(promised(&node, "main"), 8);
}

/// 128 MiB of pages a node; all that is really free is 8 MiB on node 1.
#[test]
fn hidden_pages_are_promised_only_where_they_are_free() {
    let mut node = Node::new();
    let place = |id, mebibytes: u64| ((NodeId(id), HugepageSize::MIB2), Bytes(mebibytes << 20));
    let free = [place(0, 0), place(1, 8), place(2, 0), place(3, 0)].into();
    let unused = [place(0, 0), place(1, 0), place(2, 0), place(3, 0)].into();
    node.step(Event::Pages(Pages { free, in_use: [("id-main".into(), unused)].into() }));
    let placed = node.create(&pod("p"), &hidden("main", 8, true));
    assert_eq!(edit(&placed).mems.as_ref().unwrap().to_string(), "1");
    let text = refusal(&node.create(&pod("q"), &hidden("q", 8, true)));
    assert!(text.starts_with("TopologyAffinityError"), "{text}");
}

/// Before Linux 5.16 nobody tells who uses how much where: no more than is free, and no more than the books leave.
#[test]
fn where_no_use_is_told_the_books_and_the_free_pages_decide() {
    let place = |id, mebibytes: u64| ((NodeId(id), HugepageSize::MIB2), Bytes(mebibytes << 20));
    let on_node_1 = |mebibytes| {
        let free = [place(0, 0), place(1, mebibytes), place(2, 0), place(3, 0)].into();
        Event::Pages(Pages { free, ..Pages::default() })
    };
    let mut node = Node::new();
    node.step(on_node_1(128));
    assert_eq!(
        edit(&node.create(&pod("p"), &hidden("main", 120, true))).mems.as_ref().unwrap().to_string(),
        "1"
    );
    // All are free still: it may not have touched any.
    let text = refusal(&node.create(&pod("q"), &hidden("q", 16, true)));
    assert!(text.starts_with("TopologyAffinityError"), "{text}");
    // What is free by now may be what the books have left, and is given; no more.
    node.step(on_node_1(8));
    let text = refusal(&node.create(&pod("r"), &hidden("r", 10, true)));
    assert!(text.starts_with("TopologyAffinityError"), "{text}");
    assert_eq!(edit(&node.create(&pod("s"), &hidden("s", 8, true))).mems.as_ref().unwrap().to_string(), "1");
}

#[test]
fn one_gibibyte_pages_are_promised_as_well() {
    let mut facts = whole("main", 1);
    facts.hugepages.of_pod = [(HugepageSize::GIB1, Bytes(1 << 30))].into();
    facts.hugepages.mounted = [HugepageSize::GIB1].into();
    // This machine has none of them.
    let text = refusal(&Node::new().create(&pod("p"), &facts));
    assert!(text.contains("1Gi"), "{text}");
}
