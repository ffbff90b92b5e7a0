//! What a container gets, or why it is refused.

use super::*;

#[test]
fn a_guaranteed_container_is_seated_whole() {
    let outcome = Node::new().create(&pod("a"), &on_gpu(whole("main", 4), "GPU-c"));
    let edit = edit(&outcome);
    assert_eq!(cpus(&outcome), "8-11");
    assert_eq!(edit.mems.as_ref().unwrap().to_string(), "2");
    assert!(edit.drop_quota && edit.record.is_some() && edit.env.is_empty());
    assert_eq!(outcome.verdicts[0].decision, Decision::Placed);
    assert_eq!(outcome.verdicts[0].request, "4 CPUs, 1Gi, nvidia.com/gpu GPU-c (claimed)");
}

#[test]
fn two_containers_never_share_a_cpu_and_the_fifth_is_refused() {
    let mut node = Node::new();
    let mut seen = CpuSet::new();
    for name in ["a", "b", "c"] {
        let outcome = node.create(&pod(name), &whole(name, 4));
        let got = edit(&outcome).cpus.clone().unwrap();
        assert!(seen.is_disjoint(&got) && got.len() == 4);
        seen = seen.union(&got);
    }
    let refused = node.create(&pod("d"), &whole("d", 4));
    let text = refusal(&refused);
    assert!(text.starts_with("TopologyAffinityError: container d: "), "{text}");
    assert!(text.contains("node 0 has 3 CPUs free"), "{text}");
    assert_eq!(node.held(), 3);
}

#[test]
fn gpus_by_annotation_are_chosen_and_written_by_uuid() {
    let mut node = Node::with(Settings { annotation_pool: AnnotationPool::All, ..settings() });
    let facts = on_gpu(whole("main", 2), "all");
    let first = node.create(&asking("a", "2"), &facts);
    assert_eq!(edit(&first).env, [("NVIDIA_VISIBLE_DEVICES".to_owned(), "GPU-a,GPU-b".to_owned())]);
    assert_eq!(cpus(&first), "2-3");
    let second = node.create(&asking("b", "2"), &facts);
    assert_eq!(edit(&second).env[0].1, "GPU-c,GPU-d");
    let third = node.create(&asking("c", "1"), &facts);
    assert!(refusal(&third).contains("GPU"), "{}", refusal(&third));
}

#[test]
fn a_pool_of_some_gpus_is_all_an_annotation_can_reach() {
    let pool = AnnotationPool::Only(["GPU-d".into()].into());
    let mut node = Node::with(Settings { annotation_pool: pool, ..settings() });
    let outcome = node.create(&asking("a", "all"), &whole("main", 2));
    assert_eq!(edit(&outcome).env[0].1, "GPU-d");
    assert!(cpus(&outcome).starts_with('8'), "{}", cpus(&outcome));
}

#[test]
fn a_name_in_the_environment_takes_no_gpu_from_another_pod() {
    for pool in [AnnotationPool::All, AnnotationPool::Only(["GPU-a".into()].into())] {
        let mut node = Node::with(Settings { annotation_pool: pool, ..settings() });
        assert_eq!(edit(&node.create(&asking("a", "1"), &whole("a", 1))).env[0].1, "GPU-a");
        // By UUID, by index, as a replica: all the same GPU.
        for name in ["GPU-a", "0", "GPU-a::1"] {
            let thief = node.create(&pod("b"), &on_gpu(whole("b", 1), name));
            assert!(refusal(&thief).contains(", which was given to default/a/a"), "{}", refusal(&thief));
        }
        let exporter = ContainerFacts { id: "id-x".into(), name: "x".into(), ..whole("x", 1) };
        let beside = node.create(&asking("a", "0"), &on_gpu(exporter, "GPU-a"));
        assert!(matches!(beside.reply, Reply::Adjust(_)), "a pod's own containers may share: {beside:?}");
        let other = node.create(&pod("c"), &on_gpu(whole("c", 1), "GPU-b"));
        assert!(matches!(other.reply, Reply::Adjust(_)), "{other:?}");
    }
}

/// A device plugin that shares a GPU gives each pod a replica of it; claims stand in no other's way.
#[test]
fn replicas_of_one_gpu_go_to_several_pods() {
    let mut node = Node::new();
    for (name, replica) in [("a", "GPU-c::0"), ("b", "GPU-c::1")] {
        let outcome = node.create(&pod(name), &on_gpu(whole(name, 2), replica));
        assert_eq!(edit(&outcome).mems.as_ref().unwrap().to_string(), "2");
    }
}

#[test]
fn every_gpu_by_an_images_env_is_said_and_left() {
    let mut node = Node::new();
    let (pod, facts) = small("s");
    let outcome = node.create(&pod, &on_gpu(facts, "all"));
    assert_eq!(outcome.reply, Reply::Nothing);
    assert!(outcome.verdicts[0].warn && outcome.verdicts[0].reason.contains("every GPU"));
}

