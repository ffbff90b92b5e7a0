//! Rows about a single rule: which CPUs are taken, which hints a resource has, how hints are merged,
//! what one allocation does to one manager's state.

use super::json::{list, number, text};
use super::outside::{self, Outside};
use super::{Verdict, memory};
use maitred::engine::{Device, Machine, Occupancy, Reserve, Seat, admit_container, rules};
use maitred::model::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Topologies by id.
pub type Topologies = BTreeMap<String, Topology>;

pub fn topologies(text_of_file: &str) -> Topologies {
    let all: Value = serde_json::from_str(text_of_file).expect("topologies.json is JSON");
    list(&all).iter().map(|one| (text(&one["id"]), topology(list(&one["cpus"])))).collect()
}

/// Rows of CPU, core, socket, node, last-level cache. Groups stay in the order of these ids.
fn topology(rows: &[Value]) -> Topology {
    let mut groups: [BTreeMap<u64, CpuSet>; 4] = Default::default();
    let mut packages_of: BTreeMap<u64, u64> = BTreeMap::new();
    let mut cpus = CpuSet::new();
    for row in rows {
        let cpu = CpuId(number(&row[0]) as u32);
        cpus.insert(cpu);
        packages_of.entry(number(&row[1])).or_insert_with(|| number(&row[2]));
        for (at, group) in groups.iter_mut().enumerate() {
            group.entry(number(&row[at + 1])).or_default().insert(cpu);
        }
    }
    let [cores, packages, nodes, caches] = groups;
    let node = |(id, cpus): (u64, CpuSet)| NumaNode {
        id: NodeId(id as u32),
        cpus,
        memory_bytes: 0,
        hugepages: BTreeMap::new(),
        distances: BTreeMap::new(),
    };
    let core = |(id, cpus)| Core { package: PackageId(packages_of[&id] as u32), cpus };
    Topology {
        cpus,
        cores: cores.into_iter().map(core).collect(),
        packages: packages.into_iter().map(|(id, cpus)| Package { id: PackageId(id as u32), cpus }).collect(),
        numa_nodes: nodes.into_iter().map(node).collect(),
        llcs: caches.into_values().map(|cpus| Llc { cpus, size_bytes: None }).collect(),
        ..Topology::default()
    }
}

/// Compares one row. One that disagrees is looked at again: it can be about something the engine leaves out.
pub fn row(row: &Value, topologies: &Topologies) -> Verdict {
    let (compared, outside) = match text(&row["op"]).as_str() {
        "take" => (take(row, topologies), None),
        "cpuhints" => (cpu_hints(row, topologies), None),
        "cpualloc" => (cpu_alloc(row, topologies), cpu_outside(row, topologies)),
        "memhints" => (memory::hints(row), None),
        "memalloc" => (memory::alloc(row), memory::outside(row)),
        "devhints" => (device_hints(row), None),
        "merge" => (merge(row), None),
        other => (Err(format!("neither a scenario nor a rule: its op is {other:?}")), None),
    };
    match (compared, outside) {
        (Ok(()), _) => Verdict::Agreed,
        (Err(_), Some(why)) => Verdict::Outside(why),
        (Err(problem), None) => Verdict::Disagreed(problem),
    }
}

fn topology_of<'a>(row: &Value, topologies: &'a Topologies) -> Result<&'a Topology, String> {
    let id = text(&row["topology"]);
    topologies.get(&id).ok_or_else(|| format!("topologies.json has no topology {id:?}"))
}

fn cpu_outside(row: &Value, topologies: &Topologies) -> Option<Outside> {
    if outside::skipped(row, number(&row["guaranteedCPUs"]) > 0) {
        return Some(Outside::Skipped);
    }
    let topology = topology_of(row, topologies).ok()?;
    let torn = |core: &Core| topology.packages.iter().filter(|p| !p.cpus.is_disjoint(&core.cpus)).count() > 1;
    topology.cores.iter().any(torn).then_some(Outside::TornCores)
}

pub fn same<T: PartialEq + std::fmt::Debug>(ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs { Ok(()) } else { Err(format!("{ours:?}, expected {theirs:?}")) }
}

/// A list as the kernel writes it, or an array of numbers.
fn cpus(value: &Value) -> CpuSet {
    match value.as_str() {
        Some(list) => list.parse().expect("a CPU list"),
        None => list(value).iter().map(|cpu| CpuId(number(cpu) as u32)).collect(),
    }
}

pub fn nodes(value: &Value) -> NodeSet {
    list(value).iter().map(|node| NodeId(number(node) as u32)).collect()
}

fn take(row: &Value, topologies: &Topologies) -> Result<(), String> {
    let topology = topology_of(row, topologies)?;
    let group = (row["distribute"] == true).then(|| number(&row["cpuGroupSize"]) as usize);
    let style = (row["sorting"] == "spread", row["preferAlignByUncoreCache"] == true, group);
    let need = number(&row["numCPUs"]) as usize;
    let taken = rules::taken(topology, &cpus(&row["available"]), need, style);
    let expected = row["expect"]["cpus"].as_str().map(|_| cpus(&row["expect"]["cpus"]));
    same(&taken, &expected)
}

