//! From what a runtime shows of a container to what it asks for.

use super::allotted::{Known, requested};
use super::annotated::{self, POOLED_GPU, Understood, invalid};
use super::{Settings, devices, encoded};
use crate::engine::GPU;
use crate::model::{
    Bytes, ContainerFacts, ContainerKind, ContainerRequest, DeviceRequest, PodFacts, Qos, Rejection, Topology,
};
use std::collections::{BTreeMap, BTreeSet};

/// The kubelet writes it and tenants cannot forge it: where the pod came from.
const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// What the kubelet gives node-critical containers; Guaranteed pods have it too.
const NODE_CRITICAL_OOM: i64 = -997;

/// When a container is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// It is about to be made: what its environment says was not written by us.
    Making,
    /// It runs: GPUs in its environment may be those we chose for its annotation.
    Running,
}

/// Why a container is never refused, if it is so.
pub(super) fn exemption(
    pod: &PodFacts,
    container: Option<&ContainerFacts>,
    settings: &Settings,
) -> Option<String> {
    let source = pod.annotations.get(CONFIG_SOURCE).map(String::as_str);
    let critical = container.and_then(|c| c.oom_score_adj).is_some_and(|score| score <= NODE_CRITICAL_OOM);
    if let Some(source) = source.filter(|source| *source != "api") {
        return Some(format!("a static pod (from {source})"));
    }
    let critical = critical && encoded::qos(&pod.cgroup_parent) != Qos::Guaranteed;
    let by_owner = settings.exempt.why(&pod.namespace, &pod.runtime_handler);
    by_owner.or_else(|| critical.then(|| "node-critical by its oom score".to_owned()))
}

/// Understands one container of a pod; what cannot be followed is a refusal that names it.
pub(super) fn understand(
    pod: &PodFacts,
    container: &ContainerFacts,
    moment: Moment,
    known: Known<'_>,
    topology: &Topology,
    settings: &Settings,
) -> Result<Understood, Box<Rejection>> {
    let name = &container.name;
    let wishes = annotated::wishes(&pod.annotations, &pod.namespace, name, moment, settings);
    let mut wishes = wishes.map_err(|error| invalid(name, error.to_string()))?;
    let claims = devices::claims(container, topology).map_err(|error| invalid(name, error.to_string()))?;
    let hugepages = encoded::hugepages(&container.resources).map_err(|text| invalid(name, text))?;
    let every_gpu = claims.every_gpu && wishes.gpus.is_none();
    let claimed_gpus = claims.gpus().cloned().unwrap_or_default();
    if moment == Moment::Running && claims.gpus().is_some() {
        wishes.gpus = None;
    }
    let claimed = claims.devices.into_iter().map(|(resource, ids)| (resource, DeviceRequest::Claimed(ids)));
    let mut devices: BTreeMap<_, _> = claimed.collect();
    let (exact, granted) = (known.exact(topology), known.granted(topology));
    let certain = exact.is_some() && granted.is_some();
    // A privileged container may use what it finds; of all others the kubelet's books are the whole truth.
    if certain && !container.resources.every_device {
        let ours = granted.unwrap_or_default().intersection(&claimed_gpus).cloned().collect::<BTreeSet<_>>();
        match ours.is_empty() {
            true => drop(devices.remove(&GPU.into())),
            false => drop(devices.insert(GPU.into(), DeviceRequest::Claimed(ours))),
        }
    }
    devices.extend(exact.iter().flat_map(requested));
    let request = ContainerRequest { kind: known.kind(), hugepages, devices, ..limits(pod, container) };
    let understood = annotated::follow(wishes, &pod.namespace, request, (topology, moment), settings)?;
    Ok(Understood { every_gpu, claimed_gpus, certain, ..understood })
}

/// What a container's CPU and memory limits alone ask for.
pub(super) fn limits(pod: &PodFacts, container: &ContainerFacts) -> ContainerRequest {
    let milli = encoded::cpu_milli(&container.resources);
    let memory = container.resources.memory_limit.and_then(|limit| u64::try_from(limit).ok());
    let qos = encoded::qos(&pod.cgroup_parent);
    ContainerRequest {
        cpu_milli: milli,
        memory: Bytes(memory.unwrap_or(0)),
        opt_out: !encoded::quota_agrees(&container.resources, milli),
        ..ContainerRequest::nothing(container.name.clone(), ContainerKind::Unknown, qos)
    }
}