#[test]
fn a_gpu_nobody_knows_is_not_aligned() {
    let outcome = Node::new().create(&pod("a"), &on_gpu(whole("main", 2), "GPU-gone"));
    assert!(refusal(&outcome).contains("GPU-gone"), "{}", refusal(&outcome));
}

#[test]
fn a_malformed_annotation_refuses_that_pod_only() {
    let mut node = Node::new();
    let mut bad = pod("a");
    bad.annotations.insert("gpus.maitred.io".into(), "two".into());
    let outcome = node.create(&bad, &whole("main", 2));
    assert!(refusal(&outcome).starts_with(
        "InvalidRequestError: container main: annotation \"gpus.maitred.io\" is \"two\": expected a number"
    ));
    assert_eq!(cpus(&node.create(&pod("b"), &whole("main", 4))), "4-7");
}

#[test]
fn a_record_nobody_but_us_can_have_written_is_refused() {
    let mut facts = whole("main", 2);
    facts.annotations.insert(RECORD_ANNOTATION.into(), "{}".into());
    assert!(refusal(&Node::new().create(&pod("a"), &facts)).contains("only maitred writes it"));
}

#[test]
fn opting_out_is_heard() {
    let mut shy = pod("a");
    shy.annotations.insert("exclusive.maitred.io".into(), "false".into());
    let outcome = Node::new().create(&shy, &whole("main", 4));
    assert_eq!(edit(&outcome).cpus, None);
    assert!(!edit(&outcome).drop_quota);
    assert!(edit(&outcome).mems.is_some(), "its memory is promised all the same");
}

#[test]
fn the_pinning_everyone_forgets() {
    let forgotten = |ineligible| {
        let mut node = Node::with(Settings { ineligible, ..settings() });
        let (pod, facts) = small("s");
        node.create(&pod, &on_gpu(facts, "GPU-c"))
    };
    let warned = forgotten(Ineligible::Warn);
    assert!(warned.verdicts[0].warn && warned.verdicts[0].reason.contains("not pinned"));
    assert_eq!(edit(&warned).cpus, None);
    assert_eq!(cpus(&forgotten(Ineligible::Align)), "8-11");
    assert!(refusal(&forgotten(Ineligible::Reject)).contains("policy.ineligible = reject"));
}

#[test]
fn opting_out_is_no_way_around_the_owners_rule() {
    let mut node = Node::with(Settings { ineligible: Ineligible::Reject, ..settings() });
    let mut shy = pod("a");
    shy.annotations.insert("exclusive.maitred.io".into(), "false".into());
    let outcome = node.create(&shy, &on_gpu(whole("main", 4), "GPU-c"));
    assert!(refusal(&outcome).contains("policy.ineligible = reject"));
    assert!(matches!(node.create(&shy, &whole("plain", 4)).reply, Reply::Adjust(_)));
}

#[test]
fn a_pods_own_quota_goes_with_its_last_shared_cpu() {
    let mut node = Node::new();
    let mut two = pod("a");
    two.resources = Some(limits(4000, 2 << 30));
    assert_eq!(node.create(&two, &whole("x", 2)).quotas, [] as [&str; 0]);
    assert_eq!(node.create(&two, &whole("y", 2)).quotas, ["/kubepods/poduid-a"]);
    let mut mixed = pod("b");
    mixed.resources = Some(limits(2500, 2 << 30));
    assert_eq!(node.create(&mixed, &whole("z", 2)).quotas, [] as [&str; 0]);
}

#[test]
fn a_pods_containers_sit_together() {
    let mut node = Node::new();
    node.settings.policy.scope = Scope::Pod;
    let mut together = pod("a");
    together.resources = Some(limits(4000, 2 << 30));
    node.step(Event::RunPod(together.clone()));
    let first = node.create(&together, &whole("x", 2));
    let second = node.create(&together, &whole("y", 2));
    assert_eq!(edit(&first).mems, edit(&second).mems);
    assert_eq!(
        edit(&first).mems.as_ref().unwrap().to_string(),
        "1",
        "the sum ranks: node 0 has room for one only"
    );
    let gpu = node.create(&together, &on_gpu(whole("z", 2), "GPU-c"));
    assert!(refusal(&gpu).contains("TopologyAffinityError"), "{}", refusal(&gpu));
}

