//! What a rejection says would fit: asked for, it does; one more of anything does not.

use super::books::Node;
use super::plan::{Plan, Step};
use super::{CASES, cases};
use crate::steps::run;
use maitred::engine::admit_pod;
use maitred::model::*;
use proptest::prelude::*;

#[test]
fn the_largest_that_would_fit_fits_and_one_more_does_not() {
    run("the_largest", CASES, &cases(), |(plan, policy, steps)| {
        let mut node = Node::new(plan.machine());
        for (at, step) in steps.iter().enumerate() {
            if let Step::Admit(pod) = step {
                let mut pod = pod.request(at);
                pod.containers.truncate(1);
                // There is no pod of an init container alone.
                pod.containers[0].kind = ContainerKind::App;
                if let Err(rejection) = admit_pod(&node.machine, &node.occupancy, &pod, &policy) {
                    check(&plan, &node, &policy, &pod, &rejection)?;
                }
            }
            node.apply(at, step, &policy);
        }
        Ok(steps.len())
    });
}

fn check(
    plan: &Plan,
    node: &Node,
    policy: &Policy,
    pod: &PodRequest,
    rejection: &Rejection,
) -> Result<(), TestCaseError> {
    let Some(largest) = &rejection.largest else { return Ok(()) };
    let fits = |amounts: &[(Resource, u64)]| {
        admit_pod(&node.machine, &node.occupancy, &asking(pod, amounts), policy).is_ok()
    };
    prop_assert!(fits(&largest.amounts), "{rejection:?}");
    // A pod that was given its nodes for all it asked for keeps them; asked anew for less it may be given others.
    if policy.scope == Scope::Pod && policy.topology != TopologyPolicy::None {
        return Ok(());
    }
    for (at, (resource, amount)) in largest.amounts.iter().enumerate() {
        let mut more = largest.amounts.clone();
        more[at].1 = amount + step(plan, policy, resource);
        let asked = amount_of(&pod.containers[0], resource);
        prop_assert!(asked < more[at].1 || !fits(&more), "{more:?} would fit too: {rejection:?}");
    }
    Ok(())
}

/// The smallest amount that makes a difference.
fn step(plan: &Plan, policy: &Policy, resource: &Resource) -> u64 {
    let threads = || plan.topology().cores.iter().map(|core| core.cpus.len()).max().unwrap_or(1);
    match resource {
        Resource::Cpu if policy.cpu.has(CpuOption::FullPcpusOnly) => threads() as u64,
        Resource::Memory(MemoryKind::Memory) => 1 << 20,
        Resource::Memory(MemoryKind::Hugepages(size)) => size.bytes(),
        Resource::Cpu | Resource::Device(_) => 1,
    }
}

fn amount_of(request: &ContainerRequest, resource: &Resource) -> u64 {
    match resource {
        Resource::Cpu => request.cpu_milli / 1000,
        Resource::Memory(MemoryKind::Memory) => request.memory.0,
        Resource::Memory(MemoryKind::Hugepages(size)) => request.hugepages.get(size).map_or(0, |it| it.0),
        Resource::Device(name) => match request.devices.get(name) {
            Some(DeviceRequest::Count(count)) => u64::from(*count),
            _ => 0,
        },
    }
}

/// The pod with other amounts; what it names it still names.
fn asking(pod: &PodRequest, amounts: &[(Resource, u64)]) -> PodRequest {
    let mut pod = pod.clone();
    let request = &mut pod.containers[0];
    for (resource, amount) in amounts {
        match resource {
            Resource::Cpu => request.cpu_milli = amount * 1000,
            Resource::Memory(MemoryKind::Memory) => request.memory = Bytes(*amount),
            Resource::Memory(MemoryKind::Hugepages(size)) => {
                request.hugepages.insert(*size, Bytes(*amount));
            }
            Resource::Device(name) => {
                if let Some(DeviceRequest::Count(count)) = request.devices.get_mut(name) {
                    *count = *amount as u32;
                }
            }
        }
    }
    pod
}