/// Whether a container counts on us by its class and shares, or by asking us for GPUs: what must not start
/// without a decision.
pub(super) fn counts_on_us(pod: &PodFacts, container: &ContainerFacts) -> bool {
    let milli = encoded::cpu_milli(&container.resources);
    let agrees = encoded::quota_agrees(&container.resources, milli);
    let whole = milli > 0 && milli.is_multiple_of(1000) && agrees;
    let asks = pod.annotations.keys().any(|key| match key.strip_prefix(POOLED_GPU) {
        Some("" | "/pod") => true,
        Some(suffix) => suffix.strip_prefix("/container.") == Some(container.name.as_str()),
        None => false,
    });
    asks || (whole && encoded::qos(&pod.cgroup_parent) == Qos::Guaranteed)
}

#[cfg(test)]
mod tests {
    use super::super::AnnotationPool;
    use super::super::testing::{container, machine, pod, settings, whole};
    use super::super::words::describe;
    use super::*;
    use crate::model::{HugepageSize, Resources};

    #[test]
    fn a_pods_own_limits_make_no_exclusive_container() {
        let mut facts = whole("main", 4);
        facts.resources.quota = Some(800_000);
        let understood =
            understand(&pod("a"), &facts, Moment::Making, Known::Nothing, &machine(), &settings()).unwrap();
        assert_eq!(understood.request.exclusive_cpus(), None);
    }

    #[test]
    fn no_quota_leaves_the_shares_to_speak() {
        let mut facts = whole("main", 4);
        facts.resources.quota = Some(-1);
        let understood =
            understand(&pod("a"), &facts, Moment::Making, Known::Nothing, &machine(), &settings()).unwrap();
        assert_eq!(understood.request.exclusive_cpus(), Some(4));
    }

    #[test]
    fn hugepages_of_zero_bytes_are_not_asked_for() {
        let mut facts = whole("main", 4);
        facts.resources.hugepage_limits = vec![("1GB".into(), 0), ("2MB".into(), 32 << 20)];
        let understood =
            understand(&pod("a"), &facts, Moment::Making, Known::Nothing, &machine(), &settings()).unwrap();
        assert_eq!(understood.request.hugepages, BTreeMap::from([(HugepageSize::MIB2, Bytes(32 << 20))]));
        facts.resources.hugepage_limits = vec![("2XB".into(), 1)];
        let error = understand(&pod("a"), &facts, Moment::Making, Known::Nothing, &machine(), &settings())
            .unwrap_err();
        assert!(error.text.starts_with("hugepage limit: \"2XB\" is no hugepage size"), "{error}");
    }

    #[test]
    fn gpus_by_annotation_need_the_owners_pool() {
        let mut asking = pod("a");
        asking.annotations.insert("gpus.maitred.io".into(), "2".into());
        let closed =
            understand(&asking, &container("main"), Moment::Making, Known::Nothing, &machine(), &settings())
                .unwrap_err();
        assert!(closed.text.contains("gpu.annotation_pool"), "{closed}");

        let open = Settings { annotation_pool: AnnotationPool::All, ..settings() };
        let understood =
            understand(&asking, &container("main"), Moment::Making, Known::Nothing, &machine(), &open)
                .unwrap();
        assert_eq!(understood.request.devices[&GPU.into()], DeviceRequest::Count(2));

        let mut named = container("main");
        named.env = vec!["NVIDIA_VISIBLE_DEVICES=GPU-a".into()];
        let both =
            understand(&asking, &named, Moment::Making, Known::Nothing, &machine(), &open).unwrap_err();
        assert!(both.text.contains("already names GPU-a"), "{both}");
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
            let understood =
                understand(&pod("a"), &facts, Moment::Making, Known::Nothing, &machine(), &settings())
                    .unwrap();
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
        let error = understand(&asking, &container("main"), Moment::Making, Known::Nothing, &nameless, &open)
            .unwrap_err();
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
        let mut by_handler = settings();
        by_handler.exempt.runtime_handlers.insert("kata".into());
        let kata = PodFacts { runtime_handler: "kata".into(), ..pod("a") };
        assert!(exemption(&kata, None, &by_handler).unwrap().contains("runtime handler kata"));
        assert_eq!(exemption(&kata, None, &settings()), None);
    }
}
