//! Exact requests: what the kubelet allotted to a pod, read once before the first event that can use it.

use crate::decision::Event;
use crate::model::{PodAllotment, PodFacts, PodUid};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kubelet's books, as much of them as the daemon needs. Reading may take as long as the budget they were made
/// with, no longer.
pub trait Allotments: Send + Sync {
    /// What a pod was allotted, read now; `None` where nobody tells.
    fn pod(&self, pod: &PodFacts) -> Option<PodAllotment>;

    /// The same of many pods at once.
    fn pods(&self, pods: &[PodFacts]) -> BTreeMap<PodUid, PodAllotment>;
}

/// What was read of pods that have not ended. Clones are of the same book, which is never held while the kubelet is
/// asked: who answers in the decision's stead looks into it too.
#[derive(Debug, Clone, Default)]
pub(super) struct Allotted(Arc<Mutex<BTreeMap<PodUid, PodAllotment>>>);

impl Allotted {
    /// What is to be known before an event is decided about: all pods' allotments when the runtime tells all it has,
    /// a pod's when its sandbox is made, and again for a container that was not in it then.
    pub fn before(&self, event: &Event, source: &dyn Allotments) -> Vec<Event> {
        match event {
            Event::Synchronize { pods, .. } => {
                self.book().clear();
                let read = source.pods(pods);
                read.into_iter().map(|(uid, allotment)| self.news(uid, allotment)).collect()
            }
            Event::RunPod(pod) => self.read(pod, source),
            Event::Create(pod, container) => {
                let book = self.book();
                let known =
                    book.get(&pod.uid).is_some_and(|known| known.containers.contains_key(&container.name));
                drop(book);
                if known { Vec::new() } else { self.read(pod, source) }
            }
            Event::StopPod(pod) | Event::RemovePod(pod) => {
                self.book().remove(&pod.uid);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Forgets what was decided to be over.
    pub fn retain(&self, lives: impl Fn(&PodUid) -> bool) {
        self.book().retain(|pod, _| lives(pod));
    }

    /// What is known of a pod.
    pub fn of(&self, pod: &PodUid) -> Option<PodAllotment> {
        self.book().get(pod).cloned()
    }

    /// Entries are replaced whole, so a panic elsewhere has not left one half done.
    fn book(&self) -> MutexGuard<'_, BTreeMap<PodUid, PodAllotment>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, pod: &PodFacts, source: &dyn Allotments) -> Vec<Event> {
        let allotment = source.pod(pod);
        allotment.map(|allotment| self.news(pod.uid.clone(), allotment)).into_iter().collect()
    }

    fn news(&self, uid: PodUid, allotment: PodAllotment) -> Event {
        self.book().insert(uid.clone(), allotment.clone());
        Event::Allotted(uid, allotment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::testing::{container, pod};
    use crate::model::{Allotment, AllotmentSource};
    use std::sync::Mutex;

    /// A kubelet that counts its questions and knows one container of each pod.
    #[derive(Default)]
    struct Books(Mutex<Vec<String>>);

    impl Allotments for Books {
        fn pod(&self, pod: &PodFacts) -> Option<PodAllotment> {
            self.0.lock().unwrap().push(pod.name.clone());
            let main = ("main".into(), Allotment::default());
            let known = PodAllotment { source: AllotmentSource::PodResources, containers: [main].into() };
            (pod.name != "unknown").then_some(known)
        }

        fn pods(&self, pods: &[PodFacts]) -> BTreeMap<PodUid, PodAllotment> {
            pods.iter().filter_map(|pod| Some((pod.uid.clone(), self.pod(pod)?))).collect()
        }
    }

    #[test]
    fn a_pod_is_read_once_and_again_for_a_container_it_did_not_have() {
        let (allotted, books) = (Allotted::default(), Books::default());
        let news = |event: Event| allotted.before(&event, &books).len();
        assert_eq!(news(Event::RunPod(pod("a"))), 1);
        assert_eq!(news(Event::Create(pod("a"), container("main"))), 0, "it is known");
        assert_eq!(
            news(Event::Create(pod("a"), container("init"))),
            1,
            "a regular init container is not listed"
        );
        assert_eq!(news(Event::Started(pod("a"), container("main"))), 0);
        assert_eq!(news(Event::StopPod(pod("a"))), 0);
        assert_eq!(news(Event::Create(pod("a"), container("main"))), 1, "another life");
        assert_eq!(news(Event::RunPod(pod("unknown"))), 0, "nobody tells");
        assert_eq!(*books.0.lock().unwrap(), ["a", "a", "a", "unknown"]);
    }

    #[test]
    fn everything_is_read_anew_when_the_runtime_tells_all_it_has() {
        let (allotted, books) = (Allotted::default(), Books::default());
        let news = |event: Event| allotted.before(&event, &books);
        news(Event::RunPod(pod("gone")));
        let pods = vec![pod("a"), pod("unknown")];
        let told = news(Event::Synchronize {
            pods,
            containers: Vec::new(),
            observed: BTreeMap::new(),
            hints: Vec::new(),
        });
        assert!(matches!(&told[..], [Event::Allotted(uid, _)] if *uid == pod("a").uid), "{told:?}");
        assert!(allotted.of(&pod("a").uid).is_some() && allotted.of(&pod("gone").uid).is_none());
        assert_eq!(news(Event::Create(pod("a"), container("main"))).len(), 0);
        assert_eq!(news(Event::Create(pod("gone"), container("main"))).len(), 1);
    }
}
