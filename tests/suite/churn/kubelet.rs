//! A kubelet small enough to be believed: it gives each of the device plugin's ids to one pod at a time, and takes
//! them back as soon as all of a pod's containers have ended. That the plugin offers a GPU, replicas of it and MIG
//! devices on it side by side is nobody's good idea, and must not put two containers on one GPU all the same.

use super::node::Node;
use super::runtime::VISIBLE;
use maitred::decision::Event;
use maitred::model::*;
use std::collections::{BTreeMap, BTreeSet};

/// The first flavour of pods that get devices.
pub const GIVEN: u8 = 14;

impl Node {
    /// Gives a pod's containers what its flavour asks for, and tells of it.
    pub(super) fn allot(&mut self, pod: &PodFacts, flavour: u8) {
        let Some(wish) = flavour.checked_sub(GIVEN) else { return };
        let mut free = self.free_ids();
        let mut take = |which: usize| {
            let id = (!free.is_empty()).then(|| free.remove(which % free.len()))?;
            let resource = match id.starts_with("MIG-") {
                true => "nvidia.com/mig-1g.10gb",
                false if id.contains("::") => "nvidia.com/gpu.shared",
                false => "nvidia.com/gpu",
            };
            Some((ResourceName::from(resource), BTreeMap::from([(id, None)])))
        };
        let first = usize::try_from(self.runtime.made).unwrap() * 7;
        let mut containers: BTreeMap<ContainerName, Allotment> = BTreeMap::new();
        containers.insert(
            "c0".into(),
            Allotment { devices: take(first).into_iter().collect(), ..Allotment::default() },
        );
        if wish.is_multiple_of(2) {
            let devices = take(first + 3).into_iter().collect();
            containers.insert("c1".into(), Allotment { devices, ..Allotment::default() });
        }
        let source = if wish < 2 { AllotmentSource::PodResources } else { AllotmentSource::Checkpoint };
        self.books.insert(pod.uid.clone(), PodAllotment { source, containers });
        self.tell_books(&pod.uid);
    }

    /// Tells what a pod was given, if anything is known of it.
    pub(super) fn tell_books(&mut self, pod: &PodUid) {
        if let Some(known) = self.books.get(pod) {
            self.tell(Event::Allotted(pod.clone(), known.clone()));
        }
    }

    /// What the plugin offers and no pod has.
    fn free_ids(&self) -> Vec<String> {
        let taken: BTreeSet<&String> = self
            .books
            .iter()
            .filter(|(pod, _)| !self.has_ended(pod))
            .flat_map(|(_, known)| known.containers.values())
            .flat_map(|one| one.devices.values().flat_map(BTreeMap::keys))
            .collect();
        let offered = self.topology.gpus.iter().flat_map(|gpu| {
            let uuid = gpu.uuid.clone().unwrap();
            let replicas = [format!("{uuid}::0"), format!("{uuid}::1")];
            let mig = gpu.mig.iter().map(|mig| mig.uuid.clone());
            std::iter::once(uuid).chain(replicas).chain(mig).collect::<Vec<_>>()
        });
        offered.filter(|id| !taken.contains(id)).collect()
    }

    /// Whether nothing of a pod runs that has run.
    fn has_ended(&self, pod: &PodUid) -> bool {
        let sandboxes: Vec<_> = self.runtime.pods.values().filter(|one| one.facts.uid == *pod).collect();
        let mut containers =
            self.runtime.containers.values().filter(|container| {
                sandboxes.iter().any(|sandbox| sandbox.facts.id == container.facts.sandbox)
            });
        let made = containers.clone().next().is_some();
        sandboxes.iter().all(|sandbox| sandbox.stopped)
            || (made && containers.all(|container| !container.alive))
    }

    /// The same container as its device plugin lets it be made. One in ten names something else by hand.
    pub(super) fn with_devices(&self, mut asked: ContainerFacts, pod: &PodFacts, ask: u8) -> ContainerFacts {
        let own = self.books.get(&pod.uid).and_then(|known| known.containers.get(&asked.name));
        let ids = own.into_iter().flat_map(|one| one.devices.values().flat_map(BTreeMap::keys));
        let ids: Vec<&str> = ids.map(String::as_str).collect();
        if !ids.is_empty() && ask != 4 {
            asked.env = vec![format!("{VISIBLE}={}", ids.join(","))];
        }
        asked
    }

    /// What is known of the pod an event is about.
    pub(super) fn allotted(&self, event: &Event) -> Option<&PodAllotment> {
        match event {
            Event::Create(pod, _) => self.books.get(&pod.uid),
            _ => None,
        }
    }
}