pub fn policy(topology: TopologyPolicy) -> Policy {
    Policy {
        topology,
        scope: Scope::Container,
        cpu: CpuOptions::default(),
        prefer_closest: false,
        memory: MemoryManager::Static,
        unknown_locality: UnknownLocality::Ignore,
    }
}

pub fn request(cpus: u64, memory: &Value) -> ContainerRequest {
    let mut request = ContainerRequest::nothing("main".into(), ContainerKind::App, Qos::Guaranteed);
    request.cpu_milli = cpus * 1000;
    for (kind, bytes) in amounts(memory) {
        match kind {
            MemoryKind::Memory => request.memory = bytes,
            MemoryKind::Hugepages(size) => {
                request.hugepages.insert(size, bytes);
            }
        }
    }
    request
}

/// `{"memory": bytes, "hugepages-1Gi": bytes}`.
pub fn amounts(memory: &Value) -> Vec<(MemoryKind, Bytes)> {
    let all = memory.as_object().into_iter().flatten();
    all.map(|(name, bytes)| (super::json::memory_kind(name).expect("a type"), Bytes(number(bytes)))).collect()
}

pub fn hold(
    occupancy: &mut Occupancy,
    machine: &Machine,
    pod: &str,
    name: &str,
    kind: ContainerKind,
    held: Placement,
) {
    occupancy.reserve(machine, ContainerKey::new(pod.into(), name.into()), kind, &held);
}

fn exclusive(cpus: CpuSet) -> Placement {
    Placement { cpus, ..Placement::default() }
}

fn expected_hints(expected: &Value) -> rules::Listed {
    let mut all: rules::Listed =
        list(expected).iter().map(|hint| (nodes(&hint["nodes"]), hint["preferred"] == true)).collect();
    all.sort();
    all
}

pub fn same_hints(mut ours: rules::Listed, expected: &Value) -> Result<(), String> {
    ours.sort();
    same(&ours, &expected_hints(expected))
}

fn cpu_hints(row: &Value, topologies: &Topologies) -> Result<(), String> {
    let topology = topology_of(row, topologies)?;
    let reserve = Reserve { cpus: Some(CpuSet::new()), ..Reserve::default() };
    let machine = Machine::new(topology, &reserve).map_err(|error| error.to_string())?;
    let mut occupancy = Occupancy::new(&machine);
    let available = cpus(&row["available"]);
    let other = machine.online().difference(&available);
    hold(&mut occupancy, &machine, "other", "main", ContainerKind::App, exclusive(other));
    let mut policy = policy(TopologyPolicy::Restricted);
    if row["alignBySocket"] == true {
        policy.cpu.0.insert(CpuOption::AlignBySocket);
    }
    let request = request(number(&row["request"]), &Value::Null);
    let hints = rules::hints(&machine, &occupancy, &"pod".into(), &request, &policy);
    same_hints(hints.into_iter().next().unwrap_or_default(), &row["expect"])
}

fn cpu_alloc(row: &Value, topologies: &Topologies) -> Result<(), String> {
    let topology = topology_of(row, topologies)?;
    let reserve = Reserve { cpus: Some(cpus(&row["reserved"])), ..Reserve::default() };
    let mut machine = Machine::new(topology, &reserve).map_err(|error| error.to_string())?;
    machine.keep_shared_cpu(false);
    let mut policy = policy(TopologyPolicy::BestEffort);
    let options = [
        ("AlignBySocket", CpuOption::AlignBySocket),
        ("DistributeCPUsAcrossCores", CpuOption::DistributeAcrossCores),
        ("DistributeCPUsAcrossNUMA", CpuOption::DistributeAcrossNuma),
        ("FullPhysicalCPUsOnly", CpuOption::FullPcpusOnly),
        ("PreferAlignByUncoreCacheOption", CpuOption::PreferAlignByUncoreCache),
        ("StrictCPUReservation", CpuOption::StrictReservation),
    ];
    policy.cpu.0.extend(options.iter().filter(|(name, _)| row["options"][*name] == true).map(|(_, it)| *it));
    let (pod, container) = (text(&row["pod"]), text(&row["container"]));
    let mut occupancy = Occupancy::new(&machine);
    let reusable = cpus(&row["reusable"]);
    let mut known = cpus(&row["before"]["default"]).union(machine.reserved());
    for (uid, containers) in row["before"]["assignments"].as_object().into_iter().flatten() {
        for (name, held) in containers.as_object().into_iter().flatten() {
            let held = cpus(held);
            known = known.union(&held);
            let init = *uid == pod && !held.is_disjoint(&reusable);
            let kind = if init { ContainerKind::Init } else { ContainerKind::App };
            hold(&mut occupancy, &machine, uid, name, kind, exclusive(held));
        }
    }
    let other = machine.online().difference(&known);
    hold(&mut occupancy, &machine, "other", "main", ContainerKind::App, exclusive(other));
    let mut request = request(number(&row["guaranteedCPUs"]), &Value::Null);
    request.name = container.as_str().into();
    let placed =
        admit_container(&machine, &occupancy, &pod.as_str().into(), &request, Some(&seat(row)), &policy);
    let expected = &row["after"]["assignments"][&pod][&container];
    match (placed, row["error"].as_str()) {
        (Ok(placed), None) => same(&placed.cpus, &cpus(expected)),
        (Err(_), Some(_)) => Ok(()),
        (Ok(placed), Some(error)) => Err(format!("placed {placed:?}, expected {error}")),
        (Err(rejection), None) => Err(format!("{rejection}, expected {expected}")),
    }
}

