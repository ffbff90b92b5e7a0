//! A holding's life, and what two holdings cannot share.

use super::*;
use crate::engine::{Machine, Occupancy, Reserve, Seat};

use crate::model::{
    ContainerKey, ContainerKind, Core, CpuId, CpuOptions, CpuSet, NodeId, NumaNode, Package, PackageId,
    Placement, Topology,
};
use std::sync::Arc;

/// Eight CPUs, of which 0 is reserved.
fn ledger() -> Ledger {
    let cpus: CpuSet = (0..8).map(CpuId).collect();
    let core = |cpu| Core { package: PackageId(0), cpus: CpuSet::single(cpu) };
    let node = NumaNode {
        id: NodeId(0),
        cpus: cpus.clone(),
        memory_bytes: 0,
        hugepages: [].into(),
        distances: [].into(),
    };
    let topology = Topology {
        packages: vec![Package { id: PackageId(0), cpus: cpus.clone() }],
        numa_nodes: vec![node],
        cores: cpus.iter().map(core).collect(),
        cpus,
        ..Topology::default()
    };
    Ledger::new(Arc::new(Machine::new(&topology, &Reserve::default()).unwrap()))
}

fn key(pod: &str) -> ContainerKey {
    ContainerKey::new(pod.into(), "main".into())
}

fn cpus(list: &str) -> Placement {
    Placement { cpus: list.parse().unwrap(), ..Placement::default() }
}

fn decide(ledger: &mut Ledger, pod: &str, id: &str, list: &str) {
    ledger.reserve(key(pod), Some(id.into()), ContainerKind::Unknown, cpus(list));
}

fn pool(ledger: &Ledger) -> String {
    ledger.shared_pool(&CpuOptions::default()).to_string()
}

#[test]
fn what_is_decided_leaves_the_pool_and_what_is_lent_returns_to_it() {
    let mut ledger = ledger();
    decide(&mut ledger, "a", "1", "2-3");
    assert_eq!(pool(&ledger), "0-1,4-7");

    assert!(ledger.confirm(&key("a"), &"1".into()));
    assert!(ledger.lend(&key("a"), &"1".into()));

    assert_eq!(pool(&ledger), "0-7");
    assert_eq!(ledger.occupancy().free_cpus(ledger.machine()).to_string(), "1,4-7");
    assert!(!ledger.confirm(&key("a"), &"1".into()));
}

#[test]
fn only_the_current_attempt_counts() {
    let mut ledger = ledger();
    decide(&mut ledger, "a", "1", "2-3");
    ledger.confirm(&key("a"), &"1".into());
    decide(&mut ledger, "a", "2", "2-3");
    let before = ledger.generation();

    assert!(!ledger.lend(&key("a"), &"1".into()));
    assert!(!ledger.confirm(&key("a"), &"1".into()));
    assert!(!ledger.abandon(&"1".into()));

    assert_eq!(ledger.generation(), before);
    assert_eq!(ledger.get(&key("a")).unwrap().state, HoldingState::Decided);
}

#[test]
fn an_abandoned_restart_falls_back_to_what_was_lent() {
    let mut ledger = ledger();
    decide(&mut ledger, "a", "1", "2-3");
    ledger.confirm(&key("a"), &"1".into());
    ledger.lend(&key("a"), &"1".into());
    decide(&mut ledger, "a", "2", "2-3");
    decide(&mut ledger, "a", "3", "2-3");

    assert!(ledger.abandon(&"3".into()));

    let holding = ledger.get(&key("a")).unwrap();
    assert_eq!((holding.state, holding.id.clone()), (HoldingState::Lent, Some("1".into())));
    assert_eq!(pool(&ledger), "0-7");
}

#[test]
fn an_abandoned_first_attempt_leaves_nothing() {
    let mut ledger = ledger();
    decide(&mut ledger, "a", "1", "2-3");

    assert!(ledger.abandon(&"1".into()));

    assert!(ledger.get(&key("a")).is_none());
    assert_eq!(ledger.occupancy(), &Occupancy::new(ledger.machine()));
    assert!(!ledger.abandon(&"1".into()));
}

#[test]
fn what_was_taken_meanwhile_does_not_come_back() {
    let mut ledger = ledger();
    decide(&mut ledger, "a", "1", "2-3");
    ledger.confirm(&key("a"), &"1".into());
    decide(&mut ledger, "a", "2", "4-5");
    decide(&mut ledger, "b", "3", "2-3");

    assert!(ledger.abandon(&"2".into()));

    assert!(ledger.get(&key("a")).is_none());
    assert_eq!(pool(&ledger), "0-1,4-7");
}

#[test]
fn a_pod_gives_everything_back_with_its_seat() {
    let mut ledger = ledger();
    let empty = ledger.occupancy().clone();
    decide(&mut ledger, "a", "1", "2-3");
    ledger.set_seat("a".into(), Seat { affinity: None, preferred: true });

    assert!(ledger.release_pod(&"a".into()));

    assert_eq!((ledger.seat(&"a".into()), ledger.occupancy()), (None, &empty));
    assert!(!ledger.release_pod(&"a".into()));
    assert!(!ledger.release(&key("a")));
}

#[test]
fn only_what_nobody_holds_is_adopted() {
    let mut ledger = ledger();
    let adopt = |ledger: &mut Ledger, pod: &str, list: &str| {
        ledger.adopt(key(pod), "1".into(), ContainerKind::Unknown, cpus(list))
    };

    assert_eq!(adopt(&mut ledger, "a", "2-3"), Ok(()));
    assert_eq!(adopt(&mut ledger, "a", "2-4"), Ok(()));
    let taken = adopt(&mut ledger, "b", "4-5").unwrap_err();
    let offline = adopt(&mut ledger, "b", "7-8").unwrap_err();

    assert_eq!(taken.to_string(), "CPUs 4 are held by a/main");
    assert_eq!(offline.to_string(), "CPUs 8 are not online: the machine has 0-7");
    assert_eq!(ledger.get(&key("a")).unwrap().state, HoldingState::Confirmed);
    assert!(ledger.get(&key("b")).is_none());
}

#[test]
fn a_device_is_adopted_once() {
    let mut ledger = ledger();
    let gpu = |id: &str| Placement {
        devices: [("nvidia.com/gpu".into(), [id.into()].into())].into(),
        ..Placement::default()
    };
    ledger.adopt(key("a"), "1".into(), ContainerKind::Unknown, gpu("GPU-1")).unwrap();

    let error = ledger.adopt(key("b"), "2".into(), ContainerKind::Unknown, gpu("GPU-1")).unwrap_err();

    assert_eq!(error.to_string(), "nvidia.com/gpu GPU-1 is held by a/main");
    assert!(ledger.adopt(key("b"), "2".into(), ContainerKind::Unknown, gpu("GPU-2")).is_ok());
}
