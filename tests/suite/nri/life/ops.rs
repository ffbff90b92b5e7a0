//! What happens on a node.

use super::check::{due, exempt};
use super::node::Node;
use super::sim::{Container, Phase, Pod, nth};
use super::world::Dies;
use crate::churn::pods;
use maitred::model::*;
use maitred::nri::proto::Event;
use proptest::prelude::*;

/// One thing that happens. Numbers choose among what there is.
#[derive(Debug, Clone)]
pub enum Op {
    Run {
        class: u8,
        flavour: u8,
    },
    /// A container is made, and started at once or later.
    Create {
        pod: u8,
        name: u8,
        start: bool,
        dies: u8,
    },
    Start(u8),
    /// Its process ends; nobody is told yet.
    Exit(u8),
    Stop {
        container: u8,
        twice: bool,
    },
    Remove(u8),
    StopPod {
        pod: u8,
        told: bool,
        twice: bool,
    },
    RemovePod(u8),
    Update {
        container: u8,
        how: u8,
    },
    /// Events about what nobody knows, or knows no more.
    Stray(u8),
    /// The next answer's updates are carried out but for one.
    Lose(u8),
    /// At the next registration a pod ends when it has been listed.
    Doom(u8),
    /// The connection is cut, a container is made meanwhile.
    Cut {
        chunks: bool,
        meanwhile: Option<(u8, u8)>,
    },
    /// containerd is started anew; one container ends meanwhile.
    Containerd {
        ends: Option<u8>,
    },
    /// maitred is; a container is made meanwhile.
    Maitred {
        chunks: bool,
        meanwhile: Option<(u8, u8)>,
    },
    /// Somebody empties the store.
    Empty,
}

pub fn op() -> impl Strategy<Value = Op> {
    let meanwhile = || proptest::option::of((any::<u8>(), 0u8..3));
    prop_oneof![
        8 => (0u8..4, 0u8..12).prop_map(|(class, flavour)| Op::Run { class, flavour }),
        16 => (any::<u8>(), 0u8..3, proptest::bool::weighted(0.8), 0u8..40)
            .prop_map(|(pod, name, start, dies)| Op::Create { pod, name, start, dies }),
        4 => any::<u8>().prop_map(Op::Start),
        3 => any::<u8>().prop_map(Op::Exit),
        5 => (any::<u8>(), any::<bool>()).prop_map(|(container, twice)| Op::Stop { container, twice }),
        2 => any::<u8>().prop_map(Op::Remove),
        4 => (any::<u8>(), any::<bool>(), any::<bool>())
            .prop_map(|(pod, told, twice)| Op::StopPod { pod, told, twice }),
        1 => any::<u8>().prop_map(Op::RemovePod),
        2 => (any::<u8>(), 0u8..4).prop_map(|(container, how)| Op::Update { container, how }),
        2 => any::<u8>().prop_map(Op::Stray),
        1 => any::<u8>().prop_map(Op::Lose),
        1 => any::<u8>().prop_map(Op::Doom),
        1 => (any::<bool>(), meanwhile()).prop_map(|(chunks, meanwhile)| Op::Cut { chunks, meanwhile }),
        1 => proptest::option::of(any::<u8>()).prop_map(|ends| Op::Containerd { ends }),
        1 => (any::<bool>(), meanwhile()).prop_map(|(chunks, meanwhile)| Op::Maitred { chunks, meanwhile }),
        1 => Just(Op::Empty),
    ]
}

/// As many pods as fill the largest machine.
const PODS: usize = 14;

impl Node {
    pub async fn apply(&self, op: &Op) {
        match *op {
            Op::Run { class, flavour } => self.run(class, flavour).await,
            Op::Create { pod, name, start, dies } => self.make(pod, name, start, dies).await,
            Op::Start(which) => {
                let made = self.sim.borrow().choose(which, |one| one.phase == Phase::Made);
                if let Some(container) = made {
                    self.start(&container).await;
                }
            }
            Op::Exit(which) => self.exit(which),
            Op::Stop { container, twice } => self.stop(container, twice).await,
            Op::Remove(which) => self.remove(which).await,
            Op::StopPod { pod, told, twice } => self.stop_pod(pod, told, twice).await,
            Op::RemovePod(which) => self.remove_pod(which).await,
            Op::Update { container, how } => self.resize(container, how).await,
            Op::Stray(which) => self.stray(which).await,
            Op::Lose(which) => self.sim.borrow_mut().lose = Some(which),
            Op::Doom(which) => self.sim.borrow_mut().doom = Some(which),
            Op::Cut { chunks, meanwhile } => self.cut(chunks, |node| node.unasked(meanwhile)).await,
            Op::Containerd { ends } => {
                self.cut(false, |node| {
                    node.sim.borrow_mut().life += 1;
                    ends.into_iter().for_each(|which| node.exit(which));
                })
                .await;
            }
            Op::Maitred { chunks, meanwhile } => self.kill(chunks, |node| node.unasked(meanwhile)).await,
            Op::Empty => {
                let mut sim = self.sim.borrow_mut();
                sim.world.things().store.clear();
                sim.store_lost = true;
            }
        }
    }

