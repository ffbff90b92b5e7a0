//! Which GPUs belong together, and which NIC belongs to them.
//!
//! Of the sets that fit, the best takes the devices it must prefer (what the pod's init containers leave, then what
//! is on the chosen nodes), then has the most NVLinks between its members, then the shortest sum of PCIe distances,
//! then the lowest positions. Links to switches count between all GPUs that have such, as many as the one with
//! fewer has. A distance nobody tells is the farthest. Up to [`EXACT`] candidates every set is looked at; beyond
//! that one set is grown from each candidate, by the member that is best for it at each step, and the best of
//! these is taken. A NIC is nearer the smaller the sum of its distances to the container's GPUs.

use super::machine::NIC;
use crate::model::{DeviceId, Gpu, PciDistance, Topology};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Of so many candidates all sets are tried; 16 over 8 are 12,870.
const EXACT: usize = 16;
/// Farther than any distance that is told.
const FARTHEST: u64 = PciDistance::Sys as u64 + 1;
/// More than there are candidates: one device of a rank weighs more than all of the next.
const RANK: u64 = 1 << 16;

/// How the GPUs and NICs of a machine are connected.
#[derive(Debug, Clone, Default)]
pub(super) struct Links {
    at: BTreeMap<DeviceId, usize>,
    /// NVLinks between two GPUs, direct and through switches.
    nvlinks: Vec<Vec<u32>>,
    /// PCIe distances between two GPUs.
    far: Vec<Vec<u64>>,
    /// PCIe distances of each NIC to each GPU.
    nics: BTreeMap<DeviceId, Vec<u64>>,
}

/// A device that may be taken; lower ranks go first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) id: &'a DeviceId,
    pub(super) rank: u8,
}

/// Lower is better; a sum over members and pairs.
type Score = (u64, Reverse<u64>, u64);

impl Links {
    pub(super) fn new(topology: &Topology) -> Self {
        let gpus = &topology.gpus;
        let table = |cell: &dyn Fn(&Gpu, &Gpu) -> u64| -> Vec<Vec<u64>> {
            gpus.iter().map(|a| gpus.iter().map(|b| cell(a, b)).collect()).collect()
        };
        let narrow = |row: Vec<u64>| row.into_iter().map(|n| u32::try_from(n).unwrap_or(u32::MAX)).collect();
        let at = gpus.iter().enumerate().map(|(at, gpu)| (gpu.id(), at)).collect();
        let nvlinks = table(&nvlinks).into_iter().map(narrow).collect();
        Self { at, nvlinks, far: table(&|a, b| far(topology, a, b)), nics: nic_distances(topology) }
    }

    fn between(&self, one: &DeviceId, other: &DeviceId) -> u32 {
        match (self.at.get(one), self.at.get(other)) {
            (Some(one), Some(other)) => self.nvlinks[*one][*other],
            _ => 0,
        }
    }

    fn distance(&self, one: &DeviceId, other: &DeviceId) -> u64 {
        match (self.at.get(one), self.at.get(other)) {
            (Some(one), Some(other)) => self.far[*one][*other],
            _ => FARTHEST,
        }
    }

    /// Two of them that no NVLink connects.
    pub(super) fn unconnected<'a>(&self, gpus: &[&'a DeviceId]) -> Option<(&'a DeviceId, &'a DeviceId)> {
        let pairs = gpus.iter().enumerate().flat_map(|(at, a)| gpus[at + 1..].iter().map(move |b| (*a, *b)));
        pairs.into_iter().find(|(a, b)| a != b && self.between(a, b) == 0)
    }

    /// The fewest and the most NVLinks between two of them; `None` of fewer than two.
    pub(super) fn range(&self, gpus: &[&DeviceId]) -> Option<(u32, u32)> {
        let pairs = gpus.iter().enumerate().flat_map(|(at, a)| gpus[at + 1..].iter().map(move |b| (a, b)));
        let links: Vec<u32> = pairs.map(|(a, b)| self.between(a, b)).collect();
        Some((*links.iter().min()?, *links.iter().max()?))
    }

    /// Whether any two GPUs are connected.
    pub(super) fn any(&self) -> bool {
        self.nvlinks.iter().flatten().any(|links| *links > 0)
    }

    /// The best `count` of the candidates beside `members`, in the candidates' order; `None` where there are too
    /// few, or too few that are all connected with each other and with the members, if they must be.
    pub(super) fn best<'a>(
        &self,
        candidates: &[Candidate<'a>],
        members: &[&DeviceId],
        count: usize,
        linked: bool,
    ) -> Option<Vec<&'a DeviceId>> {
        let mut search = Search::new(self, candidates, members, count, linked);
        match candidates.len() <= EXACT {
            true => search.every_set(0, &mut Vec::with_capacity(count), NOTHING),
            false => search.grown_sets(),
        }
        let (_, mut best) = search.best?;
        best.sort_unstable();
        Some(best.into_iter().map(|at| candidates[at].id).collect())
    }

    /// How far a NIC is from all of the GPUs together.
    pub(super) fn nic_distance(&self, nic: &DeviceId, gpus: &[&DeviceId]) -> u64 {
        let far = |gpu: &&DeviceId| {
            let known = self.at.get(*gpu).zip(self.nics.get(nic));
            known.map_or(FARTHEST, |(at, row)| row[*at])
        };
        gpus.iter().map(far).sum()
    }
}

