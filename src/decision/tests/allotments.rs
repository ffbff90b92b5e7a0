//! What the kubelet gave, for certain: fitted around, held, and nobody else's.

use super::*;

#[test]
fn what_the_kubelet_gave_is_held_by_name() {
    let mut node = Node::new();
    let (pod_a, a) = given(&mut node, "a", 2, &["GPU-c"]);
    let outcome = node.create(&pod_a, &a);
    assert_eq!(cpus(&outcome), "8-9");
    assert_eq!(outcome.verdicts[0].request, "2 CPUs, 1Gi, nvidia.com/gpu GPU-c");
    assert_eq!(held_gpus(&node, "a"), ["GPU-c"]);
    let (pod_b, b) = given(&mut node, "b", 2, &["2"]);
    let second = refusal(&node.create(&pod_b, &b));
    assert!(second.contains("GPU GPU-c is held by uid-a/a"), "{second}");
    node.step(Event::StopPod(pod_a));
    assert_eq!(cpus(&node.create(&pod_b, &b)), "8-9");
}

#[test]
fn naming_a_gpu_by_hand_is_no_way_to_it() {
    let mut node = Node::new();
    let (_, _) = given(&mut node, "a", 2, &["GPU-a"]);
    let (pod_b, _) = given(&mut node, "b", 2, &["GPU-b"]);
    // The owner has not been made yet; the kubelet's books tell whose it is all the same.
    let thief = refusal(&node.create(&pod_b, &on_gpu(whole("b", 2), "GPU-b,GPU-a")));
    assert!(thief.contains("it claims GPU GPU-a, which the kubelet gave to uid-a/a"), "{thief}");
    let greedy = refusal(&node.create(&pod_b, &on_gpu(whole("b", 2), "GPU-b,GPU-d")));
    assert!(greedy.contains("GPU-d, which the kubelet did not give it"), "{greedy}");
    node.step(allotted(&pod("none"), &[("none", "cpu", &[])]));
    let nothing = refusal(&node.create(&pod("none"), &on_gpu(whole("none", 2), "GPU-d")));
    assert!(nothing.contains("GPU-d, which the kubelet did not give it"), "{nothing}");
    // A pod of which the kubelet's books say nothing still cannot take what is another's.
    let unknown = refusal(&node.create(&pod("x"), &on_gpu(whole("x", 2), "GPU-a")));
    assert!(unknown.contains("GPU-a, which was given to uid-a/a"), "{unknown}");

    let mut privileged = on_gpu(whole("none", 2), "GPU-d");
    privileged.resources.every_device = true;
    assert!(matches!(node.create(&pod("none"), &privileged).reply, Reply::Adjust(_)), "it is left alone");
    let system = PodFacts { namespace: "kube-system".into(), ..pod("none") };
    let spared = node.create(&system, &on_gpu(whole("none", 2), "GPU-d"));
    assert_eq!(spared.verdicts[0].decision, Decision::Exempt);
}

#[test]
fn replicas_stand_beside_each_other_and_not_beside_the_whole() {
    let mut node = Node::new();
    for (name, replica) in [("a", "GPU-c::0"), ("b", "GPU-c::1")] {
        let (pod, _) = given(&mut node, name, 1, &[replica]);
        // The device plugin names the GPU itself, without the replica.
        let facts = on_gpu(whole(name, 1), "GPU-c");
        assert_eq!(edit(&node.create(&pod, &facts)).mems.as_ref().unwrap().to_string(), "2", "{name}");
        assert_eq!(held_gpus(&node, name), [replica]);
    }
    let (pod_c, c) = given(&mut node, "c", 1, &["GPU-c"]);
    assert!(refusal(&node.create(&pod_c, &c)).contains("GPU GPU-c is held by uid-a/a"));
    let (pod_d, d) = given(&mut node, "d", 1, &["GPU-c::1"]);
    assert!(refusal(&node.create(&pod_d, &d)).contains("held by uid-b/b"), "the same replica twice");
}

#[test]
fn all_replicas_of_one_gpu_are_one_gpus_worth_of_nodes() {
    let mut topology = machine();
    topology.gpus.retain(|gpu| gpu.index != 3);
    let mut node = Node::over(topology, settings());
    let (pod_a, a) = given(&mut node, "a", 1, &["GPU-c::0", "GPU-c::1"]);
    assert_eq!(edit(&node.create(&pod_a, &a)).mems.as_ref().unwrap().to_string(), "2");
}

