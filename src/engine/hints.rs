//! Which node sets one resource could come from: the kubelet's hints, as a rule instead of a list.

use super::machine::Machine;
use super::mask::Mask;
use super::search::{Budget, Demand, at_least, each_of_size, together};

/// The node sets a resource could come from.
#[derive(Debug, Clone)]
pub(super) struct Hints {
    /// Sets lie within these nodes.
    pub(super) universe: Mask,
    /// Sets meet all of these.
    pub(super) demands: Vec<Demand>,
    /// What else holds for memory.
    pub(super) shape: Option<Shape>,
    /// Which of them are preferred.
    pub(super) preference: Preference,
}

/// Which sets are preferred.
#[derive(Debug, Clone)]
pub(super) enum Preference {
    /// Those of the fewest nodes that hold the request when nothing is taken.
    Fewest(usize),
    /// Those, and those that reach into that many sockets (align-by-socket).
    Sockets { fewest: usize, sockets: usize },
    /// These: for hints that come as a list.
    Listed(Vec<Mask>),
}

/// Memory of one node and memory of several are never mixed on a node.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape {
    /// Nodes that may serve by themselves.
    pub(super) singles: Mask,
    /// Nodes nobody holds memory of: any set of them may serve.
    pub(super) unused: Mask,
    /// Sets that already serve as one.
    pub(super) groups: Vec<Mask>,
    /// What the pod's own ended init containers hold of a set, by demand: it can be used again.
    pub(super) reusable: Vec<(Mask, Vec<u64>)>,
}

impl Shape {
    fn allows(&self, mask: Mask) -> bool {
        match mask.count() {
            1 => mask.within(self.singles),
            _ => mask.within(self.unused) || self.groups.contains(&mask),
        }
    }

    fn reusable(&self, mask: Mask, demand: usize) -> u64 {
        let own = self.reusable.iter().find(|(nodes, _)| *nodes == mask);
        own.and_then(|(_, amounts)| amounts.get(demand)).copied().unwrap_or(0)
    }
}

impl Hints {
    /// Whether the resource could come from these nodes.
    pub(super) fn contains(&self, mask: Mask) -> bool {
        let reusable = |at| self.shape.as_ref().map_or(0, |shape| shape.reusable(mask, at));
        let met =
            |(at, demand): (usize, &Demand)| demand.held(mask).saturating_add(reusable(at)) >= demand.need;
        !mask.is_empty()
            && mask.within(self.universe)
            && self.shape.as_ref().is_none_or(|shape| shape.allows(mask))
            && self.demands.iter().enumerate().all(met)
    }

    /// The one size all preferred sets have, where they have one.
    pub(super) fn size(&self) -> Option<usize> {
        match &self.preference {
            Preference::Fewest(fewest) => Some(*fewest),
            Preference::Sockets { .. } | Preference::Listed(_) => None,
        }
    }

    /// Whether the nodes are as few as the request can do with.
    pub(super) fn prefers(&self, machine: &Machine, mask: Mask) -> bool {
        match &self.preference {
            Preference::Fewest(fewest) => mask.count() == *fewest,
            Preference::Sockets { fewest, sockets } => {
                mask.count() == *fewest || machine.sockets(mask) == *sockets
            }
            Preference::Listed(masks) => masks.contains(&mask),
        }
    }

    /// Whether there is any set at all.
    pub(super) fn possible(&self) -> bool {
        match &self.shape {
            None => self.contains(self.universe),
            Some(shape) => {
                let whole = [shape.unused];
                let singles = shape.singles.iter().map(Mask::single);
                singles.chain(whole).chain(shape.groups.iter().copied()).any(|mask| self.contains(mask))
            }
        }
    }

