//! The pods of a node and what happens to them.

use super::check;
use super::room::{Ask, Class, Due, Room};
use super::step::{Meanwhile, Step};
use crate::expect::{self, Unmet, expected};
use crate::kubelet;
use crate::list;
use crate::machine::Machine;
use crate::node::{Node, Seated};
use crate::observe::{self, Seen};
use crate::options::Lane;
use crate::pod::Pod;
use crate::settings::Settings;
use anyhow::{Context, Result};
use std::fmt;

/// Refused pods that are kept to be tried again.
const MOST_WAITING: usize = 2;

/// A pod that was let in.
pub struct Tenant {
    pub ask: Ask,
    pub seated: Seated,
    /// What its first container had when it began.
    pub seen: Seen,
    /// The node that it holds something of.
    pub home: Option<u32>,
    attempt: u32,
    /// Whether its container runs.
    pub up: bool,
}

impl Tenant {
    pub fn pinned(&self) -> bool {
        matches!(self.ask.class, Class::Pinned(_))
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let Ask { class, gpus, pages } = self.ask;
        write!(out, "{} ({class:?}, {gpus} GPUs, {pages} hugepages; ", self.seated.pod.name)?;
        if self.pinned() {
            write!(out, "CPUs {}, ", list::show(&self.seen.cpus))?;
        }
        let state = if self.up { "runs" } else { "has ended" };
        write!(out, "nodes {}, {state}, attempt {})", list::show(&self.seen.mems), self.attempt)
    }
}

/// A pod that was refused; its sandbox stands.
pub struct Waiting {
    ask: Ask,
    pod: Pod,
    sandbox: String,
}

/// How an attempt to make a pod has ended; with no sandbox if that was refused already.
struct Attempt {
    ask: Ask,
    pod: Pod,
    sandbox: Option<String>,
    container: Result<String>,
}

#[derive(Debug, Default)]
pub struct Tally {
    pub made: u32,
    pub refused: u32,
    pub ended: u32,
    pub restarted: u32,
    pub updated: u32,
    pub outages: u32,
}

pub struct Life {
    pub tenants: Vec<Tenant>,
    pub waiting: Vec<Waiting>,
    pub tally: Tally,
    pub most_tenants: usize,
}

impl Life {
    pub fn new(lane: Lane) -> Life {
        // A sandbox takes seconds in the guest.
        let most_tenants = if lane == Lane::Guest { 8 } else { 6 };
        Life { tenants: Vec::new(), waiting: Vec::new(), tally: Tally::default(), most_tenants }
    }

    /// The places of pods whose container runs, or does not.
    pub fn places(&self, up: bool) -> Vec<usize> {
        let all = self.tenants.iter().enumerate();
        all.filter(|(_, tenant)| tenant.up == up).map(|(place, _)| place).collect()
    }

    pub fn take(&mut self, node: &mut Node, step: &Step) -> Result<()> {
        match step {
            Step::Turnover { ends, restarts, makes } => self.turn_over(node, ends, restarts, makes),
            Step::Retry(place) => self.retry(node, *place),
            Step::Stop { pod, killed } => self.stop(node, *pod, *killed),
            Step::Update { pod, widened } => self.update(node, *pod, *widened),
            Step::Maitred(meanwhile) => self.maitred(node, meanwhile),
            Step::Containerd { dies } => self.containerd(node, *dies),
        }
    }

    /// What nobody holds.
    pub fn room(&self, machine: &Machine) -> Room {
        let held = self.tenants.iter().filter_map(|tenant| Some((tenant.home?, tenant.ask)));
        held.fold(Room::empty(machine), |room, (home, ask)| room.less(home, ask))
    }

