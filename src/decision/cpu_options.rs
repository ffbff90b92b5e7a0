//! `cpu-options.maitred.io`: options of the static CPU policy for one pod or container.
//!
//! The options named are added to the node's; a trusted namespace's replace them. What stays the node's in
//! any case is strict-cpu-reservation, which is about everybody's shared pool. align-by-socket is for
//! trusted namespaces, because it takes placements over several nodes for aligned; the others refuse more,
//! or only choose among the CPUs that would do.

use crate::model::{CpuOption, CpuOptions, Topology, TopologyPolicy};
use std::collections::BTreeSet;

/// Options that cannot be in force together, or not here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum OptionsError {
    /// Both are named.
    #[error("annotation cpu-options.maitred.io names {one} and {other}: expected one of the two")]
    Both { one: CpuOption, other: CpuOption },
    /// One is named, and the other is the node's.
    #[error("annotation cpu-options.maitred.io names {one}, which excludes this node's {other}")]
    Node { one: CpuOption, other: CpuOption },
    /// One node is always within one socket.
    #[error("annotation cpu-options.maitred.io names {0}: expected a policy other than single-numa-node")]
    SingleNode(CpuOption),
    /// Sockets are no sets of nodes.
    #[error(
        "annotation cpu-options.maitred.io names {option}: expected it where sockets are no more than NUMA nodes with CPUs, this machine has {sockets} and {nodes}"
    )]
    Sockets { option: CpuOption, sockets: usize, nodes: usize },
}

/// The options in force for a container with these wishes under this policy.
pub(super) fn in_force(
    wish: Option<&CpuOptions>,
    policy: TopologyPolicy,
    trusted: bool,
    node: &CpuOptions,
    topology: &Topology,
) -> Result<CpuOptions, OptionsError> {
    let none = CpuOptions::default();
    let named = wish.unwrap_or(&none);
    let kept = |option: &CpuOption| !(trusted && wish.is_some()) || *option == CpuOption::StrictReservation;
    let kept: BTreeSet<CpuOption> = node.0.iter().copied().filter(kept).collect();
    let options = CpuOptions(kept.union(&named.0).copied().collect());
    for one in &named.0 {
        match options.rival(*one) {
            Some(other) if named.has(other) => return Err(OptionsError::Both { one: *one, other }),
            Some(other) => return Err(OptionsError::Node { one: *one, other }),
            None => {}
        }
    }
    check_sockets(named, policy, topology)?;
    Ok(options)
}

fn check_sockets(
    named: &CpuOptions,
    policy: TopologyPolicy,
    topology: &Topology,
) -> Result<(), OptionsError> {
    if !named.has(CpuOption::AlignBySocket) {
        return Ok(());
    }
    if policy == TopologyPolicy::SingleNumaNode {
        return Err(OptionsError::SingleNode(CpuOption::AlignBySocket));
    }
    let sockets = topology.packages.len();
    let nodes = topology.numa_nodes.iter().filter(|node| !node.cpus.is_empty()).count();
    match sockets > nodes {
        true => Err(OptionsError::Sockets { option: CpuOption::AlignBySocket, sockets, nodes }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::machine;
    use super::*;
    use crate::model::CpuSet;

    fn options(words: &str) -> CpuOptions {
        CpuOptions(words.split_whitespace().map(|word| word.parse().unwrap()).collect())
    }

    /// The options in force, or what is wrong, under restricted.
    fn asked(wish: Option<&str>, trusted: bool, node: &str) -> Result<CpuOptions, String> {
        let policy = TopologyPolicy::Restricted;
        in_force(wish.map(options).as_ref(), policy, trusted, &options(node), &machine())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_tenants_options_are_added_and_a_trusted_ones_replace() {
        let node = "full-pcpus-only strict-cpu-reservation";
        let both = "full-pcpus-only strict-cpu-reservation distribute-cpus-across-numa";
        let wish = Some("distribute-cpus-across-numa");
        assert_eq!(asked(None, true, node), Ok(options(node)));
        assert_eq!(asked(wish, false, node), Ok(options(both)));
        assert_eq!(
            asked(wish, true, node),
            Ok(options("strict-cpu-reservation distribute-cpus-across-numa"))
        );
        assert_eq!(asked(Some(""), true, node), Ok(options("strict-cpu-reservation")));
        assert_eq!(asked(Some(""), false, node), Ok(options(node)));
    }

    #[test]
    fn what_excludes_another_is_said_with_whose_it_is() {
        let spread = "distribute-cpus-across-cores";
        assert_eq!(
            asked(Some(spread), false, "full-pcpus-only").unwrap_err(),
            "annotation cpu-options.maitred.io names distribute-cpus-across-cores, which excludes this node's full-pcpus-only"
        );
        assert_eq!(asked(Some(spread), true, "full-pcpus-only"), Ok(options(spread)));
        let both = asked(Some("distribute-cpus-across-numa prefer-align-cpus-by-uncorecache"), true, "");
        assert!(both.unwrap_err().ends_with(": expected one of the two"));
    }

    #[test]
    fn sockets_are_for_machines_and_policies_that_know_more_than_one_node() {
        let by_socket = options("align-by-socket");
        let none = CpuOptions::default();
        let of = |policy, machine: &Topology| {
            in_force(Some(&by_socket), policy, true, &none, machine).map_err(|error| error.to_string())
        };
        let mut torn = machine();
        let ids = torn.cpus.iter().map(|cpu| crate::model::PackageId(cpu.0));
        torn.packages = ids.map(|id| crate::model::Package { id, cpus: CpuSet::new() }).collect();
        assert_eq!(of(TopologyPolicy::Restricted, &machine()), Ok(by_socket.clone()));
        let single = of(TopologyPolicy::SingleNumaNode, &machine()).unwrap_err();
        assert!(
            single.ends_with("align-by-socket: expected a policy other than single-numa-node"),
            "{single}"
        );
        let sockets = of(TopologyPolicy::Restricted, &torn).unwrap_err();
        assert!(sockets.contains("this machine has 16 and "), "{sockets}");
        // The node's own option is no matter where a pod's policy is stricter.
        let stricter = in_force(None, TopologyPolicy::SingleNumaNode, false, &by_socket, &machine());
        assert_eq!(stricter, Ok(by_socket));
    }
}
