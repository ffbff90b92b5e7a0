//! Public reports about the kubelet whose kind should not return here, and the test that would fail if it
//! did. `#N` is kubernetes/kubernetes; a test checks that every test named below exists.
//!
//! | report | what happened | test |
//! |---|---|---|
//! | #135541 | 34 nodes hang the search | `thirty_four_nodes_are_decided_at_once` |
//! | #124066 | reserved CPUs handed out where siblings are offline | `reserved_cpus_stay_reserved_whatever_is_offline` |
//! | #140495 | the same on hybrid cores | `hybrid_cores_are_whole_whatever_their_size` |
//! | #105114 | init CPUs released under the app | `an_init_containers_end_takes_nothing_from_the_app` |
//! | #124797 | init-only CPUs held for ever | `what_only_an_init_container_used_goes_with_the_pod` |
//! | #123816 | an init container picks a node the app cannot use | `a_pods_nodes_suit_its_largest_container` |
//! | #84869 | rejection storms | `the_same_refusal_is_said_once_a_minute_with_its_count` |
//! | #129078 | a full-pcpus-only pod refused after a restart though it holds its CPUs | `a_full_machine_knows_its_own_again` |
//! | #140989 | a second allocation on restart | `a_full_machine_knows_its_own_again` |
//! | #109996 | start refused because MemTotal drifted | `memory_that_shrank_below_its_promises_is_no_error` |
//! | #131253 | the same | `memory_that_shrank_below_its_promises_is_no_error` |
//! | #79603 | isolcpus break the start | `isolated_cpus_are_given_out_like_others` |
//! | #98121 | reserved CPUs that are offline break the start | `reserved_cpus_may_be_offline_but_not_beyond_the_machine` |
//! | #84333 | hotplug leaves stale state | `a_cpu_that_went_offline_is_not_given_again` |
//! | #118559 | running GPU pods killed on restart | `gpus_once_given_stay_taken_whatever_became_of_the_cpus` |
//! | #138731 | a cpuset recorded as applied but never written | `after_a_start_stale_cgroups_are_corrected` |
//! | #84749 | rapid creation bypasses the policy | `two_containers_never_share_a_cpu_and_the_fifth_is_refused` |
//! | #119851 | hugepages all from node 0 | `hugepages_come_from_the_containers_node` |
//! | #70585 | quota throttles pinned pods | `a_pods_own_quota_goes_with_its_last_shared_cpu` |
//! | #110216 | best-effort gives an unintelligible error | `best_effort_says_what_there_is_too_little_of` |
//! | koordinator#3129 | an update without its container's id | `a_request_that_lacks_its_container_is_an_error_and_no_more` |

use super::asking::{self, GIB, container};
use super::discover::tree::{Regular, Tree};
use maitred::engine::{Machine, Occupancy, Reserve, admit_container, admit_pod};
use maitred::model::*;
use std::path::Path;
use std::time::{Duration, Instant};

const TWO: Regular = Regular { sockets: 2, nodes_per_socket: 1, cores_per_node: 4, threads: 2 };

fn machine_of(tree: &Tree, reserved: Option<&str>) -> Machine {
    let cpus = reserved.map(|list| list.parse().unwrap());
    Machine::new(&tree.read().unwrap().topology, &Reserve { cpus, ..Reserve::default() }).unwrap()
}

fn policy(topology: TopologyPolicy, options: &[CpuOption]) -> Policy {
    asking::policy(topology, Scope::Pod, options)
}

fn single() -> Policy {
    policy(TopologyPolicy::SingleNumaNode, &[])
}

fn pod(uid: &str, containers: Vec<ContainerRequest>) -> PodRequest {
    PodRequest { uid: uid.into(), namespace: "default".into(), name: uid.into(), containers }
}

fn app(uid: &str, cpus: u64, gib: u64) -> PodRequest {
    pod(uid, vec![container("app", ContainerKind::App, cpus, gib)])
}

/// Admits a pod and books it.
fn admit(machine: &Machine, occupancy: &mut Occupancy, pod: &PodRequest, policy: &Policy) -> Vec<Placement> {
    let placed = admit_pod(machine, occupancy, pod, policy).unwrap();
    for (container, (_, placement)) in pod.containers.iter().zip(&placed) {
        occupancy.reserve(machine, pod.key(container), container.kind, placement);
    }
    placed.into_iter().map(|(_, placement)| placement).collect()
}

fn cpus(placements: &[Placement]) -> Vec<String> {
    placements.iter().map(|placement| placement.cpus.to_string()).collect()
}

fn key(pod: &str, name: &str) -> ContainerKey {
    ContainerKey::new(pod.into(), name.into())
}