#[test]
fn a_sandbox_is_refused_for_memory_only() {
    let mut node = Node::new();
    node.settings.policy.scope = Scope::Pod;
    let mut large = pod("a");
    large.resources = Some(limits(64_000, 2 << 30));
    assert_eq!(node.step(Event::RunPod(large.clone())).reply, Reply::Nothing);
    large.resources = Some(limits(1000, 9 << 30));
    let text = refusal(&node.step(Event::RunPod(large.clone())));
    assert!(text.starts_with("TopologyAffinityError: ") && text.contains("9Gi"), "{text}");
    large.namespace = "kube-system".into();
    assert_eq!(node.step(Event::RunPod(large)).reply, Reply::Nothing);
}

/// Node 0 has 64 pages of 2 MiB, of which a virtual machine on the host takes ever more.
#[test]
fn hugepages_that_are_used_beside_the_books_are_not_promised() {
    let place = (NodeId(0), HugepageSize::MIB2);
    let pages = |free: u64, used: &[(&str, u64)]| {
        let used = used.iter().map(|(id, pages)| ((*id).into(), [(place, Bytes(pages << 21))].into()));
        Event::Pages(Pages { free: [(place, Bytes(free << 21))].into(), in_use: used.collect() })
    };
    let asking = |name: &str, pages: u64| {
        let mut facts = on_gpu(whole(name, 1), "GPU-a");
        facts.resources.hugepage_limits = vec![("2MB".into(), pages << 21)];
        facts
    };
    let mut node = Node::new();
    node.step(pages(64, &[]));
    edit(&node.create(&pod("a"), &asking("a", 30)));
    // a uses none of its 30 yet: of 50 free ones 20 are to be had.
    node.step(pages(50, &[("id-a", 0)]));
    let short = node.create(&pod("b"), &asking("b", 21));
    assert!(refusal(&short).contains("node 0 has 20 hugepages of 2Mi"), "{}", refusal(&short));
    // a uses 25: of 25 free ones 5 are still a's.
    node.step(pages(25, &[("id-a", 25)]));
    edit(&node.create(&pod("b"), &asking("b", 20)));
    // A restart's own promise does not stand in its way.
    node.step(pages(25, &[("id-b", 0)]));
    node.stop(&pod("a"), &asking("a", 30));
    edit(&node.create(&pod("a"), &ContainerFacts { id: "id-a2".into(), ..asking("a", 30) }));
}

#[test]
fn a_quota_stays_where_the_owner_says_so() {
    let mut node = Node::with(Settings { drop_cfs_quota: false, ..settings() });
    let mut alone = pod("a");
    alone.resources = Some(limits(4000, 1 << 30));
    let outcome = node.create(&alone, &whole("main", 4));
    assert!(!edit(&outcome).drop_quota && outcome.quotas.is_empty());
    let throttled = node.step(Event::Update(alone, whole("main", 4), limits(4000, 1 << 30)));
    assert!(!edit(&throttled).drop_quota);
}

#[test]
fn reserved_namespaces_sit_on_the_reserved_cpus() {
    let mut node =
        Node::with(Settings { reserved_namespaces: ["monitoring".to_owned()].into(), ..settings() });
    let (pod_of_it, facts) = small("agent");
    let agent = PodFacts { namespace: "monitoring".into(), ..pod_of_it };
    assert_eq!(cpus(&node.create(&agent, &facts)), "0");
    assert_eq!(updates(&node.create(&pod("a"), &whole("a", 4))), [], "the pool is not its");
}

#[test]
fn a_malformed_variable_refuses_that_container_by_name() {
    let mut facts = whole("main", 2);
    facts.env = vec!["PCIDEVICE_VENDOR_COM_VF=51:00".into()];
    let text = refusal(&Node::new().create(&pod("a"), &facts));
    let start =
        "InvalidRequestError: container main: environment variable PCIDEVICE_VENDOR_COM_VF: \"51:00\" is no";
    assert!(text.starts_with(start), "{text}");
}

#[test]
fn cpu_options_by_annotation_govern_that_container_alone() {
    let mut node = Node::new();
    let mut asking = pod("a");
    asking.annotations.insert("cpu-options.maitred.io/container.main".into(), "full-pcpus-only".into());

    let odd = node.create(&asking, &whole("main", 3));
    let other = node.create(&asking, &whole("side", 1));
    let even = node.create(&asking, &whole("main", 2));

    assert_eq!(
        refusal(&odd),
        "SMTAlignmentError: container main: SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
    );
    assert_eq!((cpus(&other), cpus(&even)), ("1".into(), "2-3".into()));
    asking.annotations.insert("cpu-options.maitred.io".into(), "distribute-cpus-across-cores".into());
    let settings = Settings {
        policy: Policy { cpu: CpuOptions([CpuOption::FullPcpusOnly].into()), ..settings().policy },
        ..settings()
    };
    let refused = Node::with(settings).create(&asking, &whole("side", 2));
    assert!(
        refusal(&refused)
            .starts_with("InvalidRequestError: container side: annotation cpu-options.maitred.io names")
    );
}
