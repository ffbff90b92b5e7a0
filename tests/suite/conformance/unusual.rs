//! Scenarios of the recorded format that the recorded ones have none of: the other CPU options, sidecars
//! between init containers, hugepages on some nodes, groups that come and go, a pod that comes back. What
//! is expected is worked out by hand from the kubelet's rules; the comments say how.

use super::scenario;
use serde_json::{Value, json};

const GIB: u64 = 1 << 30;

/// Nodes of `cores` cores and 16Gi, so many a socket. Threads are numbered core by core, the second ones
/// of all cores after the first ones of all.
fn machine(nodes: u64, per_socket: u64, cores: u64, threads: u64, pages: &[u64]) -> Value {
    let all = nodes * cores;
    let core = |id: u64| {
        let threads: Vec<u64> = (0..threads).map(|thread| thread * all + id).collect();
        json!({"core_id": id, "socket_id": id / cores / per_socket, "thread_ids": threads})
    };
    let node = |at: u64| {
        let cores: Vec<Value> = (at * cores..(at + 1) * cores).map(core).collect();
        let distances: Vec<u64> = (0..nodes).map(|to| if to == at { 10 } else { 20 }).collect();
        let huge = pages.get(at as usize).copied().unwrap_or(0);
        json!({
            "node_id": at, "memory": (16 + huge) * GIB, "distances": distances, "cores": cores,
            "hugepages": [{"page_size": 1 << 20, "num_pages": huge}],
        })
    };
    json!({ "nodes": (0..nodes).map(node).collect::<Vec<_>>() })
}

fn scenario(machine: Value, policy: &str, reserved: &str, options: &[&str], steps: Value) -> Value {
    let options: Value = options.iter().map(|name| ((*name).to_owned(), json!("true"))).collect();
    json!({
        "machine": machine, "topology_policy": policy, "scope": "container", "topology_options": {},
        "cpu_options": options, "reserved_cpus": reserved, "memory_policy": "Static",
        "reserved_memory": [], "devices": {}, "steps": steps,
    })
}

fn container(name: &str, cpu: &str, memory: &str) -> Value {
    let amounts = json!({"cpu": cpu, "memory": memory});
    json!({"name": name, "resources": {"requests": amounts, "limits": amounts}})
}

fn pod(uid: &str, init: &[Value], apps: &[Value]) -> Value {
    let metadata = json!({"uid": uid, "name": uid, "namespace": "d"});
    json!({"metadata": metadata, "spec": {"initContainers": init, "containers": apps}})
}

/// One container `main`, placed so.
fn seats(uid: &str, (cpu, memory): (&str, &str), cpus: &str, exclusive: &str, mems: &[u64]) -> Value {
    let seat = json!({"cpus": cpus, "exclusive": exclusive, "mems": mems, "devices": {}});
    json!({
        "admit": pod(uid, &[], &[container("main", cpu, memory)]),
        "expect": {"admit": true, "containers": {"main": seat}},
    })
}

fn refuses(uid: &str, (cpu, memory): (&str, &str), reason: &str) -> Value {
    let pod = pod(uid, &[], &[container("main", cpu, memory)]);
    json!({"admit": pod, "expect": {"admit": false, "reason": reason}})
}

fn agrees(scenario: &Value) {
    assert!(scenario::is_one(scenario));
    if let Err(problem) = scenario::play(scenario) {
        panic!("{problem}");
    }
}

#[test]
fn conformance_of_align_by_socket() {
    // Free are CPU 11 on node 2 and CPU 15 on node 3, which share a socket. One node could hold two CPUs,
    // so the fewest sockets are one: {2,3} is preferred with the option and is not without.
    let play = |options: &[&str], step| {
        let steps = json!([step]);
        agrees(&scenario(machine(4, 2, 4, 1, &[]), "restricted", "0-10,12-14", options, steps));
    };
    // Memory for itself prefers one node, so it is left out: a Guaranteed pod's would have to match.
    let ask = ("2", "1Gi");
    play(&[], refuses("a", ask, "TopologyAffinityError"));
    let mut with = scenario(
        machine(4, 2, 4, 1, &[]),
        "restricted",
        "0-10,12-14",
        &["align-by-socket"],
        json!([seats("a", ask, "11,15", "11,15", &[])]),
    );
    with["memory_policy"] = json!("None");
    agrees(&with);
    with["steps"] =
        json!([seats("a", ("1", "1Gi"), "11", "11", &[]), refuses("b", ask, "TopologyAffinityError")]);
    agrees(&with);
}

#[test]
fn conformance_of_distribute_cpus_across_cores() {
    // One socket of four cores, siblings 0/4, 1/5, …; 0 is reserved. Single threads in the order of their
    // numbers: cores 1, 2, 3 first, then the siblings.
    let steps = json!([
        seats("a", ("3", "1Gi"), "1-3", "1-3", &[0]),
        seats("b", ("3", "1Gi"), "4-6", "4-6", &[0]),
        seats("c", ("500m", "1Gi"), "0,7", "", &[0]),
    ]);
    agrees(&scenario(machine(1, 1, 4, 2, &[]), "best-effort", "0", &["distribute-cpus-across-cores"], steps));
}

