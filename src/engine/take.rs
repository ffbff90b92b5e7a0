//! Which CPUs to take: the packed and the spread order of the static policy.

use super::layout::{Layout, Level};
use crate::model::CpuSet;

/// How CPUs are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Style {
    /// One thread a core before a second one.
    pub(super) spread: bool,
    /// Whole last-level caches where possible.
    pub(super) caches: bool,
    /// Evenly over nodes, in groups of that many CPUs.
    pub(super) distribute: Option<usize>,
}

/// Takes `need` of the available CPUs; `None` where there are not so many.
pub(super) fn take(layout: &Layout, available: &CpuSet, need: usize, style: Style) -> Option<CpuSet> {
    match style.distribute {
        Some(group) => super::distribute::take_evenly(layout, available, need, group, style),
        None => take_packed(layout, available, need, style),
    }
}

/// Takes CPUs in as few and as whole groups as possible, from the fullest groups first.
pub(super) fn take_packed(layout: &Layout, available: &CpuSet, need: usize, style: Style) -> Option<CpuSet> {
    let mut taking = Taking { layout, free: layout.flags(available), need, taken: CpuSet::new() };
    if taking.free.iter().filter(|free| **free).count() < need {
        return None;
    }
    taking.whole_groups();
    if style.caches {
        taking.caches();
    }
    if !style.spread {
        taking.whole(&layout.cores, &taking.cores());
    }
    taking.threads(style.spread);
    Some(taking.taken)
}

/// CPUs on the way from free to taken.
struct Taking<'a> {
    layout: &'a Layout,
    free: Vec<bool>,
    need: usize,
    taken: CpuSet,
}

impl Taking<'_> {
    fn claim(&mut self, cpus: &[usize]) {
        for cpu in cpus {
            self.free[*cpu] = false;
            self.taken.insert(self.layout.cpus[*cpu]);
        }
        self.need -= cpus.len();
    }

    fn is_free(&self, group: &[usize]) -> bool {
        group.iter().all(|cpu| self.free[*cpu])
    }

    /// Claims the wholly free groups that are not larger than what is still needed.
    fn whole(&mut self, level: &Level, order: &[usize]) {
        for group in order {
            let members = &level.members[*group];
            if members.len() <= self.need && self.is_free(members) {
                self.claim(members);
            }
        }
    }

    /// Nodes and sockets, the larger ones first.
    fn whole_groups(&mut self) {
        let (nodes, sockets) = (&self.layout.nodes, &self.layout.sockets);
        let (outer, inner) = if self.layout.nodes_first() { (nodes, sockets) } else { (sockets, nodes) };
        self.whole(outer, &outer.sorted(&self.free));
        let order = inner.sorted_within(outer, &outer.sorted(&self.free), &self.free);
        self.whole(inner, &order);
    }

    /// The smaller of node and socket, in order: what cores and caches are sorted within.
    fn inner(&self) -> (&Level, Vec<usize>) {
        let (nodes, sockets) = (&self.layout.nodes, &self.layout.sockets);
        let (outer, inner) = if self.layout.nodes_first() { (nodes, sockets) } else { (sockets, nodes) };
        (inner, inner.sorted_within(outer, &outer.sorted(&self.free), &self.free))
    }

    fn cores(&self) -> Vec<usize> {
        let (inner, order) = self.inner();
        self.layout.cores.sorted_within(inner, &order, &self.free)
    }

    fn sorted_caches(&self) -> Vec<usize> {
        let (inner, order) = self.inner();
        self.layout.caches.sorted_within(inner, &order, &self.free)
    }

    /// Whole caches while at least an average one is needed, then what is left from within one cache.
    fn caches(&mut self) {
        let layout = self.layout;
        for cache in self.sorted_caches() {
            if self.need >= layout.cpus_per_cache() {
                let order = self.sorted_caches();
                self.whole(&layout.caches, &order);
            }
            if self.need == 0 {
                return;
            }
            let part = self.part_of_cache(cache);
            if part.len() == self.need {
                self.claim(&part);
                return;
            }
        }
    }

    /// The free CPUs of as many of the cache's cores as the need takes, lowest cores first.
    fn part_of_cache(&self, cache: usize) -> Vec<usize> {
        let threads = self.layout.threads_per_core();
        let members = self.layout.caches.members[cache].iter().copied();
        let free: Vec<usize> = members.filter(|cpu| self.free[*cpu]).collect();
        let mut cores: Vec<usize> = free.iter().map(|cpu| self.layout.cores.of[*cpu]).collect();
        cores.sort_unstable();
        cores.dedup();
        cores.truncate(self.need.div_ceil(threads));
        let inside = |cpu: &usize| cores.contains(&self.layout.cores.of[*cpu]);
        let mut part: Vec<usize> = free.into_iter().filter(inside).collect();
        if self.need % 2 == 1 && threads > 1 && part.len() > self.need {
            part.pop();
        }
        part
    }

    /// Single threads: core by core, or socket by socket where they are to be spread.
    fn threads(&mut self, spread: bool) {
        let layout = self.layout;
        let (level, order) = if spread {
            let nodes = layout.nodes.sorted(&self.free);
            let order = if layout.nodes_first() {
                layout.sockets.sorted_within(&layout.nodes, &nodes, &self.free)
            } else {
                layout.sockets.sorted(&self.free)
            };
            (&layout.sockets, order)
        } else {
            (&layout.cores, self.cores())
        };
        for cpu in order.iter().flat_map(|group| &level.members[*group]) {
            if self.need > 0 && self.free[*cpu] {
                self.claim(&[*cpu]);
            }
        }
    }
}