#[test]
fn what_only_holds_devices_says_nothing_of_its_pods_nodes() {
    let mut node = Node::new();
    node.settings.policy.scope = Scope::Pod;
    let (pod_a, a) = given(&mut node, "a", 2, &["GPU-a", "GPU-c"]);
    let running = ContainerFacts { sandbox: pod_a.id.clone(), state: ContainerState::Running, ..a };
    node.step(synchronize(&[&pod_a], &[&running]));
    assert_eq!(held_gpus(&node, "a"), ["GPU-a", "GPU-c"]);
    assert_eq!(node.state.ledger().seat(&pod_a.uid), None);
}

#[test]
fn mig_siblings_share_their_gpus_place() {
    let mut topology = machine();
    let mig = |index: u32| Mig { index, uuid: format!("MIG-{index}"), instance: None };
    topology.gpus[2].mig = vec![mig(0), mig(1)];
    let mut node = Node::over(topology, settings());
    for (name, id) in [("a", "MIG-0"), ("b", "MIG-1")] {
        let pod = pod(name);
        node.step(allotted(&pod, &[(name, "nvidia.com/mig-1g.10gb", &[id])]));
        let outcome = node.create(&pod, &on_gpu(whole(name, 1), id));
        assert_eq!(edit(&outcome).mems.as_ref().unwrap().to_string(), "2", "{name}");
        assert_eq!(held_gpus(&node, name), [id]);
    }
    let (pod_c, c) = given(&mut node, "c", 1, &["GPU-c"]);
    assert!(refusal(&node.create(&pod_c, &c)).contains("held by uid-a/a"));
    // A part is no way to the whole.
    let pod_d = pod("d");
    node.step(allotted(&pod_d, &[("d", "nvidia.com/mig-1g.10gb", &["MIG-1"])]));
    let whole_of_it = refusal(&node.create(&pod_d, &on_gpu(whole("d", 1), "GPU-c")));
    assert!(whole_of_it.contains("GPU-c, which the kubelet gave to"), "{whole_of_it}");
}

#[test]
fn b_wins_once_all_of_a_has_stopped() {
    let mut node = Node::new();
    let (pod_a, a) = given(&mut node, "a", 2, &["GPU-c"]);
    node.create(&pod_a, &a);
    let (side_pod, side) = (pod_a.clone(), ContainerFacts { id: "id-side".into(), ..container("side") });
    node.create(&side_pod, &side);
    let (pod_b, b) = given(&mut node, "b", 2, &["GPU-c"]);
    node.stop(&pod_a, &a);
    assert!(refusal(&node.create(&pod_b, &b)).contains("held by uid-a/a"), "its sidecar still runs");
    node.stop(&side_pod, &side);
    assert_eq!(edit(&node.create(&pod_b, &b)).mems.as_ref().unwrap().to_string(), "2");
    assert_eq!((held_gpus(&node, "a"), held_gpus(&node, "b")), (vec![], vec!["GPU-c".to_owned()]));
    let again = ContainerFacts { id: "id-a2".into(), ..a };
    assert!(refusal(&node.create(&pod_a, &again)).contains("held by uid-b/b"));
}

#[test]
fn a_pod_whose_devices_are_apart_is_refused_before_any_of_it_is_made() {
    let mut node = Node::new();
    node.settings.policy.scope = Scope::Pod;
    node.step(allotted(
        &pod("a"),
        &[("x", "nvidia.com/gpu", &["GPU-a"]), ("y", "nvidia.com/gpu", &["GPU-c"])],
    ));
    let text = refusal(&node.step(Event::RunPod(pod("a"))));
    assert!(text.starts_with("TopologyAffinityError: no single NUMA node has 2 GPUs"), "{text}");
    node.settings.policy.topology = TopologyPolicy::BestEffort;
    assert_eq!(node.step(Event::RunPod(pod("a"))).reply, Reply::Nothing);
    // The first container sits where the second one's GPU is.
    node.settings.policy.topology = TopologyPolicy::SingleNumaNode;
    node.step(allotted(&pod("b"), &[("y", "nvidia.com/gpu", &["GPU-d"])]));
    assert_eq!(node.step(Event::RunPod(pod("b"))).reply, Reply::Nothing);
    assert_eq!(cpus(&node.create(&pod("b"), &whole("x", 2))), "8-9");
}