    fn turn_over(&mut self, node: &Node, ends: &[usize], restarts: &[usize], makes: &[Ask]) -> Result<()> {
        let least = self.room(&node.machine);
        let restarted = u32::try_from(restarts.len())?;
        let first = self.tally.made + self.tally.refused;
        let attempts = together(node, &mut self.tenants, (ends, restarts), makes, first)?;
        self.pull(ends);
        let most = self.room(&node.machine);
        self.tally.ended += u32::try_from(ends.len())?;
        self.tally.restarted += restarted;
        let nobody = !attempts.is_empty() && attempts.iter().all(|one| one.container.is_err());
        let room = makes.iter().any(|ask| least.fits(*ask));
        expected!(!nobody || !room, "nobody was let in, and one of {makes:?} fits {least:?}");
        for (place, attempt) in attempts.into_iter().enumerate() {
            let others = [&makes[..place], &makes[place + 1..]].concat();
            let due = least.due(&most, attempt.ask, &others);
            self.settle(node, attempt, due).with_context(|| format!("with {least:?} free"))?;
        }
        Ok(())
    }

    /// Takes those at these places out of the list.
    fn pull(&mut self, places: &[usize]) {
        let mut place = 0..;
        self.tenants.retain(|_| place.next().is_none_or(|place| !places.contains(&place)));
    }

    /// Whether it was right to let it in or to refuse it, and what it has got.
    fn settle(&mut self, node: &Node, attempt: Attempt, due: Due) -> Result<()> {
        let Attempt { ask, pod, sandbox, container } = attempt;
        let who = format!("{}, which asks for {ask:?}", pod.name);
        match (container, sandbox) {
            (Ok(container), Some(sandbox)) => {
                let seen = node.look_at(&container).with_context(|| who.clone())?;
                let home = check::home(&node.machine, ask, &seen).with_context(|| who.clone())?;
                expected!(due != Due::Refused, "{who}, fits nowhere and was let in: {seen:?}");
                let seated = Seated { pod, sandbox, containers: vec![container] };
                let tenant = Tenant { ask, seated, seen, home, attempt: 0, up: true };
                check::touched(node, &tenant)?;
                self.tenants.push(tenant);
                self.tally.made += 1;
            }
            (outcome, sandbox) => {
                let evidence = ["TopologyAffinityError", "node"];
                let text = expect::refused(outcome, &evidence).with_context(|| who.clone())?;
                expected!(due != Due::Admitted, "{who}, fits and was refused: {text}");
                self.tally.refused += 1;
                match sandbox {
                    Some(sandbox) if self.waiting.len() < MOST_WAITING => {
                        self.waiting.push(Waiting { ask, pod, sandbox });
                    }
                    Some(sandbox) => node.remove_pod(&pod, &sandbox)?,
                    None => {}
                }
            }
        }
        Ok(())
    }

    fn retry(&mut self, node: &Node, place: usize) -> Result<()> {
        let room = self.room(&node.machine);
        let Waiting { ask, pod, sandbox } = self.waiting.remove(place);
        let due = room.due(&room, ask, &[]);
        let container = begin(node, &pod, &sandbox);
        let attempt = Attempt { ask, pod, sandbox: Some(sandbox), container };
        self.settle(node, attempt, due).with_context(|| format!("with {room:?} free"))
    }

    fn stop(&mut self, node: &Node, place: usize, killed: bool) -> Result<()> {
        let tenant = &mut self.tenants[place];
        if killed {
            node.crash(&tenant.seated)?;
        } else {
            node.cri.stop_container(&tenant.seated.containers[0])?;
        }
        tenant.up = false;
        Ok(())
    }

    fn update(&mut self, node: &Node, place: usize, widened: bool) -> Result<()> {
        let tenant = &self.tenants[place];
        let pod = &tenant.seated.pod;
        let mut resources = kubelet::container_resources(pod, &pod.containers[0]);
        if widened {
            resources.cpuset_cpus = list::show(&node.machine.all_cpus());
            resources.cpuset_mems = list::show(&node.machine.nodes.iter().map(|numa| numa.id).collect());
        }
        node.cri.update_container(&tenant.seated.containers[0], resources)?;
        self.tally.updated += 1;
        Ok(())
    }

