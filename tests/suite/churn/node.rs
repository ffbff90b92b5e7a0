//! The reducer and the runtime together: one operation at a time.

use super::pods::{container, pod};
use super::runtime::{Runtime, SimPod};
use maitred::decision::{Edit, Event, Mode, Outcome, Reply, Settings, State, failure, step};
use maitred::engine::Reserve;
use maitred::ledger::Record;
use maitred::model::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What becomes of a create.
#[derive(Debug, Clone, Copy)]
pub enum Fate {
    /// It goes well.
    Made,
    /// The answer comes too late: another is given in its stead.
    ReplyLost,
    /// The runtime fails after the answer.
    Fails,
    /// Nobody was asked: the daemon was away or just registering.
    Unasked,
}

/// One thing that happens. Numbers choose among what there is.
#[derive(Debug, Clone)]
pub enum Op {
    Run { class: u8, flavour: u8 },
    Create { pod: u8, name: u8, ask: u8, fate: Fate },
    Start(u8),
    Exit(u8),
    Stop(u8),
    Remove(u8),
    StopPod { pod: u8, told: bool },
    RemovePod(u8),
    Replace(u8),
    Update { container: u8, how: u8 },
    Observe,
    Lose { which: u8 },
    Restart,
    Switch,
}

/// A machine with its daemon and its runtime.
pub struct Node {
    pub(super) topology: Arc<Topology>,
    pub(super) state: State,
    pub(super) settings: Settings,
    off: bool,
    pub(super) was_off: bool,
    /// Whose update gets lost next.
    lose: Option<u8>,
    pub(super) runtime: Runtime,
    /// What the kubelet gave to pods.
    pub(super) books: BTreeMap<PodUid, PodAllotment>,
    /// Attempts the reducer has been told of since they were last forgotten.
    pub(super) known: BTreeSet<ContainerId>,
}

fn fresh(topology: &Arc<Topology>, settings: &Settings) -> State {
    let reserve = Reserve { cpus: Some(settings.reserved.clone()), memory: BTreeMap::new() };
    State::new(Arc::clone(topology), &reserve, &settings.annotation_pool).unwrap()
}

fn exempt(pod: &PodFacts) -> bool {
    pod.namespace == "kube-system" || pod.annotations.contains_key("kubernetes.io/config.source")
}

impl Node {
    pub fn new(topology: Topology, settings: Settings) -> Self {
        let topology = Arc::new(topology);
        let runtime = Runtime { online: topology.cpus.clone(), ..Runtime::default() };
        let state = fresh(&topology, &settings);
        Self {
            topology,
            state,
            settings,
            off: false,
            was_off: false,
            lose: None,
            runtime,
            books: BTreeMap::new(),
            known: BTreeSet::new(),
        }
    }

    fn now(&self) -> Settings {
        let mode = if self.off { Mode::Off } else { self.settings.mode };
        Settings { mode, ..self.settings.clone() }
    }

    pub(super) fn enforces(&self) -> bool {
        self.now().mode == Mode::Enforce
    }

    /// One event, decided twice: the same both times.
    fn step(&mut self, event: Event) -> Outcome {
        let settings = self.now();
        let mut twin = self.state.clone();
        let outcome = step(&mut self.state, event.clone(), &settings);
        assert_eq!(outcome, step(&mut twin, event, &settings), "not deterministic");
        let all = outcome.updates.iter().chain(&outcome.writes);
        all.for_each(|update| assert!(!update.cpus.is_empty(), "an empty cpuset: {update:?}"));
        if settings.mode != Mode::Enforce {
            let nothing =
                outcome.updates.is_empty() && outcome.writes.is_empty() && outcome.quotas.is_empty();
            assert!(nothing && outcome.reply == Reply::Nothing, "it does something: {outcome:?}");
        }
        outcome
    }

    /// The updates that travel in an answer, one of which may get lost, and the writes after it.
    fn carry_out(&mut self, outcome: &Outcome) {
        let lost =
            self.lose.take().and_then(|which| nth(outcome.updates.iter(), which)).map(|u| u.id.clone());
        self.runtime.update(&outcome.updates, |id| lost.as_ref() == Some(id));
        self.runtime.write(&outcome.writes);
    }