#[test]
fn a_container_that_podresources_leaves_out_is_an_init_container() {
    let mut node = Node::new();
    let podded = pod("a");
    node.step(allotted(&podded, &[("main", "nvidia.com/gpu", &["GPU-c"])]));
    let first = node.create(&podded, &ContainerFacts { id: "id-init".into(), ..whole("init", 4) });
    assert_eq!(cpus(&first), "4-7");
    node.stop(&podded, &ContainerFacts { id: "id-init".into(), ..whole("init", 4) });
    let key = ContainerKey::new(podded.uid.clone(), "init".into());
    assert_eq!(node.state.ledger().get(&key).unwrap().kind, ContainerKind::Init);
}

#[test]
fn what_the_machine_does_not_know_is_where_the_kubelet_says() {
    let mut node = Node::new();
    let nodes: Option<NodeSet> = Some("3".parse().unwrap());
    let devices = BTreeMap::from([
        ("example.com/fpga".into(), BTreeMap::from([("card7".to_owned(), nodes.clone())])),
        ("devices.kubevirt.io/kvm".into(), BTreeMap::from([("kvm1".to_owned(), None)])),
    ]);
    let containers = BTreeMap::from([("a".into(), Allotment { devices, ..Allotment::default() })]);
    let known = PodAllotment { source: AllotmentSource::Checkpoint, containers };
    node.step(Event::Allotted(pod("a").uid, known));
    assert_eq!(cpus(&node.create(&pod("a"), &whole("a", 2))), "12-13");
    // A GPU that came after the driver was read, and one of which nothing is known.
    let gone = |nodes| {
        let devices =
            BTreeMap::from([("nvidia.com/gpu".into(), BTreeMap::from([("GPU-new".to_owned(), nodes)]))]);
        let containers = BTreeMap::from([("b".into(), Allotment { devices, ..Allotment::default() })]);
        Event::Allotted(pod("b").uid, PodAllotment { source: AllotmentSource::PodResources, containers })
    };
    node.step(gone(None));
    let unknown = refusal(&node.create(&pod("b"), &on_gpu(whole("b", 2), "GPU-new")));
    assert!(unknown.contains("the NUMA node of GPU GPU-new is unknown"), "{unknown}");
    node.step(gone(Some("1".parse().unwrap())));
    assert_eq!(cpus(&node.create(&pod("b"), &on_gpu(whole("b", 2), "GPU-new"))), "4-5");
}

#[test]
fn the_pinning_everyone_forgets_is_seen_by_what_was_given() {
    let forgotten = |ineligible, milli: u64, parent: &str| {
        let mut node = Node::with(Settings { ineligible, ..settings() });
        let pod = PodFacts { cgroup_parent: parent.into(), ..pod("s") };
        node.step(allotted(&pod, &[("s", "nvidia.com/gpu", &["GPU-c"])]));
        // No environment names it: it comes by CDI, of which this runtime shows nothing.
        let resources = limits(milli, 1 << 30);
        let facts = ContainerFacts { resources, oom_score_adj: Some(900), ..container("s") };
        let outcome = node.create(&pod, &facts);
        assert!(held_gpus(&node, "s") == ["GPU-c"] || matches!(outcome.reply, Reply::Refuse(_)));
        outcome
    };
    for (milli, parent) in [(100, "/kubepods/burstable/pods"), (1500, "/kubepods/pods")] {
        let warned = forgotten(Ineligible::Warn, milli, parent);
        assert!(warned.verdicts[0].warn && warned.verdicts[0].reason.contains("not pinned"), "{parent}");
        assert_eq!(edit(&warned).cpus, None);
        assert_eq!(cpus(&forgotten(Ineligible::Align, milli, parent)), "8-11");
        let text = refusal(&forgotten(Ineligible::Reject, milli, parent));
        assert!(text.contains("asks for") && text.contains("nvidia.com/gpu GPU-c"), "{text}");
        assert!(text.contains("policy.ineligible = reject"), "{text}");
    }
}