    async fn run(&self, class: u8, flavour: u8) {
        let facts = {
            let mut sim = self.sim.borrow_mut();
            if sim.pods.values().filter(|pod| !pod.stopped).count() >= PODS {
                return;
            }
            let facts = pods::pod(sim.fresh(), class, flavour);
            PodFacts { cgroups_path: format!("{}/{}", facts.cgroup_parent, facts.id), ..facts }
        };
        if let Err(text) = self.run_pod(facts.clone()).await {
            assert!(!exempt(&facts), "an exempt pod is refused: {text}");
        }
    }

    pub(super) fn living(&self, which: u8) -> Option<PodFacts> {
        let sim = self.sim.borrow();
        nth(sim.pods.values().filter(|pod| !pod.stopped), which).map(|pod| pod.facts.clone())
    }

    /// The next attempt of a pod's container: the kubelet makes one when the last has ended, and always asks alike.
    fn attempt(&self, pod: &PodFacts, name: u8) -> Option<ContainerFacts> {
        let mut sim = self.sim.borrow_mut();
        let key = ContainerKey::new(pod.uid.clone(), ContainerName::new(format!("c{name}")));
        if !sim.making.insert(key) {
            return None;
        }
        let number: u8 = pod.name[1..].parse::<u32>().map_or(0, |number| (number % 251) as u8);
        let asked = pods::container(sim.fresh(), pod, name, (number ^ (name * 3)) % 10);
        let before = |one: &Container| one.made.sandbox == pod.id && one.made.name == asked.name;
        let alive: Vec<ContainerId> =
            sim.alive().filter(|(_, one)| before(one)).map(|(id, _)| id.clone()).collect();
        alive.iter().for_each(|id| sim.end(id));
        Some(asked)
    }

    async fn make(&self, which: u8, name: u8, start: bool, dies: u8) {
        let Some(pod) = self.living(which) else { return };
        let dies = match dies {
            0 => Dies::Undecided,
            1 => Dies::Recorded,
            2 => Dies::Answered,
            _ => Dies::Not,
        };
        let Some(asked) = self.attempt(&pod, name) else { return };
        let (id, key) = (asked.id.clone(), ContainerKey::new(pod.uid.clone(), asked.name.clone()));
        let due = due(&pod, &asked);
        let created = self.create(asked, dies).await;
        self.sim.borrow_mut().making.remove(&key);
        if let Err(text) = created {
            assert!(!exempt(&pod) || self.has_stopped(&pod), "the exempt are never refused: {text}");
            return;
        }
        let made = self.sim.borrow().containers.get(&id).cloned();
        let Some(made) = made else { return };
        if let (Some(due), false) = (due, made.unasked || self.has_stopped(&pod)) {
            let own = made.own.as_ref().map_or(0, CpuSet::len);
            assert_eq!(own, due, "{id} is made and not pinned: {made:#?}");
        }
        if start && !self.has_stopped(&pod) {
            self.start(&made).await;
        }
    }

    fn has_stopped(&self, pod: &PodFacts) -> bool {
        self.sim.borrow().pods.get(&pod.id).is_none_or(|pod| pod.stopped)
    }

    /// Made and started while nobody was asked.
    fn unasked(&self, what: Option<(u8, u8)>) {
        let Some((which, name)) = what else { return };
        let Some(pod) = self.living(which) else { return };
        let Some(asked) = self.attempt(&pod, name) else { return };
        let id = asked.id.clone();
        let mut sim = self.sim.borrow_mut();
        sim.making.remove(&ContainerKey::new(pod.uid, asked.name.clone()));
        sim.make(asked, None);
        sim.start(&id);
    }

    fn exit(&self, which: u8) {
        let running = self.sim.borrow().choose(which, |one| one.phase == Phase::Running);
        if let Some(running) = running {
            self.sim.borrow_mut().end(&running.made.id);
        }
    }

