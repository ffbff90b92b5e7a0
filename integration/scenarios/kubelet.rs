//! The kubelet's part: turns a pod into cgroups and CRI messages, by the kubelet's own rules
//! (pkg/kubelet/cm/helpers_linux.go, kuberuntime_container_linux.go, qos/policy.go).

use crate::cgroup::{self, Limits};
use crate::list;
use crate::messages::cri::*;
use crate::pod::{Container, Pod, Qos, Resources};
use anyhow::Result;
use std::collections::HashMap;

const PERIOD: u64 = 100_000;
const MIN_QUOTA: u64 = 1_000;
const MIN_SHARES: u64 = 2;
const NODE_NETWORK: i32 = 2;
const CONTAINER_PID: i32 = 1;
const LOGS: &str = "/var/log/pods";

/// Where the runtime writes what an attempt at a container prints.
pub fn log_file(pod: &Pod, container: &Container, attempt: u32) -> String {
    format!("{}/{}/{attempt}.log", log_directory(pod), container.name)
}

fn log_directory(pod: &Pod) -> String {
    format!("{LOGS}/{}_{}_{}", pod.namespace, pod.name, pod.uid)
}

fn shares(milli_cpus: u64) -> u64 {
    (milli_cpus * 1024 / 1000).max(MIN_SHARES)
}

fn quota(milli_cpus: u64) -> u64 {
    if milli_cpus == 0 { 0 } else { (milli_cpus * PERIOD / 1000).max(MIN_QUOTA) }
}

/// −997 keeps a Guaranteed container alive longest; a burstable one by its share of the machine.
fn oom_score_adj(qos: Qos, resources: &Resources) -> i64 {
    match qos {
        Qos::Guaranteed => -997,
        Qos::BestEffort => 1000,
        Qos::Burstable => {
            let machine = machine_memory().max(1) as i64;
            (1000 - 1000 * resources.memory_request as i64 / machine).clamp(3, 999)
        }
    }
}

fn machine_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Sizes the kernel has, in bytes: the kubelet states a limit for each, zero where none was asked.
fn hugepage_sizes() -> Vec<u64> {
    let names = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let kib = |name: String| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok();
    let mut sizes: Vec<u64> =
        names.filter_map(|entry| kib(entry.file_name().into_string().ok()?)).map(|k| k * 1024).collect();
    sizes.sort_unstable();
    sizes
}

/// `2MB`, `1GB`: how CRI and the hugetlb controller call a page size.
fn size_name(bytes: u64) -> String {
    if bytes >= 1 << 30 { format!("{}GB", bytes >> 30) } else { format!("{}MB", bytes >> 20) }
}

fn hugepage_limits(resources: &[&Resources]) -> Vec<(String, u64)> {
    let sum = |size: &u64| resources.iter().filter_map(|r| r.hugepages.get(size)).sum();
    hugepage_sizes().iter().map(|size| (size_name(*size), sum(size))).collect()
}

/// Sums over the pod's containers; a limit only where every container has one.
struct Sums {
    request: u64,
    cpu_limit: u64,
    memory_limit: u64,
}

fn sums(pod: &Pod) -> Sums {
    let all = || pod.containers.iter().map(|container| &container.resources);
    let limit = |of: fn(&Resources) -> u64| if all().all(|r| of(r) > 0) { all().map(of).sum() } else { 0 };
    Sums {
        request: all().map(|r| if r.cpu_request > 0 { r.cpu_request } else { r.cpu_limit }).sum(),
        cpu_limit: limit(|r| r.cpu_limit),
        memory_limit: limit(|r| r.memory_limit),
    }
}

/// The pod's cgroup with the pod's own limits, before its sandbox, as the kubelet makes it.
pub fn make_pod_cgroup(pod: &Pod) -> Result<()> {
    let sums = sums(pod);
    let resources: Vec<&Resources> = pod.containers.iter().map(|container| &container.resources).collect();
    let path = pod.cgroup_parent();
    cgroup::create(&path)?;
    cgroup::limit(
        &path,
        &Limits {
            shares: shares(sums.request),
            quota: quota(sums.cpu_limit) as i64,
            period: PERIOD,
            memory: sums.memory_limit,
            hugetlb: hugepage_limits(&resources),
        },
    )
}

fn pod_labels(pod: &Pod) -> HashMap<String, String> {
    let label = |key: &str, value: &str| (format!("io.kubernetes.pod.{key}"), value.to_owned());
    HashMap::from([label("name", &pod.name), label("namespace", &pod.namespace), label("uid", &pod.uid)])
}

fn namespaces() -> NamespaceOption {
    NamespaceOption { network: NODE_NETWORK, pid: CONTAINER_PID, ..Default::default() }
}

