//! One recorded scenario: a machine, a policy, and pods that come and go.

use super::json::{list, memory_kind, number, quantity, text};
use maitred::engine::{Device, Machine, Reserve, admit_pod};
use maitred::ledger::Ledger;
use maitred::model::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Whether the row is a scenario.
pub fn is_one(row: &Value) -> bool {
    row["machine"].is_object() && row["steps"].is_array()
}

/// Plays a scenario to its end; an error is the first step that disagrees.
pub fn play(scenario: &Value) -> Result<(), String> {
    let policy = policy(scenario);
    let mut ledger = Ledger::new(Arc::new(machine(scenario)));
    for (at, step) in list(&scenario["steps"]).iter().enumerate() {
        if let Some(uid) = step["remove"].as_str() {
            ledger.release_pod(&PodUid::from(uid));
            continue;
        }
        let pod = pod(&step["admit"], &scenario["devices"]);
        admit(&mut ledger, &pod, &policy, &step["expect"])
            .map_err(|problem| format!("step {at}, pod {}: {problem}", pod.uid))?;
    }
    let last = list(&scenario["steps"]).last();
    let skip = last.is_some_and(|step| step["expect"]["admit"] == false) || !scenario["final"].is_object();
    if skip { Ok(()) } else { finish(&ledger, &policy, &scenario["final"]) }
}

fn admit(ledger: &mut Ledger, pod: &PodRequest, policy: &Policy, expect: &Value) -> Result<(), String> {
    let admitted = expect["admit"] == true;
    let placements = match admit_pod(ledger.machine(), ledger.occupancy(), pod, policy) {
        Ok(placements) if admitted => placements,
        Ok(placements) => return Err(format!("admitted {placements:?}, expected {expect}")),
        Err(rejection) if admitted => return Err(format!("rejected: {rejection}, expected {expect}")),
        Err(rejection) => return same_reason(&rejection, expect),
    };
    for (container, (_, placement)) in pod.containers.iter().zip(&placements) {
        ledger.reserve(pod.key(container), None, container.kind, placement.clone());
    }
    // The shared pool is the one after the whole pod.
    for (name, placement) in &placements {
        let expected = &expect["containers"][name.as_str()];
        same_placement(ledger, policy, placement, expected)
            .map_err(|problem| format!("{name}: {problem}"))?;
    }
    Ok(())
}

fn same_reason(rejection: &Rejection, expect: &Value) -> Result<(), String> {
    let expected = text(&expect["reason"]);
    match expected == "UnexpectedAdmissionError" || expected == rejection.reason.to_string() {
        true => Ok(()),
        false => Err(format!("rejected: {rejection}, expected {expect}")),
    }
}

fn same_placement(
    ledger: &Ledger,
    policy: &Policy,
    placement: &Placement,
    expected: &Value,
) -> Result<(), String> {
    let cpus = match placement.cpus.is_empty() {
        true => ledger.shared_pool(&policy.cpu),
        false => placement.cpus.clone(),
    };
    let mems: NodeSet = list(&expected["mems"]).iter().map(|node| NodeId(number(node) as u32)).collect();
    let devices: BTreeMap<String, BTreeSet<String>> = expected["devices"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, ids)| (name.clone(), list(ids).iter().map(text).collect()))
        .collect();
    let own = |ids: &BTreeSet<DeviceId>| ids.iter().map(ToString::to_string).collect();
    let own_devices = placement.devices.iter().map(|(name, ids)| (name.to_string(), own(ids))).collect();
    let same = cpus.to_string() == text(&expected["cpus"])
        && placement.cpus.to_string() == text(&expected["exclusive"])
        && placement.mems == mems
        && devices == own_devices;
    if same { Ok(()) } else { Err(format!("{placement:?} and cpus {cpus}, expected {expected}")) }
}

