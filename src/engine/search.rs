//! Node sets of a given size that meet demands, found without listing them all.

use super::mask::Mask;

/// How many partial sets one search looks at before it gives up. A machine of 14 nodes or fewer has no
/// more sets than this, so there the search is exact; beyond, it cuts branches that cannot meet a
/// demand, and what it does not find within the budget counts as not there.
const BUDGET: usize = 16_384;

/// An amount that a node set must hold.
#[derive(Debug, Clone)]
pub(super) struct Demand {
    /// What each node holds by itself.
    pub(super) weights: Vec<u64>,
    /// What is held by several nodes at once and counts once (a device between two nodes).
    pub(super) shared: Vec<(Mask, u64)>,
    /// How much is needed.
    pub(super) need: u64,
}

impl Demand {
    /// A demand nothing meets yet.
    pub(super) fn new(nodes: usize, need: u64) -> Self {
        Self { weights: vec![0; nodes], shared: Vec::new(), need }
    }

    /// That the set has a node of `mask`.
    pub(super) fn hit(nodes: usize, mask: Mask) -> Self {
        let mut demand = Self::new(nodes, 1);
        demand.add(mask, 1);
        demand
    }

    /// Adds something held by the nodes of `mask`, each of which gives all of it.
    pub(super) fn add(&mut self, mask: Mask, amount: u64) {
        if mask.count() > 1 {
            self.shared.push((mask, amount));
        } else {
            mask.iter().for_each(|node| self.weights[node] = self.weights[node].saturating_add(amount));
        }
    }

    /// What the set holds.
    pub(super) fn held(&self, mask: Mask) -> u64 {
        let alone = mask.iter().map(|node| self.weights[node]).fold(0, u64::saturating_add);
        let shared = self.shared.iter().filter(|(nodes, _)| nodes.meets(mask));
        shared.map(|(_, amount)| *amount).fold(alone, u64::saturating_add)
    }

    /// What `node` adds to a set.
    fn gain(&self, mask: Mask, node: usize) -> u64 {
        let new = self.shared.iter().filter(|(nodes, _)| nodes.has(node) && !nodes.meets(mask));
        new.map(|(_, amount)| *amount).fold(self.weights[node], u64::saturating_add)
    }
}

/// Calls `visit` with every set of `size` nodes out of `universe` that meets all demands, in the order
/// of the masks as integers, until it says stop.
pub(super) fn each_of_size(
    universe: Mask,
    size: usize,
    demands: &[&Demand],
    visit: &mut dyn FnMut(Mask) -> bool,
) {
    if size == 0 || universe.count() < size {
        return;
    }
    let nodes: Vec<usize> = universe.iter().collect();
    let bounds = demands.iter().map(|demand| Bound::new(demand, &nodes, size)).collect();
    let mut search = Search { nodes, demands, bounds, budget: BUDGET, visit };
    search.descend(Mask::EMPTY, search.nodes.len(), size, &vec![0; demands.len()]);
}

/// The most that any `r` of the first `p` nodes can add.
struct Bound {
    size: usize,
    most: Vec<u64>,
}

impl Bound {
    fn new(demand: &Demand, nodes: &[usize], size: usize) -> Self {
        let mut most = vec![0u64; (nodes.len() + 1) * (size + 1)];
        let mut best: Vec<u64> = Vec::with_capacity(size + 1);
        for (before, node) in nodes.iter().enumerate() {
            let gain = demand.gain(Mask::EMPTY, *node);
            best.insert(best.partition_point(|other| *other >= gain), gain);
            best.truncate(size);
            let row = &mut most[(before + 1) * (size + 1)..(before + 2) * (size + 1)];
            for (taken, gain) in best.iter().enumerate() {
                row[taken + 1] = row[taken].saturating_add(*gain);
            }
        }
        Self { size, most }
    }

    fn most(&self, first: usize, taken: usize) -> u64 {
        self.most[first * (self.size + 1) + taken]
    }
}

struct Search<'a> {
    nodes: Vec<usize>,
    demands: &'a [&'a Demand],
    bounds: Vec<Bound>,
    budget: usize,
    visit: &'a mut dyn FnMut(Mask) -> bool,
}

impl Search<'_> {
    /// Adds `left` more nodes out of the first `below`, the highest one first: so the masks come in
    /// ascending order.
    fn descend(&mut self, mask: Mask, below: usize, left: usize, held: &[u64]) -> bool {
        if left == 0 {
            let meets = self.demands.iter().zip(held).all(|(demand, held)| *held >= demand.need);
            return !meets || (self.visit)(mask);
        }
        for top in left - 1..below {
            if self.budget == 0 {
                return false;
            }
            self.budget -= 1;
            let node = self.nodes[top];
            let gains = self.demands.iter().zip(held);
            let held: Vec<u64> =
                gains.map(|(demand, held)| held.saturating_add(demand.gain(mask, node))).collect();
            let reach = |at: usize| held[at].saturating_add(self.bounds[at].most(top, left - 1));
            if (0..held.len()).any(|at| reach(at) < self.demands[at].need) {
                continue;
            }
            if !self.descend(mask | Mask::single(node), top, left - 1, &held) {
                return false;
            }
        }
        true
    }
}
