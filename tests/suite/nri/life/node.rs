//! containerd with the plugin at its side, over a socket.

use super::messages;
use super::sim::{Container, Phase, Pod, Sim};
use super::world::{Dies, Hands, World, seating};
use crate::fake_runtime::{Daemon, FakeRuntime, Place};
use maitred::config::Config;
use maitred::model::*;
use maitred::nri::proto::{
    ContainerRequest, ContainerUpdate, CreateContainerRequest, Event, PodRequest, StateChangeEvent,
    StopContainerRequest, SynchronizeRequest, UpdateContainerRequest,
};
use protobuf::{EnumOrUnknown, MessageField};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::Mutex;

/// So long that no answer is late however slow the machine.
const AGES: Duration = Duration::from_secs(60);

pub struct Node {
    pub config: Config,
    /// containerd's.
    version: &'static str,
    place: Place,
    listener: RefCell<Option<UnixListener>>,
    daemon: RefCell<Option<(Daemon, Arc<Hands>)>>,
    /// The one lock that all NRI requests of a node pass, with the connection.
    lock: Mutex<Option<FakeRuntime>>,
    pub sim: RefCell<Sim>,
    /// Requests sent.
    pub requests: std::cell::Cell<usize>,
}

fn context() -> ttrpc::context::Context {
    ttrpc::context::with_duration(AGES)
}

/// The text of a refusal.
fn refusal(error: ttrpc::Error) -> String {
    match error {
        ttrpc::Error::RpcStatus(status) => status.message().to_owned(),
        other => panic!("the plugin is gone: {other}"),
    }
}

impl Node {
    pub async fn new(topology: Topology, config: Config, version: &'static str) -> Self {
        let place = Place::new();
        let listener = RefCell::new(Some(place.listen()));
        let sim = RefCell::new(Sim::new(&World::new(topology)));
        let (daemon, lock) = (RefCell::default(), Mutex::default());
        let node = Self { config, version, place, listener, daemon, lock, sim, requests: Default::default() };
        node.start_daemon();
        node.register(&mut *node.lock.lock().await, false).await;
        node
    }

    fn start_daemon(&self) {
        let hands = Hands::new(&self.sim.borrow().world);
        let daemon = Daemon::start(&self.place.path, AGES, seating(&hands, &self.config));
        *self.daemon.borrow_mut() = Some((daemon, hands));
    }

    fn hands(&self) -> Arc<Hands> {
        Arc::clone(&self.daemon.borrow().as_ref().unwrap().1)
    }