#[test]
fn every_test_named_here_exists() {
    fn sources(below: &Path, text: &mut String) {
        for entry in std::fs::read_dir(below).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => sources(&path, text),
                path if path.extension().is_some_and(|end| end == "rs") => {
                    text.push_str(&std::fs::read_to_string(path).unwrap());
                }
                _ => {}
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = String::new();
    ["src", "tests"].iter().for_each(|room| sources(&root.join(room), &mut all));

    let rows: Vec<&str> =
        include_str!("reports.rs").lines().filter(|line| line.starts_with("//! | ")).collect();

    assert_eq!(rows.len(), 22);
    for row in &rows[1..] {
        let name = row.trim_end_matches(" |").rsplit('|').next().unwrap().trim().trim_matches('`');
        assert!(all.contains(&format!("fn {name}(")), "{row}");
    }
}

#[test]
fn thirty_four_nodes_are_decided_at_once() {
    let tree = TWO.tree();
    let row = vec!["20"; 34].join(" ");
    tree.file("sys/devices/system/node/online", "0-33");
    tree.node(0, "0-7", 64 << 20, &row);
    tree.node(1, "8-15", 64 << 20, &row);
    (2..34).for_each(|node| tree.node(node, "", 1 << 20, &row));
    let machine = machine_of(&tree, None);
    for topology in TopologyPolicy::ALL.iter().map(|(_, topology)| *topology) {
        let policy = policy(topology, &[]);
        let start = Instant::now();
        for (cpus, gib) in [(4, 8), (12, 8), (4, 100), (12, 150), (40, 1000)] {
            // Which of these fit is the other tests' matter.
            let _ = admit_pod(&machine, &Occupancy::new(&machine), &app("a", cpus, gib), &policy);
        }
        assert!(start.elapsed() < Duration::from_secs(2), "{topology}: {:?}", start.elapsed());
    }
}

#[test]
fn reserved_cpus_stay_reserved_whatever_is_offline() {
    // The sibling of the reserved CPU 0 is offline, and so is one of the last core.
    let tree = TWO.tree();
    tree.file("sys/devices/system/cpu/online", "0,2-14");
    for cpu in [1, 15] {
        tree.remove(&format!("sys/devices/system/cpu/cpu{cpu}/topology"));
    }
    let machine = machine_of(&tree, Some("0"));
    for options in [&[][..], &[CpuOption::FullPcpusOnly], &[CpuOption::DistributeAcrossCores]] {
        let mut occupancy = Occupancy::new(&machine);
        let policy = policy(TopologyPolicy::None, options);
        let pods = (0..).map(|at| app(&format!("p{at}"), 2, 1));
        let fit = pods.take_while(|pod| match admit_pod(&machine, &occupancy, pod, &policy) {
            Ok(_) => {
                let placed = admit(&machine, &mut occupancy, pod, &policy);
                !placed[0].cpus.contains(CpuId(0))
            }
            Err(_) => false,
        });
        assert_eq!(fit.count(), 6, "{options:?}");
        assert!(!occupancy.exclusive().contains(CpuId(0)), "{options:?}");
    }
}

#[test]
fn an_init_containers_end_takes_nothing_from_the_app() {
    let machine = machine_of(&TWO.tree(), None);
    let mut occupancy = Occupancy::new(&machine);
    let init = container("init", ContainerKind::Init, 4, 8);
    let pod = pod("a", vec![init, container("app", ContainerKind::App, 4, 8)]);

    let placed = admit(&machine, &mut occupancy, &pod, &single());
    occupancy.release(&machine, &key("a", "init"));

    assert_eq!(cpus(&placed), ["2-5", "2-5"]);
    assert_eq!(occupancy.exclusive().to_string(), "2-5");
    assert_eq!(occupancy.free_memory(&machine, NodeId(0), MemoryKind::Memory), Bytes(8 * GIB));
}

#[test]
fn what_only_an_init_container_used_goes_with_the_pod() {
    let machine = machine_of(&TWO.tree(), None);
    let before = Occupancy::new(&machine);
    let mut occupancy = before.clone();
    let init = container("init", ContainerKind::Init, 6, 12);
    let sidecar = container("sidecar", ContainerKind::Sidecar, 2, 1);
    let pod = pod("a", vec![init, sidecar, container("app", ContainerKind::App, 2, 4)]);

    let placed = admit(&machine, &mut occupancy, &pod, &single());

    assert_eq!(cpus(&placed), ["2-7", "2-3", "4-5"]);
    assert_eq!(occupancy.exclusive().to_string(), "2-7");
    assert_eq!(occupancy.free_memory(&machine, NodeId(0), MemoryKind::Memory), Bytes(4 * GIB));
    occupancy.release_pod(&machine, &"a".into());
    assert_eq!(occupancy, before);
}

#[test]
fn a_pods_nodes_suit_its_largest_container() {
    let machine = machine_of(&TWO.tree(), None);
    let mut occupancy = Occupancy::new(&machine);
    let init = container("init", ContainerKind::Init, 2, 1);
    // Node 0 would do for the init container alone.
    let pod = pod("a", vec![init, container("app", ContainerKind::App, 8, 1)]);

    let placed = admit(&machine, &mut occupancy, &pod, &single());

    assert_eq!(cpus(&placed), ["8-9", "8-15"]);
}

#[test]
fn a_full_machine_knows_its_own_again() {
    let machine = machine_of(&TWO.tree(), None);
    let policy = policy(TopologyPolicy::Restricted, &[CpuOption::FullPcpusOnly]);
    let mut occupancy = Occupancy::new(&machine);
    for (uid, cpus) in [("a", 6), ("b", 8)] {
        admit(&machine, &mut occupancy, &app(uid, cpus, 4), &policy);
    }
    let full = occupancy.clone();

    for (uid, asked, had) in [("a", 6, "2-7"), ("b", 8, "8-15")] {
        let again = admit(&machine, &mut occupancy, &app(uid, asked, 4), &policy);
        assert_eq!(cpus(&again), [had]);
        assert_eq!(occupancy, full);
    }
    assert!(admit_pod(&machine, &occupancy, &app("c", 2, 1), &policy).is_err());
}

#[test]
fn memory_that_shrank_below_its_promises_is_no_error() {
    let tree = TWO.tree();
    let larger = machine_of(&tree, None);
    let whole = app("a", 2, 16);
    let placed = admit(&larger, &mut Occupancy::new(&larger), &whole, &single()).remove(0);
    // A few MiB less at the next boot, as firmware and kernel please.
    tree.node(0, "0-7", (16 << 20) - 5000, "10 21");
    let machine = machine_of(&tree, None);
    let mut occupancy = Occupancy::new(&machine);
    let empty = occupancy.clone();

    occupancy.reserve(&machine, key("a", "app"), ContainerKind::App, &placed);

    let free = |occupancy: &Occupancy| occupancy.free_memory(&machine, NodeId(0), MemoryKind::Memory);
    assert_eq!(free(&occupancy), Bytes(0));
    let again = admit_container(&machine, &occupancy, &"a".into(), &whole.containers[0], None, &single());
    assert_eq!(again.unwrap(), placed);
    assert!(
        admit_pod(&machine, &occupancy, &app("b", 2, 1), &single()).unwrap()[0].1.cpus.contains(CpuId(8))
    );
    occupancy.release_pod(&machine, &"a".into());
    assert_eq!(occupancy, empty);
    assert_eq!(free(&occupancy), Bytes(((16 << 20) - 5000) << 10));
}

#[test]
fn a_cpu_that_went_offline_is_not_given_again() {
    let tree = TWO.tree();
    let before = machine_of(&tree, None);
    let placed = admit(&before, &mut Occupancy::new(&before), &app("a", 4, 1), &single()).remove(0);
    assert_eq!(placed.cpus.to_string(), "2-5");
    tree.file("sys/devices/system/cpu/online", "0-4,6-15");
    tree.remove("sys/devices/system/cpu/cpu5/topology");
    let machine = machine_of(&tree, None);
    let mut occupancy = Occupancy::new(&machine);
    occupancy.reserve(&machine, key("a", "app"), ContainerKind::App, &placed);

    let pool = occupancy.shared_pool(&machine, &CpuOptions::default());
    let again = admit_pod(&machine, &occupancy, &app("a", 4, 1), &single()).unwrap().remove(0).1;

    assert_eq!(pool.to_string(), "0-1,6-15");
    assert_eq!(again.cpus.len(), 4);
    assert!(again.cpus.is_subset(machine.online()), "{}", again.cpus);
}

#[test]
fn hugepages_come_from_the_containers_node() {
    let tree = TWO.tree();
    (0..2).for_each(|node| tree.hugepages(node, 1 << 20, 4, 4));
    let machine = machine_of(&tree, None);
    let mut occupancy = Occupancy::new(&machine);
    let with_pages = |uid: &str| {
        let mut pod = app(uid, 6, 1);
        pod.containers[0].hugepages.insert(HugepageSize::GIB1, Bytes(4 * GIB));
        pod
    };

    let first = admit(&machine, &mut occupancy, &with_pages("a"), &single()).remove(0);
    let second = admit(&machine, &mut occupancy, &with_pages("b"), &single()).remove(0);

    assert_eq!((first.mems.to_string(), second.mems.to_string()), ("0".into(), "1".into()));
    let free =
        |node| occupancy.free_memory(&machine, NodeId(node), MemoryKind::Hugepages(HugepageSize::GIB1));
    assert_eq!((free(0), free(1)), (Bytes(0), Bytes(0)));
}

#[test]
fn best_effort_says_what_there_is_too_little_of() {
    let machine = machine_of(&TWO.tree(), None);
    let best = policy(TopologyPolicy::BestEffort, &[]);
    let text = |cpus, gib| {
        admit_pod(&machine, &Occupancy::new(&machine), &app("a", cpus, gib), &best).unwrap_err().to_string()
    };

    assert_eq!(
        text(15, 1),
        "UnexpectedAdmissionError: container app: 15 CPUs needed, more than the 14 that the whole machine has for \
         containers"
    );
    assert_eq!(
        text(2, 40),
        "TopologyAffinityError: container app: 40Gi needed, more than the whole machine has for containers: 32Gi"
    );
}
