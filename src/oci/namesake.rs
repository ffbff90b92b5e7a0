//! Which of those in the books a container is. Its id is unique to one directory of one runtime, and what its key is
//! made of may stand in annotations that anybody wrote: neither alone tells it from another that runs.

use super::books::Books;
use super::desk::Place;
use super::facts::Party;
use crate::decision::Known;
use crate::model::{ContainerId, ContainerKey, PodUid};
use crate::store::Allocation;
use std::borrow::Cow;

/// Stands between a word that another has already and a number. No runtime takes it in an id.
const MARK: char = '~';

type Living = [(Allocation, Known)];

/// Whether an id of the books is a container's, or that of one which was put apart from it.
pub(super) fn is_of(kept: &ContainerId, id: &ContainerId) -> bool {
    let Some(rest) = kept.as_str().strip_prefix(id.as_str()) else { return false };
    rest.is_empty()
        || rest.strip_prefix(MARK).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The allocation of that very container: of one that is about to be made in the same cgroup, or by the process that
/// calls us.
pub(super) fn itself(books: &Books<'_>, living: &Living, id: &ContainerId, place: &Place) -> Option<usize> {
    living.iter().position(|(one, _)| is_of(&one.id, id) && is_there(books, one, place))
}

fn is_there(books: &Books<'_>, one: &Allocation, place: &Place) -> bool {
    let calls = |pid| one.holders.iter().any(|holder| holder.pid == pid && books.process_lives(*holder));
    one.cgroups.is_empty() || place.caller.is_some_and(calls) || cgroup(books, one, place).is_some()
}

/// The cgroup of an allocation that a place lies in.
pub(super) fn cgroup(books: &Books<'_>, one: &Allocation, place: &Place) -> Option<String> {
    let lives = |path: &&String| books.cgroups.is_populated(path).unwrap_or(true);
    let mut theirs: Vec<&String> = one.cgroups.iter().filter(lives).collect();
    if theirs.is_empty() {
        theirs = one.cgroups.iter().collect();
    }
    let mut ours: Vec<&String> = place.cgroups.iter().collect();
    // Of two that are not known for certain the surest count: all relative paths could be the one from the root.
    if theirs.len() > 1 && ours.len() > 1 {
        theirs.truncate(1);
        ours.truncate(1);
    }
    let same = |path: &&&String| ours.iter().any(|own| books.cgroups.is_within(own, path));
    theirs.iter().find(same).map(|path| (*path).clone())
}

/// A container under words of its own, where another that lives has its id or its key.
pub(super) fn apart<'a>(party: &'a Party, living: &Living) -> Cow<'a, Party> {
    let (id, uid) = (&party.container.id, &party.pod.uid);
    let key = |uid: &PodUid| ContainerKey::new(uid.clone(), party.container.name.clone());
    let has_id = |id: &ContainerId| living.iter().any(|(one, _)| one.id == *id);
    // One that has stopped is the attempt before.
    let has_key = |key: &ContainerKey| living.iter().any(|(one, known)| one.key == *key && known.runs);
    let (other_id, other_key) = (has_id(id), has_key(&key(uid)));
    if !other_id && !other_key {
        return Cow::Borrowed(party);
    }
    let next = |word: &str, number: usize| format!("{word}{MARK}{number}");
    let is_free = |number: &usize| {
        !has_id(&ContainerId::new(next(id.as_str(), *number)))
            && !living.iter().any(|(one, _)| one.key == key(&PodUid::new(next(uid.as_str(), *number))))
    };
    // One more than there are is free for sure.
    let number = (2..living.len() + 2).find(is_free).unwrap_or(living.len() + 2);
    let mut party = party.clone();
    if other_id {
        party.container.id = ContainerId::new(next(party.container.id.as_str(), number));
    }
    party.pod.uid = PodUid::new(next(party.pod.uid.as_str(), number));
    tracing::warn!(container_id = %party.container.id, pod_uid = %party.pod.uid, "another of its name runs: kept apart");
    Cow::Owned(party)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_its_own_and_that_of_those_put_apart() {
        let is = |kept: &str| is_of(&kept.into(), &"c1".into());
        assert!(is("c1") && is("c1~2") && is("c1~10"));
        assert!(!is("c") && !is("c12") && !is("c1~x") && !is("x~2"));
    }
}