#[test]
fn an_undecided_container_with_devices_counts_on_us() {
    let (small_pod, small) = small("s");
    let Event::Allotted(_, known) = allotted(&small_pod, &[("s", "nvidia.com/gpu", &["GPU-a"])]) else {
        panic!()
    };
    let event = Event::Create(small_pod, small);
    assert!(matches!(failure(&event, Some(&known), &settings(), "late").reply, Reply::Refuse(_)));
    assert_eq!(failure(&event, None, &settings(), "late").reply, Reply::Nothing);
}

#[test]
fn gpus_stay_whose_they_are_when_the_daemon_comes_back() {
    let mut node = Node::new();
    let (pod_a, a) = given(&mut node, "a", 2, &["GPU-c::0"]);
    let (burst_pod, burst) = {
        let (pod, facts) = small("s");
        node.step(allotted(&pod, &[("s", "nvidia.com/gpu", &["GPU-a"])]));
        (pod, on_gpu(facts, "GPU-a"))
    };
    let made_a = made(a.clone(), &pod_a, &node.create(&pod_a, &a));
    // It ran before maitred did: nothing of it is recorded.
    let mut before = burst.clone();
    (before.sandbox, before.state) = (burst_pod.id.clone(), ContainerState::Running);
    let mut back = Node::new();
    for name in ["a", "s"] {
        let (pod, ids) = if name == "a" { (&pod_a, ["GPU-c::0"]) } else { (&burst_pod, ["GPU-a"]) };
        back.step(allotted(pod, &[(name, "nvidia.com/gpu", &ids)]));
    }
    back.step(synchronize(&[&pod_a, &burst_pod], &[&made_a, &before]));
    assert_eq!(
        (held_gpus(&back, "a"), held_gpus(&back, "s")),
        (vec!["GPU-c::0".into()], vec!["GPU-a".into()])
    );
    // Told after the fact it is the same.
    let mut late = Node::new();
    late.step(synchronize(&[&burst_pod], &[&before]));
    assert_eq!(held_gpus(&late, "s"), [] as [&str; 0]);
    late.step(allotted(&burst_pod, &[("s", "nvidia.com/gpu", &["GPU-a"])]));
    assert_eq!(held_gpus(&late, "s"), ["GPU-a"]);
    late.step(Event::StopPod(burst_pod));
    assert_eq!(late.held(), 0);
}

#[test]
fn nothing_for_nothing() {
    let hide = Settings { unrequested: Unrequested::Hide, ..settings() };
    let mut node = Node::with(hide);
    let void = [("NVIDIA_VISIBLE_DEVICES".to_owned(), "void".to_owned())];
    let (pod_s, s) = small("s");
    let outcome = node.create(&pod_s, &on_gpu(s, "all"));
    assert_eq!(edit(&outcome).env, void);
    assert!(!outcome.verdicts[0].warn && outcome.verdicts[0].reason.contains("hidden from it"));
    assert_eq!(edit(&node.create(&pod("a"), &on_gpu(whole("a", 2), "all"))).env, void, "pinned ones too");
    let (pod_p, mut p) = small("p");
    p.resources.every_device = true;
    assert_eq!(edit(&node.create(&pod_p, &on_gpu(p, "all"))).env, [], "privileged");
    let (pod_e, e) = small("e");
    let exempt = PodFacts { namespace: "kube-system".into(), ..pod_e };
    assert_eq!(edit(&node.create(&exempt, &on_gpu(e, "all"))).env, [], "exempt");
    let (pod_g, g) = small("g");
    node.step(allotted(&pod_g, &[("g", "nvidia.com/gpu", &["GPU-a"])]));
    let own = [("NVIDIA_VISIBLE_DEVICES".to_owned(), "GPU-a".to_owned())];
    assert_eq!(edit(&node.create(&pod_g, &on_gpu(g, "all"))).env, own, "it was given one");
    let (pod_r, r) = small("r");
    node.step(allotted(&pod_r, &[("r", "nvidia.com/gpu", &["GPU-b::2", "GPU-b::3"])]));
    assert_eq!(edit(&node.create(&pod_r, &on_gpu(r, "GPU-b,ALL"))).env[0].1, "GPU-b", "replicas, and more");
    let (pod_l, mut l) = small("l");
    l.env = vec!["CUDA_VERSION=8.0.61".into()];
    assert_eq!(edit(&node.create(&pod_l, &l)).env, void, "an image that does not know the variable");

    node.settings.unrequested = Unrequested::Leave;
    node.step(Event::StopPod(pod_g.clone()));
    node.step(allotted(&pod_g, &[("g", "nvidia.com/gpu", &["GPU-a"])]));
    let outcome = node.create(&pod_g, &on_gpu(small("g").1, "all"));
    assert_eq!(edit(&outcome).env, []);
    assert!(outcome.verdicts[0].warn && outcome.verdicts[0].reason.contains("every GPU, not only its own"));
}

