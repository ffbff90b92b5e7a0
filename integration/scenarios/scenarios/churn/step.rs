//! What happens next, drawn from what there is.

use super::life::Life;
use super::room::{Ask, Class};
use crate::machine::Machine;
use fastrand::Rng;

/// Pods and those that wait are named by their place in their list.
#[derive(Debug)]
pub enum Step {
    /// Pods end, containers that have ended are made anew, and pods are made, all at the same moment.
    Turnover { ends: Vec<usize>, restarts: Vec<usize>, makes: Vec<Ask> },
    /// A pod that was refused is tried again, as the kubelet does.
    Retry(usize),
    /// A container ends and its pod lives on: stopped by CRI, or killed.
    Stop { pod: usize, killed: bool },
    /// The container's resources are stated again, with every CPU and node of the machine or without any.
    Update { pod: usize, widened: bool },
    /// maitred is killed and started again.
    Maitred(Meanwhile),
    /// containerd is; one container dies while nobody looks.
    Containerd { dies: Option<usize> },
}

/// What happens while maitred is away.
#[derive(Debug)]
pub enum Meanwhile {
    Nothing,
    Stop(usize),
    End(usize),
    /// A pod of the shared pool is made.
    Shared,
}

impl Step {
    pub fn draw(life: &Life, rng: &mut Rng, machine: &Machine) -> Step {
        let (up, down) = (life.places(true), life.places(false));
        match rng.u32(..100) {
            0..5 if !up.is_empty() => Step::Maitred(meanwhile(rng, &up)),
            5..8 => Step::Containerd { dies: rng.choice(&up).copied().filter(|_| rng.bool()) },
            8..28 if !up.is_empty() => {
                Step::Stop { pod: pick(rng, &rather_pinned(life, &up)), killed: rng.bool() }
            }
            28..37 if !up.is_empty() => Step::Update { pod: pick(rng, &up), widened: rng.bool() },
            37..46 if !life.waiting.is_empty() => Step::Retry(rng.usize(..life.waiting.len())),
            _ => turnover(life, rng, machine, &down),
        }
    }

    /// What each life begins with, whatever its seed: a node that nobody looks after is found out at once.
    pub fn first() -> Step {
        let makes = vec![Ask::of(Class::Pinned(1)), Ask::of(Class::Burstable)];
        Step::Turnover { ends: Vec::new(), restarts: Vec::new(), makes }
    }
}

/// Who ends is none of those that are restarted.
fn turnover(life: &Life, rng: &mut Rng, machine: &Machine, down: &[usize]) -> Step {
    let mut others: Vec<usize> = (0..life.tenants.len()).collect();
    let mut restarts = down.to_vec();
    rng.shuffle(&mut restarts);
    restarts.truncate(rng.usize(..3));
    others.retain(|place| !restarts.contains(place));
    rng.shuffle(&mut others);
    let full = life.tenants.len() >= life.most_tenants;
    let ends: Vec<usize> = others.into_iter().take(if full { 2 } else { rng.usize(..3) / 2 }).collect();
    let idle = ends.is_empty() && restarts.is_empty();
    let count = if full { 0 } else { rng.usize(usize::from(idle)..3) };
    let makes = (0..count).map(|_| likely(life, rng, machine)).collect();
    Step::Turnover { ends, restarts, makes }
}

/// What fits no more is drawn a second time: else a full node would see little but refusals. Not while a place is
/// kept for a container that has ended: that it is kept only shows when somebody wants it.
fn likely(life: &Life, rng: &mut Rng, machine: &Machine) -> Ask {
    let first = ask(rng, machine);
    let kept = life.tenants.iter().any(|tenant| !tenant.up);
    if kept || life.room(machine).fits(first) { first } else { ask(rng, machine) }
}

/// Those with CPUs of their own, where there are any: to lend CPUs and to have them back is what is easily got
/// wrong.
fn rather_pinned(life: &Life, places: &[usize]) -> Vec<usize> {
    let pinned: Vec<usize> = places.iter().copied().filter(|place| life.tenants[*place].pinned()).collect();
    if pinned.is_empty() { places.to_vec() } else { pinned }
}

fn pick(rng: &mut Rng, places: &[usize]) -> usize {
    places[rng.usize(..places.len())]
}

fn meanwhile(rng: &mut Rng, up: &[usize]) -> Meanwhile {
    match rng.u32(..4) {
        0 => Meanwhile::Nothing,
        1 => Meanwhile::Stop(pick(rng, up)),
        2 => Meanwhile::End(pick(rng, up)),
        _ => Meanwhile::Shared,
    }
}

/// Most fit an empty node of this machine; a few fit none.
fn ask(rng: &mut Rng, machine: &Machine) -> Ask {
    let class = match rng.u32(..20) {
        0..12 => Class::Pinned(1 + rng.u64(..machine.widest())),
        12 => Class::Pinned(machine.widest() + 1),
        13..15 => Class::Fractional,
        15..18 => Class::Burstable,
        _ => return Ask::of(Class::BestEffort),
    };
    let most_gpus = machine.nodes.iter().map(|numa| machine.gpus_on(numa.id).len()).max().unwrap_or(0);
    let gpus = match rng.u32(..20) {
        0..5 => 1,
        5..8 => most_gpus,
        8 => most_gpus + 1,
        _ => 0,
    };
    let numa = &machine.nodes[rng.usize(..machine.nodes.len())];
    let pages = match rng.u32(..20) {
        _ if class == Class::Burstable || numa.hugepages == 0 => 0,
        0..6 => 1 + rng.u64(..numa.hugepages),
        6 => machine.nodes.iter().map(|numa| numa.hugepages).max().unwrap_or(0) + 1,
        _ => 0,
    };
    Ask { class, gpus, pages }
}