fn nvlinks(one: &Gpu, other: &Gpu) -> u64 {
    if one.index == other.index {
        return 0;
    }
    // Each end tells of the same links; one that could not be asked tells of none.
    let direct = |from: &Gpu, to: &Gpu| from.nvlinks.get(&to.index).copied().unwrap_or(0);
    let direct = direct(one, other).max(direct(other, one));
    // What NVML tells of a pair has the links through switches in it already.
    u64::from(direct.max(one.switch_links.min(other.switch_links)))
}

fn far(topology: &Topology, one: &Gpu, other: &Gpu) -> u64 {
    let told = one.near.get(&other.index).or_else(|| other.near.get(&one.index)).copied();
    let by_path = || topology.function(one.pci)?.distance(topology.function(other.pci)?);
    told.or_else(by_path).map_or(FARTHEST, |distance| distance as u64)
}

fn nic_distances(topology: &Topology) -> BTreeMap<DeviceId, Vec<u64>> {
    let row = |nic: &crate::model::Nic| {
        let function = nic.pci.and_then(|pci| topology.function(pci));
        let to = |gpu: &Gpu| function?.distance(topology.function(gpu.pci)?);
        topology.gpus.iter().map(|gpu| to(gpu).map_or(FARTHEST, |distance| distance as u64)).collect()
    };
    topology.nics.iter().map(|nic| (DeviceId::new(&*nic.name), row(nic))).collect()
}

/// Whether a resource is chosen by where the container's GPUs are.
pub(super) fn follows_gpus(resource: &crate::model::ResourceName) -> bool {
    resource.as_str() == NIC
}

/// The score of no set yet.
const NOTHING: Score = (0, Reverse(0), 0);

/// Sets of candidates, by their positions: what lies between two is looked up once.
struct Search {
    ranks: Vec<u64>,
    /// NVLinks and distance between two candidates.
    pairs: Vec<Vec<(u32, u64)>>,
    /// The same between each candidate and all members together; `None` where it may not be one of them.
    to_members: Vec<Option<(u64, u64)>>,
    count: usize,
    linked: bool,
    best: Option<(Score, Vec<usize>)>,
}

impl Search {
    fn new(
        links: &Links,
        candidates: &[Candidate],
        members: &[&DeviceId],
        count: usize,
        linked: bool,
    ) -> Self {
        let pair = |a: &DeviceId, b: &DeviceId| (links.between(a, b), links.distance(a, b));
        let row = |one: &Candidate| candidates.iter().map(|other| pair(one.id, other.id)).collect();
        let to_members = |one: &Candidate| {
            let pairs: Vec<_> = members.iter().map(|member| pair(one.id, member)).collect();
            let may = !linked || pairs.iter().all(|(links, _)| *links > 0);
            let sum = pairs.iter().fold((0, 0), |sum, (links, far)| (sum.0 + u64::from(*links), sum.1 + far));
            may.then_some(sum)
        };
        let rank = |one: &Candidate| match one.rank {
            0 => 0,
            1 => RANK,
            _ => RANK + 1,
        };
        Self {
            ranks: candidates.iter().map(rank).collect(),
            pairs: candidates.iter().map(row).collect(),
            to_members: candidates.iter().map(to_members).collect(),
            count,
            linked,
            best: None,
        }
    }

    /// The score with one more; `None` where it may not be one.
    fn with(&self, set: &[usize], score: Score, new: usize) -> Option<Score> {
        let (ranks, Reverse(links), far) = score;
        let own = self.to_members[new]?;
        let (mut links, mut far) = (links + own.0, far + own.1);
        for member in set {
            let (between, distance) = self.pairs[*member][new];
            if self.linked && between == 0 {
                return None;
            }
            links += u64::from(between);
            far += distance;
        }
        Some((ranks + self.ranks[new], Reverse(links), far))
    }

    /// In ascending order, so that the first of equals has the lowest positions.
    fn every_set(&mut self, from: usize, set: &mut Vec<usize>, score: Score) {
        let missing = self.count - set.len();
        if missing == 0 {
            self.offer(score, set);
            return;
        }
        for new in from..(self.ranks.len() + 1).saturating_sub(missing) {
            if let Some(score) = self.with(set, score, new) {
                set.push(new);
                self.every_set(new + 1, set, score);
                set.pop();
            }
        }
    }

    fn grown_sets(&mut self) {
        if self.count == 0 {
            self.offer(NOTHING, &[]);
            return;
        }
        for seed in 0..self.ranks.len() {
            let (mut set, mut score) = (vec![seed], self.with(&[], NOTHING, seed));
            while let Some(so_far) = score.filter(|_| set.len() < self.count) {
                let outside = (0..self.ranks.len()).filter(|one| !set.contains(one));
                let scored = outside.filter_map(|one| Some((self.with(&set, so_far, one)?, one)));
                let next = scored.min();
                set.extend(next.map(|(_, one)| one));
                score = next.map(|(score, _)| score);
            }
            if let Some(score) = score {
                self.offer(score, &set);
            }
        }
    }

