use super::*;
use crate::decision::testing::{container, limits, machine, pod, settings, whole};
use proptest::prelude::*;

#[test]
fn the_cgroup_parent_tells_the_class() {
    for (parent, class) in [
        ("/kubepods/pod1234", Qos::Guaranteed),
        ("/kubepods/burstable/pod1234", Qos::Burstable),
        ("/kubelet/kubepods/besteffort/pod1234/", Qos::BestEffort),
        ("kubepods-pod1234_5.slice", Qos::Guaranteed),
        ("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12.slice", Qos::Burstable),
        ("kubepods-besteffort-pod12.slice", Qos::BestEffort),
        ("", Qos::Unknown),
        ("/user.slice", Qos::Unknown),
        ("/kubepods", Qos::Unknown),
        ("/podlike/kubepodsx/pod1", Qos::Unknown),
        ("/kubepods/other/pod1", Qos::Unknown),
    ] {
        assert_eq!(qos(parent), class, "{parent}");
    }
}

proptest! {
    #[test]
    fn shares_give_back_the_request(milli in 3u64..400_000) {
        prop_assert_eq!(cpu_milli(&limits(milli, 0)), milli);
        prop_assert!(quota_agrees(&limits(milli, 0), milli));
    }
}

#[test]
fn a_pods_own_limits_make_no_exclusive_container() {
    let mut facts = whole("main", 4);
    facts.resources.quota = Some(800_000);
    let understood = understand(&pod("a"), &facts, Moment::Making, &machine(), &settings()).unwrap();
    assert_eq!(understood.request.exclusive_cpus(), None);
}

#[test]
fn no_quota_leaves_the_shares_to_speak() {
    let mut facts = whole("main", 4);
    facts.resources.quota = Some(-1);
    let understood = understand(&pod("a"), &facts, Moment::Making, &machine(), &settings()).unwrap();
    assert_eq!(understood.request.exclusive_cpus(), Some(4));
}

#[test]
fn more_cpus_than_shares_can_say_are_asked_for_by_the_limit() {
    let most = |quota| Resources { shares: Some(262_144), ..Resources { quota, ..limits(1000, 0) } };
    assert_eq!(cpu_milli(&most(Some(38_400_000))), 384_000);
    assert_eq!(cpu_milli(&most(Some(25_600_000))), 256_000);
    assert_eq!(cpu_milli(&most(Some(-1))), 256_000);
    let mut facts = whole("main", 1);
    facts.resources = most(Some(38_400_000));
    let understood = understand(&pod("a"), &facts, Moment::Making, &machine(), &settings()).unwrap();
    assert_eq!(understood.request.exclusive_cpus(), Some(384));
}

#[test]
fn no_number_is_too_large() {
    for (shares, quota, period, memory) in [
        (u64::MAX, i64::MAX, u64::MAX, i64::MIN),
        (0, i64::MIN, 0, -1),
        (u64::MAX, -1, 1, i64::MAX),
        (3, 1, u64::MAX, 0),
    ] {
        let (quota, period, memory_limit) = (Some(quota), Some(period), Some(memory));
        let resources =
            Resources { shares: Some(shares), quota, period, memory_limit, ..Resources::default() };
        let facts = ContainerFacts { resources, ..container("main") };
        let understood = understand(&pod("a"), &facts, Moment::Making, &machine(), &settings()).unwrap();
        describe(&understood.request);
    }
}

#[test]
fn a_gpu_without_a_uuid_is_given_to_nobody() {
    let mut nameless = machine();
    nameless.gpus[3].uuid = None;
    let mut asking = pod("a");
    asking.annotations.insert("gpus.maitred.io".into(), "1".into());
    let open = Settings { annotation_pool: AnnotationPool::All, ..settings() };
    let error = understand(&asking, &container("main"), Moment::Making, &nameless, &open).unwrap_err();
    assert!(error.text.contains("the UUID of GPU 0000:23:00.0 is unknown"), "{error}");
}

#[test]
fn only_the_container_that_asks_for_gpus_counts_on_us_for_them() {
    let counts = |key: &str| {
        let mut asking = pod("a");
        asking.annotations.insert(key.into(), "1".into());
        counts_on_us(&asking, &container("main"))
    };
    assert!(counts("gpus.maitred.io") && counts("gpus.maitred.io/pod"));
    assert!(counts("gpus.maitred.io/container.main") && !counts("gpus.maitred.io/container.side"));
    assert!(!counts("gpus.maitred.iox"));
}

#[test]
fn hugepages_of_zero_bytes_are_not_asked_for() {
    let mut facts = whole("main", 4);
    facts.resources.hugepage_limits = vec![("1GB".into(), 0), ("2MB".into(), 32 << 20)];
    let understood = understand(&pod("a"), &facts, Moment::Making, &machine(), &settings()).unwrap();
    assert_eq!(understood.request.hugepages, BTreeMap::from([(HugepageSize::MIB2, Bytes(32 << 20))]));
    facts.resources.hugepage_limits = vec![("2XB".into(), 1)];
    let error = understand(&pod("a"), &facts, Moment::Making, &machine(), &settings()).unwrap_err();
    assert!(error.text.starts_with("hugepage limit: \"2XB\" is no hugepage size"), "{error}");
}

#[test]
fn gpus_by_annotation_need_the_owners_pool() {
    let mut asking = pod("a");
    asking.annotations.insert("gpus.maitred.io".into(), "2".into());
    let closed =
        understand(&asking, &container("main"), Moment::Making, &machine(), &settings()).unwrap_err();
    assert!(closed.text.contains("gpu.annotation_pool"), "{closed}");

    let open = Settings { annotation_pool: AnnotationPool::All, ..settings() };
    let understood = understand(&asking, &container("main"), Moment::Making, &machine(), &open).unwrap();
    assert_eq!(understood.request.devices[&GPU.into()], DeviceRequest::Count(2));

    let mut named = container("main");
    named.env = vec!["NVIDIA_VISIBLE_DEVICES=GPU-a".into()];
    let both = understand(&asking, &named, Moment::Making, &machine(), &open).unwrap_err();
    assert!(both.text.contains("already names GPU-a"), "{both}");
}

#[test]
fn exemptions() {
    let mut facts = container("main");
    facts.oom_score_adj = Some(-997);
    assert_eq!(exemption(&pod("a"), Some(&facts), &settings()), None);
    let mut burstable = pod("a");
    burstable.cgroup_parent = "/kubepods/burstable/poda".into();
    assert!(exemption(&burstable, Some(&facts), &settings()).unwrap().contains("node-critical"));
    let mut fixed = pod("a");
    fixed.annotations.insert(CONFIG_SOURCE.into(), "file".into());
    assert!(exemption(&fixed, None, &settings()).unwrap().contains("static pod"));
    fixed.annotations.insert(CONFIG_SOURCE.into(), "api".into());
    assert_eq!(exemption(&fixed, None, &settings()), None);
    let system = PodFacts { namespace: "kube-system".into(), ..pod("a") };
    assert!(exemption(&system, None, &settings()).unwrap().contains("kube-system"));
}