    /// A kill, or an exit that is told of at last.
    async fn stop(&self, which: u8, twice: bool) {
        let Some(container) = self.sim.borrow().choose(which, |one| !one.told) else { return };
        self.stop_one(&container, twice).await;
    }

    async fn stop_one(&self, container: &Container, twice: bool) {
        let (pod, facts) = {
            let mut sim = self.sim.borrow_mut();
            let Some(one) = sim.containers.get(&container.made.id) else { return };
            if one.phase != Phase::Over {
                sim.end(&container.made.id);
            }
            (sim.pod_of(&container.made), sim.containers[&container.made.id].made.clone())
        };
        for _ in 0..=u8::from(twice) {
            self.tell_stop(&pod, &facts).await;
        }
    }

    async fn remove(&self, which: u8) {
        let Some(over) = self.sim.borrow().choose(which, |one| one.phase == Phase::Over) else { return };
        let pod = self.sim.borrow().pod_of(&over.made);
        self.tell(Event::REMOVE_CONTAINER, &pod, Some(&over.made)).await;
        // It has ended for whoever was not told before.
        self.sim.borrow_mut().containers.remove(&over.made.id);
    }

    async fn stop_pod(&self, which: u8, told: bool, twice: bool) {
        let Some(pod) = self.living(which) else { return };
        self.end_of(&pod, told, twice).await;
    }

    pub(super) async fn end_of(&self, pod: &PodFacts, told: bool, twice: bool) {
        if told {
            let of_it = |one: &&Container| one.made.sandbox == pod.id && !one.told;
            let open: Vec<Container> = self.sim.borrow().containers.values().filter(of_it).cloned().collect();
            for container in open {
                self.stop_one(&container, false).await;
            }
        }
        let speaks = {
            let mut sim = self.sim.borrow_mut();
            if sim.pods.get(&pod.id).is_none_or(|pod| pod.stopped) {
                return;
            }
            let speaks = sim.speaks_of(&pod.id);
            sim.end_pod(&pod.id, speaks);
            speaks
        };
        for _ in 0..u8::from(speaks) * (1 + u8::from(twice)) {
            self.tell(Event::STOP_POD_SANDBOX, pod, None).await;
        }
    }

    async fn remove_pod(&self, which: u8) {
        let stopped = {
            let sim = self.sim.borrow();
            let quiet = |pod: &&Pod| sim.making.iter().all(|key| key.pod != pod.facts.uid);
            nth(sim.pods.values().filter(|pod| pod.stopped).filter(quiet), which).cloned()
        };
        let Some(pod) = stopped else { return };
        let speaks = {
            let mut sim = self.sim.borrow_mut();
            let speaks = sim.speaks_of(&pod.facts.id);
            sim.containers.retain(|_, one| one.made.sandbox != pod.facts.id);
            sim.pods.remove(&pod.facts.id);
            speaks
        };
        if speaks {
            self.tell(Event::REMOVE_POD_SANDBOX, &pod.facts, None).await;
        }
    }

    /// As the kubelet does: the limits again, with or without a cpuset, or a resize.
    async fn resize(&self, which: u8, how: u8) {
        let Some(container) = self.sim.borrow().choose(which, |one| one.phase != Phase::Over) else { return };
        let mut wanted = container.asked.resources.clone();
        match how {
            0 => {}
            1 => wanted.cpus = self.sim.borrow().world.topology.cpus.to_string(),
            2 => wanted = Resources { cpus: "0".into(), mems: String::new(), ..Resources::default() },
            _ => wanted.memory_limit = Some(3 << 30),
        }
        self.update(&container, wanted).await;
    }

    async fn stray(&self, which: u8) {
        let (pod, container) = {
            let mut sim = self.sim.borrow_mut();
            let number = sim.fresh();
            let pod = pods::pod(number, 0, 0);
            let container = pods::container(number, &pod, 0, 5);
            (pod, container)
        };
        match which % 5 {
            0 => self.tell(Event::STOP_POD_SANDBOX, &pod, None).await,
            1 => self.tell(Event::REMOVE_POD_SANDBOX, &pod, None).await,
            2 => self.tell_stop(&pod, &container).await,
            3 => self.tell(Event::REMOVE_CONTAINER, &pod, Some(&container)).await,
            // An end that was told long ago, of an attempt whose successor may run.
            _ => {
                let over = self.sim.borrow().choose(which / 5, |one| one.phase == Phase::Over && one.told);
                if let Some(over) = over {
                    let pod = self.sim.borrow().pod_of(&over.made);
                    self.tell_stop(&pod, &over.made).await;
                }
            }
        }
    }
}
