//! cgroup v1: the kernel refuses a set that the cgroup above does not contain, and one that does not
//! contain every set below (`validate_change` in `kernel/cgroup/cpuset-v1.c`). So a change goes down
//! the tree making room and up the tree taking away.

use super::super::cgroups::absent;
use super::super::error::{ended, io};
use super::{HostError, Member, list, no_file, set};
use crate::model::IdSet;
use std::path::{Path, PathBuf};

/// A cgroup at or below the container's. Parents come before their children; the first is the
/// container's own.
struct Nested<I> {
    dir: PathBuf,
    /// Where in the list its parent is; the first is its own.
    parent: usize,
    has: IdSet<I>,
}

/// One write: which of the cgroups, and the set it gets.
type Step<I> = (usize, IdSet<I>);

/// Gives the container's cgroup `dir` the set `wanted`, and those nested in it what fits.
pub(super) fn write<I: Member>(mount: &Path, dir: &Path, wanted: &IdSet<I>) -> Result<(), HostError> {
    check_above(mount, dir, wanted)?;
    let tree = walk::<I>(dir)?;
    steps(&tree, wanted).into_iter().try_for_each(|(at, list)| set(&tree[at].dir, &list, false))
}

/// Said before anything is written, in better words than the kernel's EACCES.
fn check_above<I: Member>(mount: &Path, dir: &Path, wanted: &IdSet<I>) -> Result<(), HostError> {
    let above = dir.parent().filter(|above| above.starts_with(mount));
    let allowed = above.map(|above| list::<I>(&above.join(I::FILE))).transpose()?.flatten();
    match allowed {
        Some(allowed) if !wanted.is_subset(&allowed) => Err(HostError::Above {
            path: dir.join(I::FILE),
            noun: I::NOUN,
            wanted: wanted.to_string(),
            allowed: allowed.to_string(),
        }),
        _ => Ok(()),
    }
}

fn walk<I: Member>(dir: &Path) -> Result<Vec<Nested<I>>, HostError> {
    let mut tree = Vec::new();
    let mut waiting = vec![(dir.to_owned(), 0)];
    while let Some((dir, parent)) = waiting.pop() {
        // Gone between listing and reading: nothing to change there.
        let Some(has) = list(&dir.join(I::FILE))? else { continue };
        let at = tree.len();
        waiting.extend(children(&dir)?.into_iter().map(|child| (child, at)));
        tree.push(Nested { dir, parent, has });
    }
    match tree.is_empty() {
        true => Err(absent(dir).unwrap_or_else(|| no_file(&dir.join(I::FILE)))),
        false => Ok(tree),
    }
}

fn children(dir: &Path) -> Result<Vec<PathBuf>, HostError> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if ended(&error) => return Ok(Vec::new()),
        entries => entries.map_err(io("list", dir))?,
    };
    let entries: Result<Vec<_>, _> = entries.collect();
    let entries = entries.map_err(io("list", dir))?;
    let dirs = entries.iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(dirs.map(std::fs::DirEntry::path).collect())
}

/// The writes that lead from what the cgroups have to what they get, each of which the kernel takes.
/// Where nothing is nested that is one: the container never has more than the old or the new set.
fn steps<I: Member>(tree: &[Nested<I>], wanted: &IdSet<I>) -> Vec<Step<I>> {
    let new = targets(tree, wanted);
    let mut has: Vec<IdSet<I>> = tree.iter().map(|cgroup| cgroup.has.clone()).collect();
    let mut steps = Vec::new();
    let mut step = |at: usize, to: IdSet<I>| {
        if has[at] != to {
            has[at] = to.clone();
            steps.push((at, to));
        }
    };
    let has_children = |at: usize| tree.iter().skip(1).any(|cgroup| cgroup.parent == at);
    for at in (0..tree.len()).filter(|at| has_children(*at)) {
        step(at, tree[at].has.union(&new[at]));
    }
    for at in (0..tree.len()).rev() {
        step(at, new[at].clone());
    }
    steps
}