/// The shared pool and the free bytes after the last step. Within a set of several nodes that serve
/// memory together only their sum means anything.
fn finish(ledger: &Ledger, policy: &Policy, expected: &Value) -> Result<(), String> {
    let pool = ledger.shared_pool(&policy.cpu).to_string();
    if pool != text(&expected["shared_cpus"]) {
        return Err(format!("shared pool {pool} at the end, expected {}", expected["shared_cpus"]));
    }
    if policy.memory == MemoryManager::None {
        return Ok(());
    }
    let mut sets: BTreeSet<NodeSet> = ledger.machine().nodes().iter().map(NodeSet::single).collect();
    for (_, holding) in ledger.iter() {
        for block in &holding.placement.memory {
            sets.retain(|set| set.is_disjoint(&block.nodes));
            sets.insert(block.nodes.clone());
        }
    }
    for set in sets {
        for kind in ledger.machine().memory_kinds() {
            let ours: u64 =
                set.iter().map(|n| ledger.occupancy().free_memory(ledger.machine(), n, kind).0).sum();
            let free = |n: NodeId| number(&expected["free"][n.to_string()][kind.to_string()]);
            let theirs: u64 = set.iter().map(free).sum();
            if ours != theirs {
                return Err(format!("free {kind} of nodes {set} at the end: {ours}, expected {theirs}"));
            }
        }
    }
    Ok(())
}

fn machine(scenario: &Value) -> Machine {
    let topology = topology(&scenario["machine"]);
    let mut memory = BTreeMap::new();
    for reserved in list(&scenario["reserved_memory"]) {
        let node = NodeId(number(&reserved["node"]) as u32);
        for (name, amount) in reserved["limits"].as_object().into_iter().flatten() {
            let bytes = Bytes(quantity(amount).units());
            memory.insert((node, memory_kind(name).expect("a type of memory")), bytes);
        }
    }
    let cpus = Some(text(&scenario["reserved_cpus"]).parse().expect("a CPU list"));
    let mut machine = Machine::new(&topology, &Reserve { cpus, memory }).expect("a machine");
    machine.keep_shared_cpu(false);
    for (resource, devices) in scenario["devices"].as_object().into_iter().flatten() {
        let mut devices: Vec<Device> = list(devices).iter().map(device).collect();
        devices.sort_by(|a, b| a.id.cmp(&b.id));
        machine.set_devices(ResourceName::new(resource), devices);
    }
    machine
}

fn device(device: &Value) -> Device {
    let nodes = device["numa"].as_array();
    let nodes = nodes.map(|nodes| nodes.iter().map(|node| NodeId(number(node) as u32)).collect());
    Device { id: DeviceId::new(text(&device["id"])), nodes }
}

fn topology(machine: &Value) -> Topology {
    let mut topology = Topology::default();
    let mut packages: BTreeMap<u32, CpuSet> = BTreeMap::new();
    let mut caches: BTreeMap<u64, CpuSet> = BTreeMap::new();
    for node in list(&machine["nodes"]) {
        let mut all = CpuSet::new();
        for core in list(&node["cores"]) {
            let cpus: CpuSet =
                list(&core["thread_ids"]).iter().map(|cpu| CpuId(number(cpu) as u32)).collect();
            let package = number(&core["socket_id"]) as u32;
            all.extend(cpus.iter());
            packages.entry(package).or_default().extend(cpus.iter());
            for cache in list(&core["uncore_caches"]) {
                caches.entry(number(&cache["id"])).or_default().extend(cpus.iter());
            }
            topology.cores.push(Core { package: PackageId(package), cpus });
        }
        topology.cpus.extend(all.iter());
        topology.numa_nodes.push(numa_node(node, all));
    }
    topology.packages = packages.into_iter().map(|(id, cpus)| Package { id: PackageId(id), cpus }).collect();
    topology.llcs = caches.into_values().map(|cpus| Llc { cpus, size_bytes: None }).collect();
    topology
}