#[test]
fn gpus_that_a_claim_of_dra_brings_are_not_the_plugins() {
    let mut topology = machine();
    let name = "k8s.gpu.nvidia.com/claim=1-gpu-0".to_owned();
    // The minor number of GPU-a is 1.
    topology.cdi.insert(name.clone(), vec!["/dev/nvidia1".into()]);
    let mut node = Node::over(topology, settings());
    let mut facts = whole("a", 2);
    facts.devices = vec![DeviceNode { path: "/dev/nvidia1".into(), major: 195, minor: 1 }];
    let by_claim = |names: Vec<String>| {
        let one = Allotment { cdi_devices: names.into_iter().collect(), ..Allotment::default() };
        let containers = BTreeMap::from([("a".into(), one)]);
        Event::Allotted(pod("a").uid, PodAllotment { source: AllotmentSource::PodResources, containers })
    };
    node.step(by_claim(vec![]));
    assert!(refusal(&node.create(&pod("a"), &facts)).contains("the kubelet did not give it"));
    for names in [vec![name], vec!["vendor.com/unread=1".into()]] {
        node.step(by_claim(names));
        assert_eq!(edit(&node.create(&pod("a"), &facts)).mems.as_ref().unwrap().to_string(), "0");
    }
}

#[test]
fn a_record_counts_though_the_runtime_does_not_show_what_was_given() {
    let mut node = Node::new();
    let (pod_a, _) = given(&mut node, "a", 2, &["GPU-a::0"]);
    // It comes by CDI, of which this runtime shows nothing.
    let hidden = whole("a", 2);
    let running = made(hidden.clone(), &pod_a, &node.create(&pod_a, &hidden));
    // Let in while no decision came in time, with what the plugin offers side by side.
    let (pod_b, b) = given(&mut node, "b", 2, &["GPU-a"]);
    let beside = ContainerFacts { sandbox: pod_b.id.clone(), state: ContainerState::Running, ..b };
    let mut back = Node::new();
    given(&mut back, "a", 2, &["GPU-a::0"]);
    given(&mut back, "b", 2, &["GPU-a"]);
    back.step(synchronize(&[&pod_b, &pod_a], &[&beside, &running]));
    assert_eq!((held_gpus(&back, "a"), held_gpus(&back, "b")), (vec!["GPU-a::0".to_owned()], vec![]));
}

/// A sandbox dies untold, and the kubelet's books are read for the next one of its pod before that is found out.
#[test]
fn a_pods_next_sandbox_has_what_the_kubelet_gave_it() {
    let mut node = Node::new();
    let (pod_a, a) = given(&mut node, "a", 2, &["GPU-c"]);
    node.create(&pod_a, &a);
    let next = PodFacts { id: "sandbox-next".into(), ..pod_a.clone() };
    let sandboxes = vec![pod_a.id];
    node.step(Event::Ended { sandboxes: sandboxes.clone(), before: next.uid.clone() });
    assert_eq!(node.held(), 0);
    node.step(Event::RunPod(next.clone()));
    let thief = refusal(&node.create(&pod("x"), &on_gpu(whole("x", 2), "GPU-c")));
    assert!(thief.contains("GPU-c, which was given to default/a/a"), "{thief}");
    assert_eq!(cpus(&node.create(&next, &ContainerFacts { sandbox: next.id.clone(), ..a })), "8-9");
    assert_eq!(held_gpus(&node, "a"), ["GPU-c"]);

    // Of a pod that does not go on nothing stays.
    node.step(Event::Ended { sandboxes: vec![next.id], before: pod("x").uid });
    assert_eq!(cpus(&node.create(&pod("x"), &on_gpu(whole("x", 2), "GPU-c"))), "8-9");
}
