//! Whatever a runtime or a tenant says, there is an answer, and nothing of it outlives the pod.

use super::*;
use proptest::prelude::*;

prop_compose! {
    fn any_resources()(
        shares in any::<Option<u64>>(),
        quota in any::<Option<i64>>(),
        period in any::<Option<u64>>(),
        memory_limit in any::<Option<i64>>(),
        cpus in "[0-9,-]{0,8}|\\PC{0,8}",
        page in ("2MB|1GB|\\PC{0,4}", any::<u64>()),
        plain in any::<bool>(),
    ) -> Resources {
        let odd = Resources { shares, quota, period, memory_limit, cpus, mems: String::new(), hugepage_limits: vec![page], every_device: false };
        if plain { limits(2000, 1 << 30) } else { odd }
    }
}

proptest! {
    #[test]
    fn no_facts_panic_and_none_outlive_their_pod(
        key in "(policy|scope|gpus|memory-policy|exclusive|[a-z-]{0,8})(\\.maitred\\.io)?(/(pod|container\\.main|\\PC{0,4}))?",
        value in "none|pod|all|[0-9]{0,12}|false|\\PC{0,12}",
        env in "(NVIDIA_VISIBLE_DEVICES|PCIDEVICE_X|\\PC{0,6})=(all|GPU-a|0000:51:00.0|\\PC{0,20})",
        parent in "/kubepods(/burstable)?/pod\\PC{0,4}|\\PC{0,16}",
        resources in any_resources(),
        wanted in any_resources(),
    ) {
        let mut node = Node::with(Settings { annotation_pool: AnnotationPool::All, ..settings() });
        let mut pod = PodFacts { cgroup_parent: parent, resources: Some(resources.clone()), ..pod("a") };
        pod.annotations.insert(key, value);
        let facts = ContainerFacts { resources, env: vec![env], sandbox: pod.id.clone(), ..container("main") };
        node.step(Event::RunPod(pod.clone()));
        node.create(&pod, &facts);
        node.step(Event::Started(pod.clone(), facts.clone()));
        node.step(Event::Update(pod.clone(), facts.clone(), wanted));
        node.stop(&pod, &facts);
        node.create(&pod, &facts);
        node.step(Event::StopPod(pod.clone()));
        prop_assert_eq!(node.held(), 0);

        let (pods, containers) = (vec![pod], vec![facts]);
        node.step(Event::Synchronize { pods, containers, observed: BTreeMap::new(), hints: Vec::new() });
    }
}