pub fn sandbox_config(pod: &Pod) -> PodSandboxConfig {
    let sums = sums(pod);
    let mut annotations: HashMap<String, String> = pod.annotations.clone().into_iter().collect();
    annotations.insert("kubernetes.io/config.source".to_owned(), pod.source.to_owned());
    annotations.insert("kubernetes.io/config.seen".to_owned(), "2026-01-01T00:00:00.000000000Z".to_owned());
    let metadata = PodSandboxMetadata {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        ..Default::default()
    };
    let resources = LinuxContainerResources {
        cpu_period: PERIOD as i64,
        cpu_quota: quota(sums.cpu_limit) as i64,
        cpu_shares: shares(sums.request) as i64,
        memory_limit_in_bytes: sums.memory_limit as i64,
        ..Default::default()
    };
    let security =
        LinuxSandboxSecurityContext { namespace_options: Some(namespaces()).into(), ..Default::default() };
    let linux = LinuxPodSandboxConfig {
        cgroup_parent: pod.cgroup_parent(),
        security_context: Some(security).into(),
        overhead: Some(LinuxContainerResources::default()).into(),
        resources: Some(resources).into(),
        ..Default::default()
    };
    PodSandboxConfig {
        metadata: Some(metadata).into(),
        log_directory: log_directory(pod),
        labels: pod_labels(pod),
        annotations,
        linux: Some(linux).into(),
        ..Default::default()
    }
}

pub fn container_resources(pod: &Pod, container: &Container) -> LinuxContainerResources {
    let r = &container.resources;
    let request = if r.cpu_request > 0 { r.cpu_request } else { r.cpu_limit };
    let limit = |(page_size, limit)| HugepageLimit { page_size, limit, ..Default::default() };
    let mut unified = HashMap::new();
    if cgroup::is_v2() {
        // Since 1.28 the whole container dies when one of its processes is out of memory.
        unified.insert("memory.oom.group".to_owned(), "1".to_owned());
    }
    let shown = if pod.hides_hugepages { Vec::new() } else { hugepage_limits(&[r]) };
    LinuxContainerResources {
        cpu_period: PERIOD as i64,
        cpu_quota: quota(r.cpu_limit) as i64,
        cpu_shares: shares(request) as i64,
        memory_limit_in_bytes: r.memory_limit as i64,
        oom_score_adj: oom_score_adj(pod.qos(), r),
        hugepage_limits: shown.into_iter().map(limit).collect(),
        cpuset_cpus: container.cpus.as_ref().map(list::show).unwrap_or_default(),
        unified,
        ..Default::default()
    }
}

pub fn create_request(
    pod: &Pod,
    container: &Container,
    sandbox: &str,
    attempt: u32,
) -> CreateContainerRequest {
    let mut labels = pod_labels(pod);
    labels.insert("io.kubernetes.container.name".to_owned(), container.name.clone());
    let mut annotations: HashMap<String, String> = container.annotations.clone().into_iter().collect();
    annotations.insert("io.kubernetes.container.restartCount".to_owned(), attempt.to_string());
    let env = |(key, value): &(String, String)| KeyValue {
        key: key.clone(),
        value: value.clone(),
        ..Default::default()
    };
    let mount = |(host, path): &(String, String)| Mount {
        container_path: path.clone(),
        host_path: host.clone(),
        readonly: true,
        ..Default::default()
    };
    let device = |(host, path): &(String, String)| Device {
        container_path: path.clone(),
        host_path: host.clone(),
        permissions: "rw".to_owned(),
        ..Default::default()
    };
    let cdi = |name: &String| CDIDevice { name: name.clone(), ..Default::default() };
    let security = LinuxContainerSecurityContext {
        namespace_options: Some(namespaces()).into(),
        // No profile at all unless the runtime's default one is asked for, as the kubelet has it.
        seccomp: pod.default_seccomp.then(SecurityProfile::default).into(),
        ..Default::default()
    };
    let linux = LinuxContainerConfig {
        resources: Some(container_resources(pod, container)).into(),
        security_context: Some(security).into(),
        ..Default::default()
    };
    let metadata = ContainerMetadata { name: container.name.clone(), attempt, ..Default::default() };
    let config = ContainerConfig {
        metadata: Some(metadata).into(),
        image: Some(ImageSpec { image: container.image.to_owned(), ..Default::default() }).into(),
        args: container.args.clone(),
        envs: container.env.iter().map(env).collect(),
        mounts: container.mounts.iter().map(mount).collect(),
        devices: container.devices.iter().map(device).collect(),
        cdi_devices: container.cdi_devices.iter().map(cdi).collect(),
        labels,
        annotations,
        log_path: format!("{}/{attempt}.log", container.name),
        linux: Some(linux).into(),
        ..Default::default()
    };
    CreateContainerRequest {
        pod_sandbox_id: sandbox.to_owned(),
        config: Some(config).into(),
        sandbox_config: Some(sandbox_config(pod)).into(),
        ..Default::default()
    }
}