    /// The narrowest set that includes `must`, the smallest as an integer among those.
    pub(super) fn narrowest(&self, machine: &Machine, must: Mask) -> Option<Mask> {
        if !self.possible() {
            return None;
        }
        let nodes = machine.nodes().len();
        let hits: Vec<Demand> = must.iter().map(|node| Demand::hit(nodes, Mask::single(node))).collect();
        let own = [self];
        let common = Common::new(&own, &hits);
        let mut budget = Budget::new(self.universe.count());
        let mut sizes = must.count().max(1)..=self.universe.count();
        let found = sizes.find_map(|size| common.first_of_size(size, &mut budget));
        found.or_else(|| self.thinned(must))
    }

    /// A set that is not the narrowest: all nodes there are, less the highest ones it can do without.
    /// For when the search runs out of budget: that is no reason to say there is none.
    fn thinned(&self, must: Mask) -> Option<Mask> {
        let whole = self.shape.as_ref().map_or(self.universe, |shape| self.universe & shape.unused);
        if !must.within(whole) || !self.contains(whole) {
            return None;
        }
        let mut nodes: Vec<usize> = whole.iter().filter(|node| !must.has(*node)).collect();
        nodes.reverse();
        let thin = |mask: Mask, node: usize| {
            let less = mask & !Mask::single(node);
            if self.contains(less) { less } else { mask }
        };
        Some(nodes.into_iter().fold(whole, thin))
    }
}

/// Sets that several resources could come from at once.
pub(super) struct Common<'a> {
    hints: &'a [&'a Hints],
    /// Demands beside the resources' own.
    more: &'a [Demand],
    universe: Mask,
    /// Nodes of which any set may serve.
    free: Mask,
    /// All demands as one.
    together: Option<Demand>,
    /// No set of `free` nodes that is smaller will do.
    least: usize,
}

impl<'a> Common<'a> {
    pub(super) fn new(hints: &'a [&'a Hints], more: &'a [Demand]) -> Self {
        let universe = hints.iter().fold(Mask(u128::MAX), |mask, hints| mask & hints.universe);
        let shapes = hints.iter().filter_map(|hints| hints.shape.as_ref());
        let free = shapes.fold(universe, |mask, shape| mask & shape.unused);
        let mut common = Self { hints, more, universe, free, together: None, least: 1 };
        common.together = together(&common.demands());
        let least = common.demands().into_iter().map(|demand| at_least(free, demand)).max();
        Self { least: least.unwrap_or(1), ..common }
    }

    fn demands(&self) -> Vec<&Demand> {
        let own = self.hints.iter().flat_map(|hints| &hints.demands);
        own.chain(self.more).chain(&self.together).collect()
    }

    fn contains(&self, mask: Mask) -> bool {
        self.hints.iter().all(|hints| hints.contains(mask))
            && self.more.iter().all(|demand| demand.held(mask) >= demand.need)
    }

    /// The smallest set of that size as an integer.
    pub(super) fn first_of_size(&self, size: usize, budget: &mut Budget) -> Option<Mask> {
        let mut best: Option<Mask> = None;
        self.each_of_size(size, budget, &mut |mask| {
            best = Some(best.map_or(mask, |best| best.min(mask)));
            false
        });
        best
    }

    /// Calls `visit` with the sets of that size: ascending as integers until it says stop, then each of
    /// the few sets that are possible for reasons of their own.
    pub(super) fn each_of_size(&self, size: usize, budget: &mut Budget, visit: &mut dyn FnMut(Mask) -> bool) {
        if size == 1 {
            let mut singles = self.universe.iter().map(Mask::single).filter(|mask| self.contains(*mask));
            singles.all(visit);
            return;
        }
        if size >= self.least {
            each_of_size(self.free, size, &self.demands(), budget, visit);
        }
        let shapes = self.hints.iter().filter_map(|hints| hints.shape.as_ref());
        let groups = shapes.flat_map(|shape| shape.groups.iter().copied());
        groups.filter(|group| group.count() == size && self.contains(*group)).for_each(|group| {
            visit(group);
        });
    }
}