    fn request(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// Accepts the plugin and tells it everything, in one message or in many.
    async fn register(&self, nri: &mut Option<FakeRuntime>, chunks: bool) {
        let listener = self.listener.borrow_mut().take().unwrap();
        let accepted = tokio::time::timeout(AGES, listener.accept()).await.expect("the plugin comes back");
        *self.listener.borrow_mut() = Some(listener);
        let runtime = FakeRuntime::over(accepted.unwrap().0).await;
        runtime.configure(self.version).await.unwrap();
        let reserved = self.reserved();
        let (pods, containers) = self.sim.borrow_mut().list(&reserved);
        let size = if chunks { 2 } else { usize::MAX };
        let mut requests: Vec<SynchronizeRequest> = pods
            .chunks(size)
            .map(|pods| SynchronizeRequest { pods: pods.to_vec(), ..Default::default() })
            .collect();
        requests.extend(
            containers.chunks(size).map(|containers| SynchronizeRequest {
                containers: containers.to_vec(),
                ..Default::default()
            }),
        );
        requests.push(SynchronizeRequest::default());
        let last = requests.len() - 1;
        for (at, mut request) in requests.into_iter().enumerate() {
            request.more = at < last;
            self.request();
            let answer = runtime.plugin.synchronize(context(), &request).await.unwrap();
            assert_eq!(answer.more, at < last);
            self.sim.borrow_mut().update(&answer.update);
        }
        self.sim.borrow_mut().synchronized(&reserved);
        *nri = Some(runtime);
    }

    /// The connection is cut, and `meanwhile` happens before the plugin is back.
    pub async fn cut(&self, chunks: bool, meanwhile: impl FnOnce(&Self)) {
        let mut nri = self.lock.lock().await;
        *nri = None;
        meanwhile(self);
        self.register(&mut nri, chunks).await;
    }

    /// The daemon dies and another is started.
    pub async fn kill(&self, chunks: bool, meanwhile: impl FnOnce(&Self)) {
        let mut nri = self.lock.lock().await;
        self.hands().kill();
        self.bury(&mut nri);
        meanwhile(self);
        self.start_daemon();
        self.register(&mut nri, chunks).await;
    }

    fn bury(&self, nri: &mut Option<FakeRuntime>) {
        *nri = None;
        drop(self.daemon.borrow_mut().take());
    }

    /// CreateContainer, as far as the spec. False where it was refused.
    pub async fn create(&self, asked: ContainerFacts, dies: Dies) -> Result<(), String> {
        let pod = self.sim.borrow().pod_of(&asked);
        let mut nri = self.lock.lock().await;
        // One that was on its way when its sandbox was stopped is decided all the same; where the end is told,
        // containerd comes back to it and undoes it.
        let has_ended = |sim: &Sim| sim.pods[&pod.id].stopped && sim.speaks_of(&pod.id);
        if has_ended(&self.sim.borrow()) {
            return Err("its sandbox has been stopped".into());
        }
        let hands = self.hands();
        hands.arm(dies);
        let request = CreateContainerRequest {
            pod: MessageField::some(messages::pod(&pod)),
            container: MessageField::some(messages::container(&asked)),
            ..Default::default()
        };
        self.request();
        let answer = nri.as_ref().unwrap().plugin.create_container(context(), &request).await;
        hands.disarm();
        let dead = hands.is_dead();
        // What dies after its answer has answered.
        if dead && dies != Dies::Answered {
            self.sim.borrow_mut().make(asked, None);
        } else {
            let answer = match answer.map_err(refusal) {
                Ok(answer) => answer,
                Err(text) => {
                    if dead {
                        self.resurrect(&mut nri).await;
                    }
                    drop(nri);
                    self.undo(&pod, &asked).await;
                    return Err(text);
                }
            };
            let mut sim = self.sim.borrow_mut();
            sim.update(&answer.update);
            sim.make(asked, Some(&answer.adjust.unwrap_or_default()));
        }
        if dead {
            self.resurrect(&mut nri).await;
        }
        Ok(())
    }

    async fn resurrect(&self, nri: &mut Option<FakeRuntime>) {
        self.bury(nri);
        self.start_daemon();
        self.register(nri, false).await;
    }

    /// What containerd tells of a create that it has given up.
    async fn undo(&self, pod: &PodFacts, asked: &ContainerFacts) {
        self.tell_stop(pod, asked).await;
        self.tell(Event::REMOVE_CONTAINER, pod, Some(asked)).await;
    }

    pub async fn run_pod(&self, facts: PodFacts) -> Result<(), String> {
        // The kubelet's first step.
        self.sim.borrow().world.things().pods.insert(facts.cgroup_parent.clone());
        let refused = {
            let nri = self.lock.lock().await;
            self.request();
            let (plugin, pod) = (&nri.as_ref().unwrap().plugin, messages::pod(&facts));
            let answer = match self.is_new() {
                true => {
                    let request = PodRequest { pod: MessageField::some(pod), ..Default::default() };
                    plugin.run_pod_sandbox(context(), &request).await
                }
                false => plugin.state_change(context(), &change(Event::RUN_POD_SANDBOX, &facts, None)).await,
            };
            answer.map_err(refusal).err()
        };
        if let Some(text) = refused {
            self.sim.borrow().world.things().pods.remove(&facts.cgroup_parent);
            self.tell(Event::STOP_POD_SANDBOX, &facts, None).await;
            self.tell(Event::REMOVE_POD_SANDBOX, &facts, None).await;
            return Err(text);
        }
        let mut sim = self.sim.borrow_mut();
        sim.vague.clear();
        let life = sim.life;
        sim.world.things().pods.insert(facts.cgroups_path.clone());
        sim.pods.insert(facts.id.clone(), Pod { facts, stopped: false, made_in: life });
        Ok(())
    }

    fn is_new(&self) -> bool {
        self.version == "v2.3.0"
    }

    /// An event whose answer nobody reads.
    pub async fn tell(&self, event: Event, pod: &PodFacts, container: Option<&ContainerFacts>) {
        let nri = self.lock.lock().await;
        let Some(runtime) = nri.as_ref() else { return };
        // Nothing starts in a sandbox that has been stopped.
        let stopped = self.sim.borrow().pods.get(&pod.id).is_none_or(|pod| pod.stopped);
        if event == Event::POST_START_CONTAINER && stopped {
            return;
        }
        self.request();
        let plugin = &runtime.plugin;
        let of_pod = PodRequest { pod: MessageField::some(messages::pod(pod)), ..Default::default() };
        let of_container = || ContainerRequest {
            pod: of_pod.pod.clone(),
            container: container.map(messages::container).into(),
            ..Default::default()
        };
        let answer = match event {
            _ if !self.is_new() => plugin.state_change(context(), &change(event, pod, container)).await,
            Event::STOP_POD_SANDBOX => plugin.stop_pod_sandbox(context(), &of_pod).await,
            Event::REMOVE_POD_SANDBOX => plugin.remove_pod_sandbox(context(), &of_pod).await,
            Event::POST_START_CONTAINER => plugin.post_start_container(context(), &of_container()).await,
            _ => plugin.remove_container(context(), &of_container()).await,
        };
        answer.unwrap();
        if event == Event::STOP_POD_SANDBOX {
            let mut sim = self.sim.borrow_mut();
            let of_it = sim.containers.values_mut().filter(|one| one.made.sandbox == pod.id);
            of_it.for_each(|one| one.told = true);
        }
        if let (Event::POST_START_CONTAINER, Some(started)) = (event, container) {
            let mut sim = self.sim.borrow_mut();
            sim.looked_after();
            // A word that comes late counts: the end of what has ended meanwhile is told after it.
            if let Some(one) = sim.containers.get_mut(&started.id) {
                one.told = false;
            }
        }
    }

    pub async fn tell_stop(&self, pod: &PodFacts, container: &ContainerFacts) {
        let nri = self.lock.lock().await;
        self.request();
        let request = StopContainerRequest {
            pod: MessageField::some(messages::pod(pod)),
            container: MessageField::some(messages::container(container)),
            ..Default::default()
        };
        let answer = nri.as_ref().unwrap().plugin.stop_container(context(), &request).await.unwrap();
        let mut sim = self.sim.borrow_mut();
        if let Some(ended) = sim.containers.get_mut(&container.id) {
            ended.told = true;
        }
        sim.update(&answer.update);
    }

    /// StartContainer: the cgroup, then the word.
    pub async fn start(&self, container: &Container) {
        let id = &container.made.id;
        let (pod, made) = {
            let mut sim = self.sim.borrow_mut();
            // Somebody was faster.
            if sim.containers.get(id).is_none_or(|one| one.phase != Phase::Made) {
                return;
            }
            sim.start(id);
            (sim.pod_of(&container.made), sim.containers[id].made.clone())
        };
        self.tell(Event::POST_START_CONTAINER, &pod, Some(&made)).await;
    }

    pub async fn update(&self, container: &Container, wanted: Resources) {
        let pod = self.sim.borrow().pod_of(&container.made);
        let nri = self.lock.lock().await;
        self.request();
        let request = UpdateContainerRequest {
            pod: MessageField::some(messages::pod(&pod)),
            container: MessageField::some(messages::container(&container.made)),
            linux_resources: MessageField::some(messages::resources(&wanted)),
            ..Default::default()
        };
        let answer = nri.as_ref().unwrap().plugin.update_container(context(), &request).await;
        let mut sim = self.sim.borrow_mut();
        let Ok(answer) = answer.map_err(refusal) else { return };
        let id = container.made.id.clone();
        let (own, others): (Vec<ContainerUpdate>, Vec<_>) =
            answer.update.into_iter().partition(|update| update.container_id == id.as_str());
        sim.update(&others);
        sim.resize(&id, &wanted, own.first());
        sim.looked_after();
    }
}

fn change(event: Event, pod: &PodFacts, container: Option<&ContainerFacts>) -> StateChangeEvent {
    StateChangeEvent {
        event: EnumOrUnknown::new(event),
        pod: MessageField::some(messages::pod(pod)),
        container: container.map(messages::container).into(),
        ..Default::default()
    }
}
