//! Taking CPUs evenly from several nodes (`distribute-cpus-across-numa`).

use super::layout::Layout;
use super::take::{Style, take_packed};
use crate::model::CpuSet;

/// How many combinations of nodes are looked at before what was found until then is taken, or CPUs are packed. On
/// eight nodes, the most the kubelet decides about, there are never more than 3^8 = 6561.
const BUDGET: usize = 8_000;

/// Takes `need` CPUs in groups of `group`, evenly from the fewest nodes that allow it; packed where no
/// combination of nodes does.
pub(super) fn take_evenly(
    layout: &Layout,
    available: &CpuSet,
    need: usize,
    group: usize,
    style: Style,
) -> Option<CpuSet> {
    let packed = Style { caches: false, distribute: None, ..style };
    let free = layout.nodes.counts(&layout.flags(available));
    if need == 0 || !need.is_multiple_of(group) || free.iter().sum::<usize>() < need {
        return take_packed(layout, available, need, packed);
    }
    let nodes = sorted_nodes(layout, &layout.flags(available));
    let per_node = layout.cpus.len().div_ceil(group).div_ceil(free.len().max(1));
    let mut search = Search { free: &free, nodes: &nodes, need, group, per_node, budget: BUDGET };
    let Some(shares) = search.best() else {
        return take_packed(layout, available, need, packed);
    };
    let mut taken = CpuSet::new();
    for (node, share) in shares {
        let members = layout.nodes.members[node].iter().map(|cpu| layout.cpus[*cpu]);
        let mut left = members.collect::<CpuSet>().intersection(available);
        // The even share first, the remainder group by group: the order decides which cores break.
        for part in share {
            let part = take_packed(layout, &left, part, packed)?;
            left = left.difference(&part);
            taken = taken.union(&part);
        }
    }
    Some(taken)
}

/// Nodes with free CPUs in the order everything is sorted by.
fn sorted_nodes(layout: &Layout, free: &[bool]) -> Vec<usize> {
    match layout.nodes_first() {
        true => layout.nodes.sorted(free),
        false => layout.nodes.sorted_within(&layout.sockets, &layout.sockets.sorted(free), free),
    }
}

/// How many CPUs a node gives, in the portions they are taken in.
type Shares = Vec<(usize, Vec<usize>)>;

struct Search<'a> {
    /// Free CPUs by node.
    free: &'a [usize],
    /// Nodes with free CPUs, in order.
    nodes: &'a [usize],
    need: usize,
    group: usize,
    /// Groups of an average node.
    per_node: usize,
    budget: usize,
}

/// A combination with what it gives beyond the even share, and how unevenly it leaves the machine.
struct Choice {
    score: u64,
    nodes: Vec<usize>,
    extra: Vec<usize>,
}