    fn offer(&mut self, score: Score, set: &[usize]) {
        if self.best.as_ref().is_none_or(|(best, _)| score < *best) {
            self.best = Some((score, set.to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(count: u32) -> Topology {
        let gpu = |index: u32| Gpu {
            index,
            uuid: Some(format!("GPU-{index}")),
            pci: format!("0000:{:02x}:00.0", 0x20 + index).parse().unwrap(),
            minor: None,
            model: None,
            numa_node: None,
            memory_node: None,
            nvlinks: BTreeMap::new(),
            switch_links: 0,
            near: BTreeMap::new(),
            mig: Vec::new(),
        };
        Topology { gpus: (0..count).map(gpu).collect(), ..Topology::default() }
    }

    /// The indices of the best set of the GPUs that have these ranks.
    fn best(topology: &Topology, ranks: &[(u32, u8)], count: usize, linked: bool) -> Option<Vec<u32>> {
        let ids: Vec<_> =
            ranks.iter().map(|(gpu, rank)| (topology.gpus[*gpu as usize].id(), *rank)).collect();
        let candidates: Vec<_> = ids.iter().map(|(id, rank)| Candidate { id, rank: *rank }).collect();
        let best = Links::new(topology).best(&candidates, &[], count, linked)?;
        Some(best.iter().map(|id| id.as_str()[4..].parse().unwrap()).collect())
    }

    fn all(count: u32) -> Vec<(u32, u8)> {
        (0..count).map(|gpu| (gpu, 1)).collect()
    }

    #[test]
    fn links_count_before_distance_and_distance_before_order() {
        let mut machine = gpus(4);
        assert_eq!(best(&machine, &all(4), 2, false), Some(vec![0, 1]), "nothing is known");
        machine.gpus[1].near = BTreeMap::from([(2, PciDistance::Pix)]);
        assert_eq!(best(&machine, &all(4), 2, false), Some(vec![1, 2]), "unknown is the farthest");
        machine.gpus[0].nvlinks = BTreeMap::from([(3, 1)]);
        assert_eq!(best(&machine, &all(4), 2, false), Some(vec![0, 3]), "told by one end only");
        machine.gpus[2].nvlinks = BTreeMap::from([(3, 2)]);
        assert_eq!(best(&machine, &all(4), 2, false), Some(vec![2, 3]));
        assert_eq!(
            best(&machine, &[(0, 0), (1, 1), (2, 1), (3, 1)], 2, false),
            Some(vec![0, 3]),
            "a must first"
        );
    }

    #[test]
    fn through_switches_everyone_reaches_everyone_who_has_links_to_them() {
        let mut machine = gpus(8);
        machine.gpus.iter_mut().for_each(|gpu| gpu.switch_links = 18);
        machine.gpus[1].switch_links = 12;
        machine.gpus[2].switch_links = 0;
        assert_eq!(best(&machine, &all(8), 4, true), Some(vec![0, 3, 4, 5]), "the whole ones first");
        assert_eq!(best(&machine, &all(3), 3, true), None, "GPU 2 reaches nobody");
        assert_eq!(best(&machine, &all(3), 2, true), Some(vec![0, 1]));
    }

    #[test]
    fn a_mesh_that_is_not_whole_has_cliques() {
        let mut machine = gpus(4);
        for (from, to) in [(0, 1), (1, 2), (2, 3), (3, 0)] {
            machine.gpus[from as usize].nvlinks.insert(to, 2);
        }
        assert_eq!(best(&machine, &all(4), 3, true), None, "a ring has no three that are all connected");
        assert_eq!(best(&machine, &all(4), 3, false), Some(vec![0, 1, 2]));
        let links = Links::new(&machine);
        let ids: Vec<DeviceId> = machine.gpus.iter().map(Gpu::id).collect();
        assert_eq!(links.unconnected(&[&ids[0], &ids[1]]), None);
        assert_eq!(links.unconnected(&[&ids[0], &ids[1], &ids[2]]), Some((&ids[0], &ids[2])));
        assert_eq!(links.range(&[&ids[0], &ids[1], &ids[2]]), Some((0, 2)));
        assert_eq!(links.range(&[&ids[0]]), None);
    }

    #[test]
    fn beyond_what_can_be_tried_a_set_is_grown() {
        let mut machine = gpus(32);
        for (from, to) in [(20, 25), (25, 30), (20, 30)] {
            machine.gpus[from as usize].nvlinks.insert(to, 4);
        }
        assert_eq!(best(&machine, &all(32), 3, true), Some(vec![20, 25, 30]));
        assert_eq!(best(&machine, &all(32), 2, false), Some(vec![20, 25]));
        assert_eq!(best(&machine, &all(32), 4, true), None);
        assert_eq!(best(&machine, &all(32), 33, false), None);
    }
}
