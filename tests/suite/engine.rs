//! Properties of the engine over random machines and random comings and goings.

mod books;
mod extremes;
mod largest;
mod naive;
mod plan;
mod verdict;

use crate::steps::run;
use books::{Booked, Node};
use maitred::engine::{Machine, Occupancy, admit_container, admit_pod, choose_seat};
use maitred::model::*;
use naive::{Aligned, Naive};
use plan::{Plan, Step};
use proptest::prelude::*;
use std::ops::RangeInclusive;
use verdict::Verdict;

/// A second's worth; as many as wanted in a long run.
const CASES: RangeInclusive<u32> = 200..=u32::MAX;

type Case = (Plan, Policy, Vec<Step>);

fn cases() -> impl Strategy<Value = Case> {
    (plan::plan(), plan::policy(), plan::steps())
}

#[test]
fn nothing_is_given_twice_and_nothing_reserved_or_offline() {
    run("nothing_is_given_twice", CASES, &cases(), |(plan, policy, steps)| {
        let mut node = Node::new(plan.machine());
        for (at, step) in steps.iter().enumerate() {
            node.apply(at, step, &policy);
            node.booked.check_exclusive(&node.machine)?;
            node.booked.check_memory(&node.machine, &node.occupancy)?;
            let pool = node.occupancy.shared_pool(&node.machine, &policy.cpu);
            let never = Occupancy::new(&node.machine).shared_pool(&node.machine, &policy.cpu).is_empty();
            prop_assert!(never || !pool.is_empty());
        }
        Ok(steps.len())
    });
}

#[test]
fn the_same_inputs_have_the_same_outcome() {
    run("the_same_inputs", CASES, &cases(), |(plan, policy, steps)| {
        let (mut node, mut twin) = (Node::new(plan.machine()), Node::new(plan.machine()));
        for (at, step) in steps.iter().enumerate() {
            if let Step::Admit(pod) = step {
                let pod = pod.request(at);
                let first = admit_pod(&node.machine, &node.occupancy, &pod, &policy);
                let (machine, occupancy) = (node.machine.clone(), node.occupancy.clone());
                prop_assert_eq!(&admit_pod(&machine, &occupancy, &pod, &policy), &first);
                prop_assert_eq!(&admit_pod(&twin.machine, &twin.occupancy, &pod, &policy), &first);
                prop_assert_eq!(&occupancy, &node.occupancy);
            }
            node.apply(at, step, &policy);
            twin.apply(at, step, &policy);
            prop_assert_eq!(&node.occupancy, &twin.occupancy);
        }
        Ok(steps.len())
    });
}

#[test]
fn what_is_given_back_leaves_no_trace() {
    run("what_is_given_back", CASES, &(cases(), any::<u64>()), |((plan, policy, steps), order)| {
        let mut node = Node::new(plan.machine());
        for (at, step) in steps.iter().enumerate() {
            let before = node.occupancy.clone();
            node.apply(at, step, &policy);
            if let Step::Admit(pod) = step {
                let pod = pod.request(at);
                let mut without = node.occupancy.clone();
                without.release_pod(&node.machine, &pod.uid);
                prop_assert_eq!(&without, &before);
                let mut one_by_one = node.occupancy.clone();
                pod.containers.iter().for_each(|one| one_by_one.release(&node.machine, &pod.key(one)));
                prop_assert_eq!(&one_by_one, &before);
            }
        }
        let machine = &node.machine;
        let mut pods: Vec<PodUid> = node.booked.0.keys().cloned().collect();
        let mut forward = node.occupancy.clone();
        pods.iter().for_each(|pod| forward.release_pod(machine, pod));
        shuffle(&mut pods, order);
        pods.iter().for_each(|pod| node.occupancy.release_pod(machine, pod));
        prop_assert_eq!(&forward, &Occupancy::new(machine));
        prop_assert_eq!(&node.occupancy, &forward);
        Ok(steps.len())
    });
}

#[test]
fn the_order_things_are_told_in_decides_nothing() {
    run("the_order", CASES, &(cases(), any::<u64>()), |((plan, policy, steps), order)| {
        let mut shuffled = plan.topology();
        shuffle(&mut shuffled.numa_nodes, order);
        shuffle(&mut shuffled.packages, order);
        shuffle(&mut shuffled.cores, order);
        shuffle(&mut shuffled.llcs, order);
        let (mut node, mut other) = (Node::new(plan.machine()), Node::new(plan.machine_of(&shuffled)));
        for (at, step) in steps.iter().enumerate() {
            if let Step::Admit(pod) = step {
                let pod = pod.request(at);
                let one = admit_pod(&node.machine, &node.occupancy, &pod, &policy);
                prop_assert_eq!(one, admit_pod(&other.machine, &other.occupancy, &pod, &policy));
            }
            node.apply(at, step, &policy);
            other.apply(at, step, &policy);
        }
        // Pods that were there one after the other could have come the other way round.
        let mut again = Occupancy::new(&node.machine);
        let mut pods: Vec<_> = node.booked.0.iter().collect();
        shuffle(&mut pods, order);
        pods.iter().for_each(|(uid, all)| Booked::reserve(&mut again, &node.machine, uid, all));
        prop_assert_eq!(&again, &node.occupancy);
        Ok(steps.len())
    });
}

