//! Which GPUs are free for those who ask for them by annotation: what is given, named or used by others is not.

use super::*;

#[test]
fn devices_that_come_later_are_chosen_then() {
    let mut bare = machine();
    let gpus = std::mem::take(&mut bare.gpus);
    let mut node = Node::over(bare, Settings { annotation_pool: AnnotationPool::All, ..settings() });
    node.create(&pod("x"), &whole("x", 2));
    assert!(matches!(node.create(&asking("a", "1"), &whole("a", 2)).reply, Reply::Refuse(_)));
    let refreshed = Topology { gpus, ..machine() };
    node.step(Event::Devices(Box::new(refreshed)));
    assert_eq!(edit(&node.create(&asking("a", "1"), &whole("a", 1))).env[0].1, "GPU-a");
    assert_eq!(node.held(), 2, "what was held is held still");
}

#[test]
fn what_somebody_names_is_not_chosen_for_another() {
    let mut node = Node::with(Settings { annotation_pool: AnnotationPool::All, ..settings() });
    let (claimer_pod, claimer) = small("s");
    let claimer = on_gpu(claimer, "GPU-a");
    node.create(&claimer_pod, &claimer);
    assert_eq!(edit(&node.create(&asking("a", "1"), &whole("a", 1))).env[0].1, "GPU-b");
    let text = refusal(&node.create(&asking("b", "3"), &whole("b", 1)));
    assert!(text.contains("GPU GPU-a counts as in use: default/s/s names it"), "{text}");
    node.stop(&claimer_pod, &claimer);
    assert_eq!(edit(&node.create(&asking("c", "1"), &whole("c", 1))).env[0].1, "GPU-a");
}

#[test]
fn links_are_asked_for_by_annotation_or_by_the_owner() {
    let mut topology = machine();
    topology.gpus[2].nvlinks = BTreeMap::from([(3, 4)]);
    let open = Settings { annotation_pool: AnnotationPool::All, ..settings() };
    let mut node = Node::over(topology, open);
    let linked = |name: &str, gpus: &str| {
        let mut pod = asking(name, gpus);
        pod.annotations.insert("gpu-link.maitred.io".into(), "nvlink".into());
        pod
    };
    // Node 0 has two free GPUs as well, which nothing connects.
    assert_eq!(edit(&node.create(&linked("a", "2"), &whole("a", 2))).env[0].1, "GPU-c,GPU-d");
    let text = refusal(&node.create(&linked("b", "2"), &whole("b", 2)));
    assert!(text.contains("no 2 GPUs that NVLink connects with each other are free"), "{text}");
    assert_eq!(edit(&node.create(&linked("c", "1"), &whole("c", 1))).env[0].1, "GPU-a", "one needs no link");

    node.settings.gpus_linked = true;
    let (pod_d, d) = given(&mut node, "d", 1, &["GPU-a", "GPU-b"]);
    node.step(Event::StopPod(linked("c", "1")));
    let text = refusal(&node.create(&pod_d, &d));
    assert!(text.contains("no NVLink connects GPU GPU-a with GPU GPU-b"), "{text}");
}

#[test]
fn what_was_given_while_off_is_held_as_well() {
    let mut node = Node::with(Settings { annotation_pool: AnnotationPool::All, ..settings() });
    let (pod_b, b) = given(&mut node, "b", 1, &["GPU-a"]);
    node.settings.mode = Mode::Off;
    node.create(&pod_b, &b);
    node.settings.mode = Mode::Enforce;
    assert_eq!(edit(&node.create(&asking("a", "1"), &whole("a", 1))).env[0].1, "GPU-b");
}

#[test]
fn what_was_given_and_is_anothers_is_used_all_the_same() {
    let mut node = Node::with(Settings { annotation_pool: AnnotationPool::All, ..settings() });
    let (pod_a, a) = given(&mut node, "a", 1, &["GPU-a"]);
    node.create(&pod_a, &a);
    let (pod_b, b) = given(&mut node, "b", 1, &["GPU-a::0"]);
    node.settings.mode = Mode::Off;
    node.create(&pod_b, &b);
    node.settings.mode = Mode::Enforce;
    node.step(Event::StopPod(pod_a));
    assert_eq!(edit(&node.create(&asking("c", "1"), &whole("c", 1))).env[0].1, "GPU-b");
}

#[test]
fn what_is_named_by_hand_is_used_by_whoever_was_let_in_with_it() {
    let mut node = Node::with(Settings { annotation_pool: AnnotationPool::All, ..settings() });
    let (pod_s, s) = small("s");
    node.step(allotted(&pod_s, &[("s", "cpu", &[])]));
    node.settings.mode = Mode::Off;
    node.create(&pod_s, &on_gpu(s, "GPU-a"));
    node.settings.mode = Mode::Enforce;
    assert_eq!(edit(&node.create(&asking("a", "1"), &whole("a", 1))).env[0].1, "GPU-b");
}