pub fn seat(row: &Value) -> Seat {
    let affinity = row["hint"]["nodes"].is_array().then(|| nodes(&row["hint"]["nodes"]));
    Seat { affinity, preferred: row["hint"]["preferred"] == true }
}

/// Adds a node with one CPU, which is a core and a package of its own.
pub fn add_node(
    topology: &mut Topology,
    id: NodeId,
    (memory_bytes, hugepages): (u64, BTreeMap<HugepageSize, HugepagePool>),
    distances: BTreeMap<NodeId, u32>,
) {
    let cpus = CpuSet::single(CpuId(id.0));
    topology.cpus.extend(cpus.iter());
    topology.packages.push(Package { id: PackageId(id.0), cpus: cpus.clone() });
    topology.cores.push(Core { package: PackageId(id.0), cpus: cpus.clone() });
    topology.numa_nodes.push(NumaNode { id, cpus, memory_bytes, hugepages, distances });
}

/// A machine of which only the nodes are known, with their distances where given.
fn bare_machine(ids: &Value, distances: &Value) -> Result<Machine, String> {
    let mut topology = Topology::default();
    for id in nodes(ids).iter() {
        let far = list(&distances[id.to_string()]).iter().map(|far| number(far) as u32);
        add_node(&mut topology, id, (0, BTreeMap::new()), nodes(ids).iter().zip(far).collect());
    }
    Machine::new(&topology, &Reserve::default()).map_err(|error| error.to_string())
}

fn device_hints(row: &Value) -> Result<(), String> {
    let mut machine = bare_machine(&row["numaNodes"], &Value::Null)?;
    let resource = ResourceName::from("device");
    let device = |device: &Value| Device {
        id: DeviceId::new(text(&device["id"])),
        nodes: device["numa"].is_array().then(|| nodes(&device["numa"])).filter(|nodes| !nodes.is_empty()),
    };
    machine.set_devices(resource.clone(), list(&row["devices"]).iter().map(device).collect());
    let ids = |value: &Value| list(value).iter().map(|id| DeviceId::new(text(id))).collect::<BTreeSet<_>>();
    let holding = |ids: BTreeSet<DeviceId>| Placement {
        devices: [(resource.clone(), ids)].into(),
        ..Placement::default()
    };
    let (available, own) = (ids(&row["available"]), ids(&row["reusable"]));
    let all = machine.devices(&resource).iter().map(|device| device.id.clone());
    let other = all.filter(|id| !available.contains(id) && !own.contains(id)).collect();
    let mut occupancy = Occupancy::new(&machine);
    hold(&mut occupancy, &machine, "other", "main", ContainerKind::App, holding(other));
    hold(&mut occupancy, &machine, "pod", "init", ContainerKind::Init, holding(own));
    let mut request = request(0, &Value::Null);
    request.devices.insert(resource, DeviceRequest::Count(number(&row["request"]) as u32));
    let policy = policy(TopologyPolicy::Restricted);
    let hints = rules::hints(&machine, &occupancy, &"pod".into(), &request, &policy);
    same_hints(hints.into_iter().next().unwrap_or_default(), &row["expect"])
}

fn merge(row: &Value) -> Result<(), String> {
    let machine = bare_machine(&row["numaNodes"], &row["distances"])?;
    let topology = text(&row["policy"]).parse().map_err(|error: WordError| error.to_string())?;
    let mut policy = policy(topology);
    policy.prefer_closest = row["preferClosest"] == true;
    let resources = list(&row["providers"]).iter().filter_map(Value::as_object).flatten();
    let hints = resources.map(|(_, hints)| hints).filter(|hints| hints.is_array());
    // A hint without nodes that is preferred is no preference; one that is not is "nothing fits".
    let free =
        |hints: &&Value| list(hints).iter().any(|one| one["nodes"].is_null() && one["preferred"] == true);
    let listed = |hints: &Value| -> rules::Listed {
        let with_nodes = list(hints).iter().filter(|hint| !hint["nodes"].is_null());
        with_nodes.map(|hint| (nodes(&hint["nodes"]), hint["preferred"] == true)).collect()
    };
    let lists: Vec<rules::Listed> = hints.filter(|hints| !free(hints)).map(listed).collect();
    let (affinity, preferred, admit) = rules::merged(&machine, &lists, &policy);
    let expect = &row["expect"];
    same(&admit, &(expect["admit"] == true))?;
    if !admit {
        return Ok(());
    }
    let expected = expect["nodes"].is_array().then(|| nodes(&expect["nodes"]));
    same(&(affinity, preferred), &(expected, expect["preferred"] == true))
}
