//! Beside the kubelet's static CPU Manager: it gives out the CPUs, and everything else is fitted around them.
//!
//! Exclusive CPUs are those its books name (podresources, or its state file). Where they say nothing of a container
//! of whole CPUs, a cpuset of just that size is what the kubelet wrote for it; it writes one for shared containers
//! too, which is larger. CPUs are never changed.

use super::allotted::Known;
use super::annotated::Understood;
use super::seat::{Seated, takes_a_seat};
use super::{Settings, State, sandbox};
use crate::engine::{self, Seat};
use crate::model::{
    ContainerFacts, ContainerKey, ContainerRequest, CpuSet, NodeSet, PodFacts, Policy, Reason, Rejection,
    Scope, TopologyPolicy,
};

/// The exclusive CPUs the kubelet gave a container; `None` is none.
pub(super) fn cpus(
    known: Known<'_>,
    container: &ContainerFacts,
    request: &ContainerRequest,
) -> Option<CpuSet> {
    let told = known.cpus().cloned();
    let written = || {
        let due = request.exclusive_cpus()? as usize;
        container.resources.cpus.parse::<CpuSet>().ok().filter(|cpus| cpus.len() == due)
    };
    told.or_else(written).filter(|cpus| !cpus.is_empty())
}

/// A container's place around its CPUs, or why what it has does not go together.
pub(super) fn seat(
    state: &State,
    pod: &PodFacts,
    container: &ContainerFacts,
    understood: &Understood,
    settings: &Settings,
) -> Result<Option<Seated>, Box<Rejection>> {
    let (asked, policy) = (&understood.request, &understood.policy);
    let cpus = cpus(state.known(&pod.uid, &container.name), container, asked);
    let request = ContainerRequest { opt_out: true, ..asked.clone() };
    if cpus.is_none() && !takes_a_seat(&request, policy) {
        return Ok(None);
    }
    let named = |mut rejection: Rejection| {
        rejection.container = Some(container.name.clone());
        if let Some(cpus) = &cpus {
            rejection.text = format!("the kubelet gave it CPUs {cpus}: {}", rejection.text);
        }
        Box::new(rejection)
    };
    let occupancy = &*state.occupancy_for(&ContainerKey::new(pod.uid.clone(), container.name.clone()));
    let others = policy.scope == Scope::Pod && !of_pod(state, pod).is_empty();
    let seat = match &cpus {
        Some(own) => around(state, pod, own, policy).map_err(named)?,
        None if others => around(state, pod, &CpuSet::new(), policy).map_err(named)?,
        None => sandbox::seat(state, occupancy, pod, &request, settings, policy).map_err(named)?,
    };
    let machine = state.ledger.machine();
    let placed = engine::admit_container(machine, occupancy, &pod.uid, &request, seat.as_ref(), policy);
    let mut placement = placed.map_err(named)?;
    placement.cpus = cpus.unwrap_or_default();
    super::check_eligible(asked, settings.ineligible)?;
    Ok(Some(Seated { placement, seat, swap: None }))
}

/// The nodes of the CPUs, if the policy allows so many. Where the pod sits as one, those of all its CPUs.
fn around(state: &State, pod: &PodFacts, own: &CpuSet, policy: &Policy) -> Result<Option<Seat>, Rejection> {
    if policy.topology == TopologyPolicy::None {
        return Ok(None);
    }
    let all = match policy.scope {
        Scope::Container => own.clone(),
        Scope::Pod => of_pod(state, pod).union(own),
    };
    let nodes = state.topology.nodes_of(&all);
    let fewest = fewest(state, all.len());
    let most = match policy.topology {
        TopologyPolicy::SingleNumaNode => 1,
        TopologyPolicy::Restricted => fewest,
        TopologyPolicy::BestEffort | TopologyPolicy::None => usize::MAX,
    };
    if nodes.len() > most {
        return Err(too_wide(&all, &nodes, policy));
    }
    let preferred = nodes.len() <= fewest;
    Ok(Some(Seat { affinity: Some(nodes), preferred }))
}

fn of_pod(state: &State, pod: &PodFacts) -> CpuSet {
    let containers = state.allotments.get(&pod.uid).into_iter().flat_map(|pod| pod.containers.values());
    containers.filter_map(|one| one.cpus.as_ref()).fold(CpuSet::new(), |all, cpus| all.union(cpus))
}

/// On how many nodes so many CPUs could be at the least.
fn fewest(state: &State, cpus: usize) -> usize {
    let mut sizes: Vec<usize> = state.topology.numa_nodes.iter().map(|node| node.cpus.len()).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut left = cpus;
    let enough = sizes.iter().take_while(|size| {
        let more = left > 0;
        left = left.saturating_sub(**size);
        more
    });
    enough.count().max(1)
}

fn too_wide(cpus: &CpuSet, nodes: &NodeSet, policy: &Policy) -> Rejection {
    let text = format!("CPUs {cpus} are on {}, more than policy {} allows", nodes.words(), policy.topology);
    let (candidates, weaker, largest) = (Vec::new(), None, None);
    Rejection { reason: Reason::TopologyAffinity, container: None, text, candidates, weaker, largest }
}