impl Search<'_> {
    /// The best combination of the smallest size that has one.
    fn best(&mut self) -> Option<Shares> {
        let groups = self.need / self.group;
        let most = groups.min(self.nodes.len());
        for size in groups.div_ceil(self.per_node.max(1))..=most {
            let mut best: Option<Choice> = None;
            self.combine(self.nodes, size, &mut |search, combo| {
                if let Some(choice) = search.weigh(combo)
                    && best.as_ref().is_none_or(|best| choice.score < best.score)
                {
                    best = Some(choice);
                }
                best.as_ref().is_none_or(|best| best.score > 0)
            });
            if let Some(choice) = best {
                return Some(self.shares(&choice));
            }
        }
        None
    }

    fn shares(&self, choice: &Choice) -> Shares {
        let even = self.even(choice.nodes.len());
        let portions = |(index, node): (usize, &usize)| {
            let mut portions = vec![even];
            portions.extend(std::iter::repeat_n(self.group, choice.extra[index]));
            (*node, portions)
        };
        choice.nodes.iter().enumerate().map(portions).collect()
    }

    fn even(&self, nodes: usize) -> usize {
        self.need / nodes / self.group * self.group
    }

    /// The best way of taking the remainder from this combination; `None` where it cannot give so much.
    fn weigh(&mut self, combo: &[usize]) -> Option<Choice> {
        let even = self.even(combo.len());
        let groups: usize = combo.iter().map(|node| self.free[*node] / self.group).sum();
        if groups * self.group < self.need || combo.iter().any(|node| self.free[*node] < even) {
            return None;
        }
        let mut left: Vec<usize> = self.free.to_vec();
        combo.iter().for_each(|node| left[*node] -= even);
        let rest = (self.need - even * combo.len()) / self.group;
        let mut best: Option<Choice> = None;
        if rest == 0 {
            let score = self.score(&left);
            return Some(Choice { score, nodes: combo.to_vec(), extra: vec![0; combo.len()] });
        }
        let open: Vec<usize> = combo.iter().copied().filter(|node| left[*node] >= self.group).collect();
        for size in (1..=open.len()).rev() {
            self.combine(&open, size, &mut |search, subset| {
                if let Some(given) = search.round_robin(&left, subset, rest) {
                    let after: Vec<usize> =
                        left.iter().zip(&given).map(|(l, g)| l - g * search.group).collect();
                    let score = search.score(&after);
                    if best.as_ref().is_none_or(|best| score < best.score) {
                        let extra = combo.iter().map(|node| given[*node]).collect();
                        best = Some(Choice { score, nodes: combo.to_vec(), extra });
                    }
                }
                true
            });
        }
        best
    }

    /// How many groups each node gives when one after the other gives one; `None` where they run dry.
    fn round_robin(&self, left: &[usize], subset: &[usize], rest: usize) -> Option<Vec<usize>> {
        let room: usize = subset.iter().map(|node| left[*node] / self.group).sum();
        if room < rest {
            return None;
        }
        let (mut given, mut rest) = (vec![0; left.len()], rest);
        while rest > 0 {
            for node in subset {
                if rest > 0 && left[*node] >= (given[*node] + 1) * self.group {
                    given[*node] += 1;
                    rest -= 1;
                }
            }
        }
        Some(given)
    }

    /// The population standard deviation of what stays free on the nodes that have free CPUs now; mean
    /// and deviation rounded to thousandths, and given in thousandths.
    // Counts of CPUs: exact as floats, and their deviation is neither negative nor large.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn score(&self, left: &[usize]) -> u64 {
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        let count = self.nodes.len() as f64;
        let values = || self.nodes.iter().map(|node| left[*node] as f64);
        let mean = round(values().sum::<f64>() / count);
        let variance = values().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
        (round(variance.sqrt()) * 1000.0).round() as u64
    }

    /// Calls `visit` with every combination of `size` of the nodes, in lexicographic order, until it
    /// says stop. Of nodes with equally many free CPUs only the first are tried: any other choice among
    /// them would score the same and come later.
    fn combine(&mut self, nodes: &[usize], size: usize, visit: &mut dyn FnMut(&mut Self, &[usize]) -> bool) {
        let mut picked = Vec::with_capacity(size);
        self.descend(nodes, size, &mut picked, visit);
    }

    fn descend(
        &mut self,
        rest: &[usize],
        size: usize,
        picked: &mut Vec<usize>,
        visit: &mut dyn FnMut(&mut Self, &[usize]) -> bool,
    ) -> bool {
        if size == 0 {
            #[cfg(test)]
            super::work::step();
            let within = self.budget > 0;
            self.budget = self.budget.saturating_sub(1);
            return within && visit(self, picked);
        }
        let mut tried: Vec<usize> = Vec::new();
        for (index, node) in rest.iter().enumerate() {
            if rest.len() - index < size {
                break;
            }
            if tried.contains(&self.free[*node]) {
                continue;
            }
            picked.push(*node);
            let go_on = self.descend(&rest[index + 1..], size - 1, picked, visit);
            picked.pop();
            if !go_on {
                return false;
            }
            tried.push(self.free[*node]);
        }
        true
    }
}