fn numa_node(node: &Value, cpus: CpuSet) -> NumaNode {
    let pool = |pages: &Value| {
        let size = HugepageSize::from_bytes(number(&pages["page_size"]) << 10).expect("a page size");
        let total = number(&pages["num_pages"]);
        (size, HugepagePool { total, free: total })
    };
    let distances = list(&node["distances"]).iter().enumerate();
    NumaNode {
        id: NodeId(number(&node["node_id"]) as u32),
        cpus,
        memory_bytes: number(&node["memory"]),
        hugepages: list(&node["hugepages"]).iter().map(pool).collect(),
        distances: distances.map(|(to, far)| (NodeId(to as u32), number(far) as u32)).collect(),
    }
}

fn policy(scenario: &Value) -> Policy {
    let on = |options: &Value, name: &str| options[name] == "true" || options[name] == true;
    let options = scenario["cpu_options"].as_object().into_iter().flatten();
    let options = options.filter(|(name, _)| on(&scenario["cpu_options"], name));
    Policy {
        topology: text(&scenario["topology_policy"]).parse().expect("a topology policy"),
        scope: text(&scenario["scope"]).parse().expect("a scope"),
        cpu: CpuOptions(options.map(|(name, _)| name.parse().expect("a CPU option")).collect()),
        prefer_closest: on(&scenario["topology_options"], "prefer-closest-numa-nodes"),
        memory: match text(&scenario["memory_policy"]).as_str() {
            "Static" => MemoryManager::Static,
            _ => MemoryManager::None,
        },
        unknown_locality: UnknownLocality::Ignore,
    }
}

fn pod(pod: &Value, devices: &Value) -> PodRequest {
    let uid = text(&pod["metadata"]["uid"]);
    let qos = qos(&pod["spec"]);
    let init = list(&pod["spec"]["initContainers"]).iter().map(|one| {
        let kind =
            if one["restartPolicy"] == "Always" { ContainerKind::Sidecar } else { ContainerKind::Init };
        container(one, kind, qos, devices)
    });
    let apps = list(&pod["spec"]["containers"]).iter();
    let apps = apps.map(|one| container(one, ContainerKind::App, qos, devices));
    PodRequest {
        uid: uid.as_str().into(),
        namespace: text(&pod["metadata"]["namespace"]),
        name: text(&pod["metadata"]["name"]),
        containers: init.chain(apps).collect(),
    }
}

/// Guaranteed: every container has equal CPU and memory requests and limits.
fn qos(spec: &Value) -> Qos {
    let all = || list(&spec["initContainers"]).iter().chain(list(&spec["containers"]));
    let value = |one: &Value, part: &str, name: &str| {
        let amount = &one["resources"][part][name];
        (!amount.is_null()).then(|| quantity(amount)).filter(|amount| !amount.is_zero())
    };
    let equal = |one: &Value| {
        ["cpu", "memory"].iter().all(|name| {
            let limit = value(one, "limits", name);
            limit.is_some() && limit == value(one, "requests", name)
        })
    };
    if all().all(equal) { Qos::Guaranteed } else { Qos::Burstable }
}

fn container(one: &Value, kind: ContainerKind, qos: Qos, devices: &Value) -> ContainerRequest {
    let mut request = ContainerRequest::nothing(ContainerName::new(text(&one["name"])), kind, qos);
    for (name, amount) in one["resources"]["requests"].as_object().into_iter().flatten() {
        let amount = quantity(amount);
        match memory_kind(name) {
            Some(MemoryKind::Memory) => request.memory = Bytes(amount.units()),
            Some(MemoryKind::Hugepages(size)) => {
                request.hugepages.insert(size, Bytes(amount.units()));
            }
            None if name == "cpu" => request.cpu_milli = amount.milli(),
            // A resource that no manager knows of.
            None if !devices[name].is_array() => {}
            None => {
                let count = DeviceRequest::Count(amount.units() as u32);
                request.devices.insert(ResourceName::new(name), count);
            }
        }
    }
    request
}