/// The same order for the same number, whatever is ordered.
fn shuffle<T>(all: &mut [T], mut seed: u64) {
    for last in (1..all.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all.swap(last, (seed >> 33) as usize % (last + 1));
    }
}

#[test]
fn seats_where_trying_everything_does_and_refuses_only_what_has_no_place() {
    run("as_trying_everything", CASES, &cases(), |(plan, policy, steps)| {
        let (mut node, mut naive) = (Node::new(plan.machine()), plan.naive());
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Remove(which) => drop(node.remove(*which).map(|uid| naive.release(&uid))),
                Step::Admit(pod) => compare(&mut node, &mut naive, &pod.request(at), &policy)?,
            }
        }
        Ok(steps.len())
    });
}

/// Both ways of deciding about a pod, container by container, and the engine's about all at once.
fn compare(
    node: &mut Node,
    naive: &mut Naive,
    pod: &PodRequest,
    policy: &Policy,
) -> Result<(), TestCaseError> {
    let whole = admit_pod(&node.machine, &node.occupancy, pod, policy);
    let before = naive.clone();
    let placements = match seated(&node.machine, node.occupancy.clone(), naive, pod, policy)? {
        Some(placements) => placements,
        None => {
            prop_assert!(whole.is_err(), "one by one refused, at once {whole:?}");
            *naive = before;
            return Ok(());
        }
    };
    prop_assert_eq!(whole.as_ref().ok(), Some(&placements));
    node.book(pod, placements);
    Ok(())
}

/// The placements of a pod, if it is admitted; the naive way agrees, or it is an error.
fn seated(
    machine: &Machine,
    mut occupancy: Occupancy,
    naive: &mut Naive,
    pod: &PodRequest,
    policy: &Policy,
) -> Result<Option<Vec<(ContainerName, Placement)>>, TestCaseError> {
    let together = policy.scope == Scope::Pod && policy.topology != TopologyPolicy::None;
    let (mut seat, mut aligned) = (None, None);
    if together {
        let sum = naive::Sum::of_pod(&pod.containers, policy);
        let chosen = choose_seat(machine, &occupancy, pod, policy);
        aligned = naive.align(&pod.uid, &sum, policy);
        let Ok(chosen) = chosen else {
            prop_assert!(aligned.is_none() || !has_pages(machine, pod), "{chosen:?} but {aligned:?}");
            return Ok(None);
        };
        let affinity = chosen.affinity.as_ref().map(|nodes| naive.bits(nodes));
        prop_assert_eq!(aligned, Some(Aligned { nodes: affinity, preferred: chosen.preferred }));
        seat = Some(chosen);
    }
    let mut placements = Vec::new();
    for request in &pod.containers {
        let verdict = naive.verdict(&pod.uid, request, aligned, policy);
        match admit_container(machine, &occupancy, &pod.uid, request, seat.as_ref(), policy) {
            Ok(placement) => {
                let nodes = placement.affinity.as_ref().map(|nodes| naive.bits(nodes));
                let found = Aligned { nodes, preferred: placement.preferred };
                prop_assert!(matches!(verdict, Verdict::Fits(_) | Verdict::Depends), "{placement:?}");
                prop_assert!(
                    verdict == Verdict::Fits(found) || verdict == Verdict::Depends,
                    "{verdict:?} {placement:?}"
                );
                occupancy.reserve(machine, pod.key(request), request.kind, &placement);
                naive.book(&pod.uid, request.kind, &placement);
                placements.push((request.name.clone(), placement));
            }
            Err(rejection) => {
                prop_assert!(!matches!(verdict, Verdict::Fits(_)), "{rejection} but {verdict:?}");
                return Ok(None);
            }
        }
    }
    Ok(Some(placements))
}

/// Whether the machine has pages of every size that is asked for.
fn has_pages(machine: &Machine, pod: &PodRequest) -> bool {
    let mut sizes = pod.containers.iter().flat_map(|request| request.hugepages.keys());
    sizes.all(|size| machine.memory_kinds().any(|kind| kind == MemoryKind::Hugepages(*size)))
}