#[test]
fn conformance_of_distribute_with_whole_cores_on_eight_nodes() {
    // 20 CPUs are ten cores: at least three nodes of four. Node 0 has three cores free, so it comes first
    // in the order, but {1,2,3} leaves the machine more even than any set with it. Each gives three cores,
    // and the first of them the tenth.
    let cpus = "4-10,12-14,36-42,44-46";
    let options = ["distribute-cpus-across-numa", "full-pcpus-only"];
    let steps =
        json!(
            [seats("a", ("20", "1Gi"), cpus, cpus, &[0]), refuses("b", ("3", "1Gi"), "SMTAlignmentError"),]
        );
    agrees(&scenario(machine(8, 1, 4, 2, &[]), "none", "0,32", &options, steps));
}

#[test]
fn conformance_of_sidecars_between_init_containers() {
    // init 1-2; the sidecar takes those over and keeps them; init2 gets 3-5 and leaves them to the app,
    // which takes 3-4. Until the pod goes, 1-5 are its own.
    let seat = |cpus: &str| json!({"cpus": cpus, "exclusive": cpus, "mems": [0], "devices": {}});
    let mut sidecar = container("sidecar", "2", "1Gi");
    sidecar["restartPolicy"] = json!("Always");
    let init = [container("init", "2", "1Gi"), sidecar, container("init2", "3", "1Gi")];
    let first = json!({
        "admit": pod("a", &init, &[container("app", "2", "1Gi")]),
        "expect": {"admit": true, "containers": {
            "init": seat("1-2"), "sidecar": seat("1-2"), "init2": seat("3-5"), "app": seat("3-4"),
        }},
    });
    for scope in ["container", "pod"] {
        let steps = json!([
            first,
            seats("b", ("100m", "1Gi"), "0,6-7", "", &[0]),
            refuses("c", ("3", "1Gi"), "TopologyAffinityError"),
            {"remove": "a"},
            seats("c", ("7", "1Gi"), "1-7", "1-7", &[0]),
            {"remove": "c"},
            seats("a", ("2", "1Gi"), "1-2", "1-2", &[0]),
        ]);
        let mut scenario = scenario(machine(1, 1, 8, 1, &[]), "restricted", "0", &[], steps);
        scenario["scope"] = json!(scope);
        agrees(&scenario);
    }
}

#[test]
fn conformance_of_hugepages_on_one_node() {
    // Only node 1 has pages, four of them. Two fit there; three more fit nowhere, and what the kubelet
    // calls an unexpected error is a rejection here too.
    let with_pages = |mut step: Value, pages: &str| {
        for part in ["requests", "limits"] {
            step["admit"]["spec"]["containers"][0]["resources"][part]["hugepages-1Gi"] = json!(pages);
        }
        step
    };
    let steps = json!([
        with_pages(seats("a", ("2", "1Gi"), "4-5", "4-5", &[1]), "2Gi"),
        with_pages(refuses("b", ("1", "1Gi"), "UnexpectedAdmissionError"), "3Gi"),
        with_pages(seats("c", ("1", "1Gi"), "6", "6", &[1]), "2Gi"),
        {"remove": "a"},
        with_pages(seats("b", ("1", "1Gi"), "4", "4", &[1]), "2Gi"),
    ]);
    agrees(&scenario(machine(2, 1, 4, 1, &[0, 4]), "single-numa-node", "0", &[], steps));
}

#[test]
fn conformance_of_memory_groups() {
    // 20Gi take two of the nodes, which serve nobody singly from then on. What two nodes must hold and
    // the group cannot is refused, as is what one node could have held and only the group can. With its
    // last pod the group is gone.
    let steps = json!([
        seats("a", ("500m", "20Gi"), "0-11", "", &[0, 1]),
        seats("b", ("500m", "1Gi"), "0-11", "", &[2]),
        refuses("c", ("500m", "18Gi"), "TopologyAffinityError"),
        seats("d", ("500m", "12Gi"), "0-11", "", &[2]),
        refuses("e", ("500m", "12Gi"), "TopologyAffinityError"),
        {"remove": "a"},
        seats("e", ("500m", "12Gi"), "0-11", "", &[0]),
    ]);
    agrees(&scenario(machine(3, 1, 4, 1, &[]), "restricted", "0", &[], steps));
}

#[test]
fn conformance_of_reserved_memory_and_the_closest_nodes() {
    // A gibibyte of node 0 is the system's, so 16Gi fit node 1 alone.
    let mut reserved = scenario(
        machine(2, 1, 4, 1, &[]),
        "single-numa-node",
        "0",
        &[],
        json!([
            seats("a", ("1", "16Gi"), "4", "4", &[1]),
            refuses("b", ("1", "16Gi"), "UnexpectedAdmissionError"),
            seats("c", ("1", "15Gi"), "1", "1", &[0]),
        ]),
    );
    reserved["reserved_memory"] = json!([{"node": 0, "limits": {"memory": "1Gi"}}]);
    agrees(&reserved);

    // Six CPUs take two of four nodes. {0,1} is the smallest mask, {1,3} the closest pair.
    let mut close = scenario(
        machine(4, 1, 4, 1, &[]),
        "restricted",
        "0",
        &[],
        json!([seats("a", ("6", "20Gi"), "4-7,12-13", "4-7,12-13", &[1, 3])]),
    );
    close["topology_options"] = json!({"prefer-closest-numa-nodes": "true"});
    close["machine"]["nodes"][1]["distances"][3] = json!(12);
    close["machine"]["nodes"][3]["distances"][1] = json!(12);
    agrees(&close);
}