    fn maitred(&mut self, node: &mut Node, meanwhile: &Meanwhile) -> Result<()> {
        node.stop_maitred()?;
        match meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::Stop(place) => self.stop(node, *place, true)?,
            Meanwhile::End(place) => self.turn_over(node, &[*place], &[], &[])?,
            Meanwhile::Shared => self.turn_over(node, &[], &[], &[Ask::of(Class::Burstable)])?,
        }
        node.start_maitred(&Settings::ENFORCE)?;
        self.tally.outages += 1;
        Ok(())
    }

    fn containerd(&mut self, node: &mut Node, dies: Option<usize>) -> Result<()> {
        node.containerd.kill()?;
        if let Some(place) = dies {
            observe::kill(self.tenants[place].seen.pid)?;
        }
        let mark = node.containerd.mark();
        node.start_containerd()?;
        node.wait_registered(mark)?;
        if let Some(place) = dies {
            node.wait_exited(&self.tenants[place].seated.containers[0])?;
            self.tenants[place].up = false;
        }
        self.tally.outages += 1;
        Ok(())
    }

    /// Every pod ends, those that wait too.
    pub fn end(&mut self, node: &Node) -> Result<()> {
        let all: Vec<usize> = (0..self.tenants.len()).collect();
        self.turn_over(node, &all, &[], &[])?;
        self.waiting.drain(..).try_for_each(|one| node.remove_pod(&one.pod, &one.sandbox))
    }
}

/// As the kubelet ends a pod: its container first, or, where that has ended, the sandbox at once.
fn end(node: &Node, tenant: &Tenant) -> Result<()> {
    if tenant.up {
        node.remove(&tenant.seated)
    } else {
        node.remove_pod(&tenant.seated.pod, &tenant.seated.sandbox)
    }
}

/// Ends and restarts those at these places and makes pods, all at the same moment; their names count on from
/// `first`.
fn together(
    node: &Node,
    tenants: &mut [Tenant],
    (ends, restarts): (&[usize], &[usize]),
    makes: &[Ask],
    first: u32,
) -> Result<Vec<Attempt>> {
    std::thread::scope(|scope| {
        let mut old = Vec::new();
        for (place, tenant) in tenants.iter_mut().enumerate() {
            if ends.contains(&place) {
                old.push(scope.spawn(|| end(node, tenant)));
            } else if restarts.contains(&place) {
                old.push(scope.spawn(|| restart(node, tenant)));
            }
        }
        let begin = |(ask, number): (&Ask, u32)| {
            let ask = *ask;
            scope.spawn(move || attempt(node, ask, number))
        };
        let made: Vec<_> = makes.iter().zip(first..).map(begin).collect();
        old.into_iter().try_for_each(|one| one.join().expect("a pod's end or restart does not panic"))?;
        Ok(made.into_iter().map(|one| one.join().expect("making a pod does not panic")).collect())
    })
}

/// A new attempt, in a process of its own; every other time the dead one is taken away first. That it has what
/// it had is seen with everything else.
fn restart(node: &Node, tenant: &mut Tenant) -> Result<()> {
    if !tenant.attempt.is_multiple_of(2) {
        node.cri.remove_container(&tenant.seated.containers[0])?;
    }
    tenant.attempt += 1;
    let restarted = node.restart(&mut tenant.seated, tenant.attempt);
    restarted.map_err(|error| Unmet(format!("{tenant} does not start again: {error:#}")))?;
    tenant.seen.pid = node.look(&tenant.seated)?.pid;
    tenant.up = true;
    check::touched(node, tenant)
}

fn attempt(node: &Node, ask: Ask, number: u32) -> Attempt {
    let pod = ask.pod(&format!("churn-{number}"));
    match node.sandbox(&pod) {
        Ok(sandbox) => {
            let container = begin(node, &pod, &sandbox);
            Attempt { ask, pod, sandbox: Some(sandbox), container }
        }
        Err(error) => Attempt { ask, pod, sandbox: None, container: Err(error) },
    }
}

fn begin(node: &Node, pod: &Pod, sandbox: &str) -> Result<String> {
    let container = node.create(pod, &pod.containers[0], sandbox, 0)?;
    node.cri.start_container(&container)?;
    Ok(container)
}
