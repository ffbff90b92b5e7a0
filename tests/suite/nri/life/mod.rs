//! The life of a node through the real NRI code: a containerd that is played from the facts, a socket, and behind it
//! the daemon as it runs, with cgroups and a store in memory. Pods come and go, side by side; containerd and maitred
//! die at any step and come back; events get lost, come twice, or are about nobody.
//!
//! `PROPTEST_CASES=N` for a longer life, up to 2000: each has a daemon of its own.

mod check;
mod end;
mod messages;
mod node;
mod ops;
mod sim;
mod world;

use super::runtime_side;
use crate::churn::machines;
use maitred::config::Config;
use node::Node;
use ops::{Op, op};
use proptest::prelude::*;
use proptest::sample::select;

/// One that tells by StateChange and one that has a call for each event.
const VERSIONS: [&str; 2] = ["v2.1.9", "v2.3.0"];

fn config() -> impl Strategy<Value = String> {
    let policies = select(vec!["single-numa-node", "restricted", "best-effort", "none"]);
    let scopes = select(vec!["pod", "container"]);
    let managers = select(vec!["static", "static", "none"]);
    (policies, scopes, managers).prop_map(|(policy, scope, manager)| text(policy, scope, manager))
}

fn text(policy: &str, scope: &str, manager: &str) -> String {
    format!(
        "version = 1\n[policy]\ntopology = \"{policy}\"\nscope = \"{scope}\"\n[memory]\nmanager = \"{manager}\"\n\
         [gpu]\nannotation_pool = \"all\"\n[cpu]\nreserved_namespaces = [\"reserved\"]\n\
         [annotations]\ntrusted_namespaces = [\"trusted\"]\n[exempt]\nnamespaces = [\"kube-system\"]"
    )
}

/// Operations that begin together.
fn burst() -> impl Strategy<Value = Vec<Op>> {
    prop_oneof![3 => proptest::collection::vec(op(), 1), 1 => proptest::collection::vec(op(), 2..6)]
}

#[test]
fn nothing_is_given_twice_and_nothing_is_lost_over_the_socket() {
    let strategy =
        (0..machines::COUNT, select(VERSIONS.to_vec()), config(), proptest::collection::vec(burst(), 1..80));
    let resident = resident();
    crate::steps::run("life over NRI", 60..=2000, &strategy, |(machine, version, config, bursts)| {
        Ok(live(machine, version, &config, &bursts))
    });
    println!("resident before {resident}, after {}", self::resident());
}

/// One life, to its end; how many requests that was.
fn live(machine: usize, version: &'static str, config: &str, bursts: &[Vec<Op>]) -> usize {
    let config = Config::parse(config, "the test's configuration").unwrap();
    runtime_side(async {
        let node = Node::new(machines::machine(machine), config, version).await;
        for burst in bursts {
            futures::future::join_all(burst.iter().map(|op| node.apply(op))).await;
            node.check(&format!("after {burst:?}")).await;
        }
        node.end().await;
        node.requests.get()
    })
}

/// Found by a long run: a pod that containerd tells no end of ends while one more container of it is being made.
#[test]
fn a_create_in_a_pod_that_ends_untold_keeps_no_cpu() {
    let config = text("single-numa-node", "pod", "static");
    let create = |name, dies| Op::Create { pod: 0, name, start: false, dies };
    let bursts = [
        vec![Op::Run { class: 0, flavour: 8 }, Op::Containerd { ends: None }],
        vec![create(2, 0)],
        vec![create(1, 3), Op::StopPod { pod: 0, told: false, twice: false }],
        vec![Op::Run { class: 0, flavour: 0 }],
        vec![Op::Run { class: 0, flavour: 0 }],
    ];
    live(3, VERSIONS[0], &config, &bursts);
}

fn resident() -> String {
    super::measure::resident(std::process::id())
}