/// What each cgroup gets, inside what its parent gets.
fn targets<I: Member>(tree: &[Nested<I>], wanted: &IdSet<I>) -> Vec<IdSet<I>> {
    let mut new: Vec<IdSet<I>> = Vec::with_capacity(tree.len());
    for cgroup in tree {
        let own = cgroup.has.intersection(wanted);
        new.push(match new.get(cgroup.parent) {
            // The container's own.
            None => wanted.clone(),
            // It followed the container before and goes on so.
            Some(_) if cgroup.has == tree[0].has => wanted.clone(),
            // Never set up; nothing can run there.
            Some(_) if cgroup.has.is_empty() => IdSet::new(),
            // Nothing of its own choice is left.
            Some(parent) if own.is_empty() => parent.clone(),
            Some(_) => own,
        });
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CpuId, CpuSet};
    use proptest::prelude::*;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn tree(cgroups: &[(usize, &str)]) -> Vec<Nested<CpuId>> {
        let nested =
            |(parent, list): &(usize, &str)| Nested { dir: PathBuf::new(), parent: *parent, has: cpus(list) };
        cgroups.iter().map(nested).collect()
    }

    fn told(steps: &[Step<CpuId>]) -> Vec<String> {
        steps.iter().map(|(at, set)| format!("{at}:{set}")).collect()
    }

    #[test]
    fn one_write_where_nothing_is_nested() {
        assert_eq!(told(&steps(&tree(&[(0, "0-3")]), &cpus("4-7"))), ["0:4-7"]);
        assert!(steps(&tree(&[(0, "0-3")]), &cpus("0-3")).is_empty());
    }

    #[test]
    fn shrinking_begins_below_and_growing_above() {
        let nested = [(0, "0-7"), (0, "0-7"), (1, "0-7")];
        assert_eq!(told(&steps(&tree(&nested), &cpus("0-3"))), ["2:0-3", "1:0-3", "0:0-3"]);
        let nested = [(0, "0-3"), (0, "0-3"), (1, "0-3")];
        assert_eq!(told(&steps(&tree(&nested), &cpus("0-7"))), ["0:0-7", "1:0-7", "2:0-7"]);
    }

    #[test]
    fn a_move_has_both_for_a_moment() {
        let steps = steps(&tree(&[(0, "0-3"), (0, "0-3")]), &cpus("4-7"));
        assert_eq!(told(&steps), ["0:0-7", "1:4-7", "0:4-7"]);
    }

    #[test]
    fn a_narrower_choice_is_kept_as_far_as_it_goes() {
        let nested = [(0, "0-7"), (0, "2-5"), (0, "6-7"), (2, "6"), (0, "")];
        let targets = targets(&tree(&nested), &cpus("0-3"));
        let told: Vec<String> = targets.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["0-3", "2-3", "0-3", "0-3", ""]);
    }

    /// A tree the kernel can have: each set within its parent's, as bits of 12 CPUs.
    fn any_tree() -> impl Strategy<Value = Vec<(usize, u16)>> {
        let cgroup = (any::<prop::sample::Index>(), any::<u16>());
        (1u16..4096, prop::collection::vec(cgroup, 0..8)).prop_map(|(own, below)| {
            let mut tree = vec![(0, own)];
            for (parent, bits) in below {
                let parent = parent.index(tree.len());
                tree.push((parent, bits & tree[parent].1));
            }
            tree
        })
    }

    fn set_of(bits: u16) -> CpuSet {
        (0..12).filter(|bit| bits >> bit & 1 == 1).map(CpuId).collect()
    }

    proptest! {
        #[test]
        fn the_kernel_takes_every_step(cgroups in any_tree(), wanted in 1u16..4096) {
            let tree: Vec<_> = cgroups
                .iter()
                .map(|(parent, bits)| Nested { dir: PathBuf::new(), parent: *parent, has: set_of(*bits) })
                .collect();
            let mut has: Vec<CpuSet> = tree.iter().map(|cgroup| cgroup.has.clone()).collect();
            let wanted = set_of(wanted);
            for (at, to) in steps(&tree, &wanted) {
                prop_assert!(to.is_empty() == has[at].is_empty(), "a cgroup with tasks lost everything");
                has[at] = to;
                for (child, cgroup) in tree.iter().enumerate().skip(1) {
                    prop_assert!(has[child].is_subset(&has[cgroup.parent]));
                }
            }
            prop_assert_eq!(&has[0], &wanted);
        }
    }
}