    /// An event whose updates the runtime does not take: they are written.
    pub(super) fn tell(&mut self, event: Event) {
        let outcome = self.step(event);
        assert_eq!(outcome.reply, Reply::Nothing);
        self.runtime.write(&outcome.updates);
        self.runtime.write(&outcome.writes);
    }

    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Run { class, flavour } => self.run(*class, *flavour),
            Op::Create { pod, name, ask, fate } => self.create(*pod, *name, *ask, *fate),
            Op::Start(which) => self.start(*which),
            Op::Exit(which) => self.exit(*which),
            Op::Stop(which) => self.stop(*which),
            Op::Remove(which) => self.remove(*which),
            Op::StopPod { pod, told } => self.stop_pod(*pod, *told),
            Op::RemovePod(which) => self.remove_pod(*which),
            Op::Replace(which) => self.replace(*which),
            Op::Update { container, how } => self.update(*container, *how),
            Op::Observe => self.observe(),
            Op::Lose { which } => self.lose = Some(*which),
            Op::Restart => self.restart(),
            Op::Switch => self.off = !self.off,
        }
        if self.off {
            self.was_off = true;
            self.runtime.containers.values_mut().for_each(|container| container.stale = true);
        }
    }

    fn pod(&self, which: u8) -> Option<PodFacts> {
        let running = self.runtime.pods.values().filter(|pod| !pod.stopped);
        nth(running.collect::<Vec<_>>().into_iter(), which).map(|pod| pod.facts.clone())
    }

    fn alive(&self, which: u8) -> Option<ContainerId> {
        nth(self.runtime.alive().map(|(id, _)| id.clone()).collect::<Vec<_>>().into_iter(), which)
    }

    fn run(&mut self, class: u8, flavour: u8) {
        if self.runtime.pods.len() < 12 {
            let pod = pod(self.runtime.fresh(), class, flavour);
            self.allot(&pod, flavour);
            self.run_pod(pod);
        }
    }

    fn run_pod(&mut self, pod: PodFacts) {
        let outcome = self.step(Event::RunPod(pod.clone()));
        if let Reply::Refuse(rejection) = &outcome.reply {
            assert!(!exempt(&pod), "an exempt pod is refused: {rejection}");
            self.tell(Event::StopPod(pod.clone()));
            // A pod that is not there by an earlier sandbox either is given up by this kubelet at once.
            if self.runtime.pods.values().all(|one| one.stopped || one.facts.uid != pod.uid) {
                self.books.remove(&pod.uid);
            }
            self.tell(Event::RemovePod(pod));
            return;
        }
        self.runtime.pods.insert(pod.id.clone(), SimPod { facts: pod, stopped: false });
    }

    /// A sandbox is lost and the kubelet makes another for the same pod; the old one's end comes later.
    fn replace(&mut self, which: u8) {
        let Some(old) = self.pod(which) else { return };
        for container in self.runtime.containers.values_mut().filter(|c| c.facts.sandbox == old.id && c.alive)
        {
            (container.alive, container.stop_pending) = (false, true);
        }
        let id = format!("sandbox-{}", self.runtime.fresh());
        self.run_pod(PodFacts { id, ..old });
    }

    fn create(&mut self, which: u8, name: u8, ask: u8, fate: Fate) {
        let Some(pod) = self.pod(which) else { return };
        let asked = container(self.runtime.fresh(), &pod, name, ask);
        let asked = self.with_devices(asked, &pod, ask);
        let before = self.runtime.containers.values_mut();
        for old in
            before.filter(|old| old.alive && self.runtime.pods[&old.facts.sandbox].facts.uid == pod.uid)
        {
            if old.facts.name == asked.name {
                (old.alive, old.stop_pending) = (false, true);
            }
        }
        if matches!(fate, Fate::Unasked) {
            return self.runtime.make(asked, None, true);
        }
        let event = Event::Create(pod.clone(), asked.clone());
        let key = ContainerKey::new(pod.uid.clone(), asked.name.clone());
        let is_new = self.state.ledger().get(&key).is_none();
        let outcome = self.step(event.clone());
        if matches!(fate, Fate::ReplyLost) {
            self.tell(Event::Abandon(asked.id.clone()));
            let instead = failure(&event, self.allotted(&event), &self.now(), "too late");
            return self.answered(&pod, asked, &instead, fate);
        }
        if self.enforces() && !exempt(&pod) {
            self.check_answer(&pod, &asked, &outcome);
            // What it held already it gets again, whoever was let in to it unasked.
            if is_new {
                self.check_chosen(&pod, &asked, &outcome);
            }
        }
        self.carry_out(&outcome);
        self.answered(&pod, asked, &outcome, fate);
    }

    fn answered(&mut self, pod: &PodFacts, asked: ContainerFacts, outcome: &Outcome, fate: Fate) {
        let refused = match &outcome.reply {
            Reply::Refuse(rejection) => {
                assert!(!exempt(pod), "the exempt are never refused: {rejection}");
                true
            }
            _ => matches!(fate, Fate::Fails),
        };
        if refused {
            let outcome = self.step(Event::Stop(pod.clone(), asked.clone()));
            self.carry_out(&outcome);
            return self.tell(Event::Remove(pod.clone(), asked));
        }
        let lost = matches!(fate, Fate::ReplyLost);
        if !lost {
            self.known.insert(asked.id.clone());
        }
        self.runtime.make(asked, edit(outcome), lost);
    }

    fn start(&mut self, which: u8) {
        let Some(id) = self.alive(which) else { return };
        let container = self.runtime.containers[&id].clone();
        let pod = self.runtime.pod_of(&container);
        self.tell(Event::Started(pod, container.facts));
        self.known.insert(id);
    }

    fn exit(&mut self, which: u8) {
        let Some(id) = self.alive(which) else { return };
        let container = self.runtime.containers.get_mut(&id).unwrap();
        (container.alive, container.stop_pending) = (false, true);
    }

    /// A kill, or an exit that is told of at last.
    fn stop(&mut self, which: u8) {
        let stoppable = self.runtime.containers.iter().filter(|(_, c)| c.alive || c.stop_pending);
        let ids: Vec<ContainerId> = stoppable.map(|(id, _)| id.clone()).collect();
        if let Some(id) = nth(ids.into_iter(), which) {
            self.stop_one(&id);
        }
    }

    fn stop_one(&mut self, id: &ContainerId) {
        let container = self.runtime.containers.get_mut(id).unwrap();
        (container.alive, container.stop_pending) = (false, false);
        let container = container.clone();
        let pod = self.runtime.pod_of(&container);
        let outcome = self.step(Event::Stop(pod, container.facts));
        assert_eq!(outcome.reply, Reply::Nothing);
        self.carry_out(&outcome);
    }

    fn remove(&mut self, which: u8) {
        let dead = self.runtime.containers.iter().filter(|(_, container)| !container.alive);
        let ids: Vec<ContainerId> = dead.map(|(id, _)| id.clone()).collect();
        let Some(id) = nth(ids.into_iter(), which) else { return };
        let container = self.runtime.containers.remove(&id).unwrap();
        let pod = self.runtime.pod_of(&container);
        self.tell(Event::Remove(pod, container.facts));
    }

    fn stop_pod(&mut self, which: u8, told: bool) {
        let Some(pod) = self.pod(which) else { return };
        let of_it = self.runtime.containers.iter().filter(|(_, c)| c.facts.sandbox == pod.id && c.alive);
        for id in of_it.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            if told {
                self.stop_one(&id);
            }
            self.runtime.containers.get_mut(&id).unwrap().alive = false;
        }
        self.runtime.pods.get_mut(&pod.id).unwrap().stopped = true;
        let uid = pod.uid.clone();
        self.tell(Event::StopPod(pod));
        if self.runtime.pods.values().all(|pod| pod.stopped || pod.facts.uid != uid) {
            self.books.remove(&uid);
        }
    }

    fn remove_pod(&mut self, which: u8) {
        let stopped = self.runtime.pods.values().filter(|pod| pod.stopped).map(|pod| pod.facts.clone());
        let Some(pod) = nth(stopped.collect::<Vec<_>>().into_iter(), which) else { return };
        self.runtime.containers.retain(|_, container| container.facts.sandbox != pod.id);
        self.runtime.pods.remove(&pod.id);
        self.tell(Event::RemovePod(pod));
    }

    /// As the kubelet does: the limits again, with or without a cpuset, or a resize.
    fn update(&mut self, which: u8, how: u8) {
        let Some(id) = self.alive(which) else { return };
        let container = self.runtime.containers[&id].clone();
        let pod = self.runtime.pod_of(&container);
        let mut wanted = container.asked.resources.clone();
        match how {
            0 => {}
            1 => wanted.cpus = self.topology.cpus.to_string(),
            2 => wanted = Resources { cpus: "0".into(), mems: "0".into(), ..Resources::default() },
            _ => wanted.memory_limit = Some(3 << 30),
        }
        let outcome = self.step(Event::Update(pod.clone(), container.facts, wanted.clone()));
        self.carry_out(&outcome);
        match &outcome.reply {
            Reply::Refuse(rejection) => assert!(!exempt(&pod), "an exempt update is refused: {rejection}"),
            _ => self.runtime.resize(&id, &wanted, edit(&outcome)),
        }
        if !self.enforces() || !self.known.contains(&id) {
            self.runtime.containers.get_mut(&id).unwrap().stale = true;
        }
    }

    fn observe(&mut self) {
        let mut observed = self.runtime.observed();
        let known: BTreeSet<ContainerId> = self.state.cgroups().map(|(id, _)| id.clone()).collect();
        observed.retain(|id, _| known.contains(id));
        self.tell(Event::Observe(observed));
        if self.enforces() {
            let known = &self.known;
            let seen = self.runtime.containers.iter_mut().filter(|(id, _)| known.contains(*id));
            seen.for_each(|(_, container)| container.stale = false);
        }
    }

    /// The daemon is killed and comes back: what it remembers is what was stored, what runs tells the rest.
    fn restart(&mut self) {
        let hints: Vec<Record> = self.hints();
        let before = self.held_by_the_living();
        self.state = fresh(&self.topology, &self.settings);
        for pod in self.books.keys().cloned().collect::<Vec<_>>() {
            self.tell_books(&pod);
        }
        let pods = self.runtime.pods.values().filter(|pod| !pod.stopped).map(|pod| pod.facts.clone());
        let containers = self.runtime.alive().map(|(_, container)| container.facts.clone());
        let event = Event::Synchronize {
            pods: pods.collect(),
            containers: containers.collect(),
            observed: self.runtime.observed(),
            hints,
        };
        let outcome = self.step(event);
        assert_eq!(outcome.reply, Reply::Nothing);
        self.runtime.update(&outcome.updates, |_| false);
        self.known = self.runtime.alive().map(|(id, _)| id.clone()).collect();
        if self.enforces() {
            self.runtime.containers.values_mut().for_each(|container| container.stale = false);
            let after = self.held_by_the_living();
            for (key, held) in before {
                let now = after
                    .get(&key)
                    .unwrap_or_else(|| panic!("{key} holds nothing when the daemon comes back"));
                // What nothing was decided about may have been pinned now.
                let kept = now.1 == held.1 && (held.0.is_empty() || now.0 == held.0);
                assert!(kept, "{key} lost its place when the daemon came back: {held:?}, now {now:?}");
            }
        }
    }

    fn hints(&self) -> Vec<Record> {
        if self.settings.mode != Mode::Enforce {
            return Vec::new();
        }
        let record = |(key, holding): (&ContainerKey, &maitred::ledger::Holding)| {
            Some(Record::new(key, holding.id.as_ref()?, &holding.placement))
        };
        self.state.ledger().iter().filter_map(record).collect()
    }

    /// All pods end: everything is free.
    pub fn end(mut self) {
        self.off = false;
        while self.pod(0).is_some() {
            self.stop_pod(0, self.runtime.made.is_multiple_of(2));
            self.check();
        }
        assert_eq!(self.state.ledger().iter().count(), 0, "something is held when all is over");
        assert_eq!(self.state.cgroups().count(), 0, "somebody lives when all is over");
        let strict = self.settings.policy.cpu.has(CpuOption::StrictReservation);
        let kept = if strict { self.settings.reserved.clone() } else { CpuSet::new() };
        let pool = self.state.ledger().shared_pool(&self.settings.policy.cpu);
        assert_eq!(pool, self.topology.cpus.difference(&kept));
    }
}

pub(super) fn edit(outcome: &Outcome) -> Option<&Edit> {
    match &outcome.reply {
        Reply::Adjust(edit) => Some(edit),
        _ => None,
    }
}

fn nth<T>(all: impl ExactSizeIterator<Item = T>, which: u8) -> Option<T> {
    let count = all.len();
    (count > 0).then(|| all.into_iter().nth(usize::from(which) % count)).flatten()
}
