//! Who is meant: by name, UID or id, among those whom a verdict or an allocation is about.

use super::{Holds, Part, Story};
use crate::cli::node::Node;
use crate::ledger::Record;
use crate::store::{By, Told};
use std::collections::BTreeSet;

/// What a name leads to.
pub(super) enum Found {
    One(Story),
    /// Names that tell them apart.
    Several(Vec<String>),
    /// Names that are much like it.
    None {
        near: Vec<String>,
    },
}

/// How alike a name must be to be offered (Jaro-Winkler).
const ALIKE: f64 = 0.75;
/// How many are offered.
const MOST: usize = 5;

/// A container, or a pod as a whole, that something is known of.
struct Subject<'a> {
    namespace: String,
    pod: String,
    uid: &'a str,
    container: Option<&'a str>,
    ids: BTreeSet<&'a str>,
}

impl Subject<'_> {
    fn is_called(&self, name: &str) -> bool {
        let container = self.container.unwrap_or_default();
        let parts: Vec<&str> = name.split('/').collect();
        match *parts.as_slice() {
            [one] => {
                one == self.pod
                    || one == self.uid
                    || one == container
                    || (one.len() >= 4 && self.ids.iter().any(|id| id.starts_with(one)))
            }
            [one, two] => {
                (one == self.namespace && two == self.pod)
                    || ((one == self.pod || one == self.uid) && two == container)
            }
            [one, two, three] => one == self.namespace && two == self.pod && three == container,
            _ => false,
        }
    }

    /// `namespace/name`, or the UID where no name is known.
    fn title(&self) -> String {
        match self.pod.is_empty() {
            true => self.uid.to_owned(),
            false => format!("{}/{}", self.namespace, self.pod),
        }
    }
}

pub(super) fn find(node: &Node, told: &[Told], name: &str) -> Found {
    let subjects = subjects(node, told);
    let meant: Vec<&Subject<'_>> =
        subjects.iter().filter(|one| !name.is_empty() && one.is_called(name)).collect();
    // A pod's name goes before a container's: every sidecar is called proxy.
    let pods: Vec<_> = meant.iter().filter(|one| name == one.pod || name == one.uid).copied().collect();
    let meant = if pods.is_empty() { meant } else { pods };
    let titles: BTreeSet<String> = meant.iter().map(|one| one.title()).collect();
    match titles.len() {
        0 => Found::None { near: near(&subjects, name) },
        1 => Found::One(story(node, told, &subjects, &meant, name)),
        _ => Found::Several(meant.iter().map(|one| full(one)).collect::<BTreeSet<_>>().into_iter().collect()),
    }
}

fn full(one: &Subject<'_>) -> String {
    match one.container {
        Some(container) => format!("{}/{container}", one.title()),
        None => one.title(),
    }
}

fn near(subjects: &[Subject<'_>], name: &str) -> Vec<String> {
    let likeness = |one: &Subject<'_>| {
        let names = [one.title(), one.pod.clone(), full(one), one.container.unwrap_or_default().to_owned()];
        names.iter().map(|other| strsim::jaro_winkler(name, other)).fold(0.0, f64::max)
    };
    let mut alike: Vec<(f64, String)> = subjects
        .iter()
        .map(|one| (likeness(one), one.title()))
        .filter(|(alike, _)| *alike >= ALIKE)
        .collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut names: Vec<String> = Vec::new();
    for (_, name) in alike {
        if !names.contains(&name) && names.len() < MOST {
            names.push(name);
        }
    }
    names
}

/// In the order of the first word about each.
fn subjects<'a>(node: &'a Node, told: &'a [Told]) -> Vec<Subject<'a>> {
    let mut subjects: Vec<Subject<'a>> = Vec::new();
    for one in told {
        let container = one.container.as_deref();
        let at = subjects.iter().position(|other| other.uid == one.pod_uid && other.container == container);
        let at = at.unwrap_or_else(|| {
            let ids = BTreeSet::new();
            let (namespace, pod) = (one.namespace.clone(), one.pod.clone());
            subjects.push(Subject { namespace, pod, uid: &one.pod_uid, container, ids });
            subjects.len() - 1
        });
        subjects[at].ids.extend(one.container_id.as_deref());
    }
    for (kept, _) in &node.living {
        let (uid, container) = (kept.key.pod.as_str(), Some(kept.key.container.as_str()));
        let known = subjects.iter_mut().find(|one| one.uid == uid && one.container == container);
        match known {
            Some(known) => drop(known.ids.insert(kept.id.as_str())),
            None => {
                let title = node.names.pod(&kept.key.pod).and_then(|title| title.split_once('/'));
                let (namespace, pod) = title.unwrap_or_default();
                let (namespace, pod) = (namespace.to_owned(), pod.to_owned());
                subjects.push(Subject { namespace, pod, uid, container, ids: [kept.id.as_str()].into() });
            }
        }
    }
    subjects
}

/// The pod that was heard of last, with the containers that are meant: all of them where the pod is.
fn story(node: &Node, told: &[Told], subjects: &[Subject<'_>], meant: &[&Subject<'_>], name: &str) -> Story {
    let last = |uid: &str| told.iter().rposition(|one| one.pod_uid == uid);
    let uids: BTreeSet<&str> = meant.iter().map(|one| one.uid).collect();
    let uid = uids.iter().copied().max_by_key(|uid| last(uid)).unwrap_or_default();
    let whole = meant.iter().any(|one| name == one.pod || name == one.uid || name == one.title());
    let of_pod = subjects.iter().filter(|one| one.uid == uid);
    let parts = of_pod.filter(|one| {
        whole || meant.iter().any(|other| other.uid == uid && other.container == one.container)
    });
    Story {
        pod: meant.iter().find(|one| one.uid == uid).map(|one| one.title()).unwrap_or_default(),
        pod_uid: uid.to_owned(),
        parts: parts.map(|one| part(node, told, one)).collect(),
        earlier: uids.len() - 1,
    }
}

fn part(node: &Node, told: &[Told], subject: &Subject<'_>) -> Part {
    let own = |one: &&Told| one.pod_uid == subject.uid && one.container.as_deref() == subject.container;
    let holds = node.living.iter().find(|(kept, _)| {
        kept.key.pod.as_str() == subject.uid && Some(kept.key.container.as_str()) == subject.container
    });
    Part {
        container: subject.container.map(str::to_owned),
        told: told.iter().filter(own).cloned().collect(),
        holds: holds.map(|(kept, known)| Holds {
            text: seat(&known.record),
            running: known.runs,
            by: match kept.by {
                By::Nri => "nri",
                By::Hook => "hook",
                By::Runtime => "runtime",
            },
            id: kept.id.to_string(),
        }),
    }
}

fn seat(record: &Record) -> String {
    crate::log::placement(record.placement())
}
