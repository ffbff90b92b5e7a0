//! Node sets of a given size that meet demands, found without listing them all.

use super::mask::Mask;

/// How many nodes can be searched to the end.
pub(super) const EXACT: usize = 12;

/// How much work a search may still do.
///
/// Up to [`EXACT`] nodes there is no limit: there are few enough sets. Beyond, a search looks at 4096
/// partial sets and cuts all branches that cannot meet a demand; what it does not find with that counts
/// as not there. Single nodes and pairs of 64 nodes are always within it.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Budget {
    /// The budget of one search among so many nodes.
    pub(super) fn new(nodes: usize) -> Self {
        Self(if nodes <= EXACT { usize::MAX } else { 4096 })
    }

    /// Whether nothing is left.
    pub(super) fn is_spent(&self) -> bool {
        self.0 == 0
    }

    fn spend(&mut self) -> bool {
        #[cfg(test)]
        super::work::step();
        let left = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        left
    }
}

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

/// Several demands as one: what each node has of each, in millionths of what is needed of it, rounded up and at
/// most the whole. A set that meets the demands has that many millionths together, so it tells early where nodes
/// with much of one have little of another.
pub(super) fn together(demands: &[&Demand]) -> Option<Demand> {
    const WHOLE: u64 = 1_000_000;
    let nodes = demands.first()?.weights.len();
    let demands: Vec<_> = demands.iter().filter(|demand| demand.need > 0).collect();
    let part = |demand: &Demand, node: usize| {
        let gain = u128::from(demand.gain(Mask::EMPTY, node)) * u128::from(WHOLE);
        u64::try_from(gain.div_ceil(u128::from(demand.need))).map_or(WHOLE, |part| part.min(WHOLE))
    };
    let weight = |node| demands.iter().map(|demand| part(demand, node)).sum();
    let weights = (0..nodes).map(weight).collect();
    (demands.len() > 1).then(|| Demand { weights, shared: Vec::new(), need: WHOLE * demands.len() as u64 })
}

/// The fewest nodes that could meet the demand, if what several hold together were each one's own: no set of
/// fewer does. More than there are where none does.
pub(super) fn at_least(universe: Mask, demand: &Demand) -> usize {
    let mut gains: Vec<u64> = universe.iter().map(|node| demand.gain(Mask::EMPTY, node)).collect();
    gains.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0u64;
    let enough = |gain: &u64| {
        sum = sum.saturating_add(*gain);
        sum >= demand.need
    };
    gains.iter().position(enough).map_or(usize::MAX, |at| at + 1)
}

/// The fewest nodes of `universe` that meet the demands; all of them where none do.
pub(super) fn fewest(universe: Mask, demands: &[Demand]) -> usize {
    let all = universe.count();
    let mut demands: Vec<&Demand> = demands.iter().collect();
    let together = together(&demands);
    demands.extend(&together);
    let least = demands.iter().map(|demand| at_least(universe, demand)).max().unwrap_or(1);
    if let [demand] = demands[..]
        && demand.shared.is_empty()
    {
        return least.min(all);
    }
    let most = found(universe, &demands).unwrap_or(all);
    let mut budget = Budget::new(all);
    let meets = |size: &usize| {
        let mut found = false;
        each_of_size(universe, *size, &demands, &mut budget, &mut |_| {
            found = true;
            false
        });
        found
    };
    (least..most).find(meets).unwrap_or(most)
}

/// How many nodes meet the demands when those with the most are taken first; the last demand says of what.
fn found(universe: Mask, demands: &[&Demand]) -> Option<usize> {
    let best = demands.last()?;
    let mut nodes: Vec<usize> = universe.iter().collect();
    nodes.sort_by_key(|node| std::cmp::Reverse(best.gain(Mask::EMPTY, *node)));
    let mut taken = Mask::EMPTY;
    let enough = |node: &usize| {
        taken = taken | Mask::single(*node);
        demands.iter().all(|demand| demand.held(taken) >= demand.need)
    };
    nodes.iter().position(enough).map(|at| at + 1)
}

/// Calls `visit` with every set of `size` nodes out of `universe` that meets all demands, in the order
/// of the masks as integers, until it says stop or the budget is spent.
pub(super) fn each_of_size(
    universe: Mask,
    size: usize,
    demands: &[&Demand],
    budget: &mut Budget,
    visit: &mut dyn FnMut(Mask) -> bool,
) {
    if size == 0 || universe.count() < size || budget.is_spent() {
        return;
    }
    let nodes: Vec<usize> = universe.iter().collect();
    let bounds: Vec<Bound> = demands.iter().map(|demand| Bound::new(demand, &nodes, size)).collect();
    let held = vec![0; demands.len() * (size + 1)];
    let all = nodes.len();
    let possible = bounds.iter().zip(demands).all(|(bound, demand)| bound.most(all, size) >= demand.need);
    if possible {
        Search { nodes, demands, bounds, held, budget, visit }.descend(Mask::EMPTY, all, size);
    }
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
            // Where there are fewer nodes than are to be taken, all of them are the most.
            for taken in best.len() + 1..=size {
                row[taken] = row[taken - 1];
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
    /// What the set holds of each demand, one row for each number of nodes still to add.
    held: Vec<u64>,
    budget: &'a mut Budget,
    visit: &'a mut dyn FnMut(Mask) -> bool,
}

impl Search<'_> {
    /// Adds `left` more nodes out of the first `below`, the highest one first: so the masks come in
    /// ascending order.
    fn descend(&mut self, mask: Mask, below: usize, left: usize) -> bool {
        if left == 0 {
            return (self.visit)(mask);
        }
        for top in left - 1..below {
            if !self.budget.spend() {
                return false;
            }
            let node = self.nodes[top];
            let next = mask | Mask::single(node);
            if self.add(mask, node, top, left - 1) && !self.descend(next, top, left - 1) {
                return false;
            }
        }
        true
    }

    /// Adds a node to what is held; false where a demand can then no longer be met by `left` nodes out
    /// of the first `below`.
    fn add(&mut self, mask: Mask, node: usize, below: usize, left: usize) -> bool {
        let count = self.demands.len();
        for (at, demand) in self.demands.iter().enumerate() {
            let held = self.held[(left + 1) * count + at].saturating_add(demand.gain(mask, node));
            self.held[left * count + at] = held;
            if held.saturating_add(self.bounds[at].most(below, left)) < demand.need {
                return false;
            }
        }
        true
    }
}
