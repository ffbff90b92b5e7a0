//! The CPUs of a machine and the four ways they are grouped, in dense indices.

use crate::model::{CpuId, CpuSet, Topology};

/// One way of grouping CPUs: into nodes, sockets, last-level caches or cores. Groups are in the order
/// of their ids, and have CPUs.
#[derive(Debug, Clone, Default)]
pub(super) struct Level {
    /// The CPUs of each group, ascending.
    pub(super) members: Vec<Vec<usize>>,
    /// The group of each CPU.
    pub(super) of: Vec<usize>,
}

/// The CPUs that can be given out, by dense index, and their groups.
#[derive(Debug, Clone, Default)]
pub(super) struct Layout {
    /// The kernel's numbers, ascending.
    pub(super) cpus: Vec<CpuId>,
    /// NUMA nodes that have CPUs.
    pub(super) nodes: Level,
    /// Sockets.
    pub(super) sockets: Level,
    /// Last-level caches; the socket where the kernel names none.
    pub(super) caches: Level,
    /// Physical cores.
    pub(super) cores: Level,
}

impl Layout {
    /// Reads the groups off a topology. A CPU whose node, socket or core the kernel does not tell can
    /// only be shared, so it is left out.
    pub(super) fn new(topology: &Topology) -> Self {
        let nodes: Vec<&CpuSet> = topology.numa_nodes.iter().map(|node| &node.cpus).collect();
        let sockets: Vec<&CpuSet> = topology.packages.iter().map(|package| &package.cpus).collect();
        let cores: Vec<&CpuSet> = topology.cores.iter().map(|core| &core.cpus).collect();
        let caches: Vec<&CpuSet> = topology.llcs.iter().map(|cache| &cache.cpus).collect();
        let home = |sets: &[&CpuSet], cpu| sets.iter().position(|set| set.contains(cpu));
        let mut rows = Vec::new();
        for cpu in topology.cpus.iter() {
            let places = (home(&nodes, cpu), home(&sockets, cpu), home(&cores, cpu));
            if let (Some(node), Some(socket), Some(core)) = places {
                // A CPU without a cache gets its socket's, numbered behind the named ones.
                let cache = home(&caches, cpu).unwrap_or(caches.len() + socket);
                rows.push((cpu, [node, socket, cache, core]));
            }
        }
        let level = |at: usize| Level::new(rows.iter().map(|(_, groups)| groups[at]));
        Self {
            cpus: rows.iter().map(|(cpu, _)| *cpu).collect(),
            nodes: level(0),
            sockets: level(1),
            caches: level(2),
            cores: level(3),
        }
    }

    /// How many CPUs the largest core has.
    pub(super) fn threads_per_core(&self) -> usize {
        self.cores.members.iter().map(Vec::len).max().unwrap_or(1)
    }

    /// The average number of CPUs below one last-level cache, rounded down.
    pub(super) fn cpus_per_cache(&self) -> usize {
        self.cpus.len() / self.caches.members.len().max(1)
    }

    /// Whether nodes are the larger groups: with several nodes a socket, sockets are.
    pub(super) fn nodes_first(&self) -> bool {
        self.sockets.members.len() >= self.nodes.members.len()
    }

    /// Which of the CPUs are in the set, by dense index.
    pub(super) fn flags(&self, set: &CpuSet) -> Vec<bool> {
        self.cpus.iter().map(|cpu| set.contains(*cpu)).collect()
    }

    /// The CPUs of all cores with that many threads.
    pub(super) fn cores_of_size(&self, threads: usize) -> CpuSet {
        let cores = self.cores.members.iter().filter(|core| core.len() == threads);
        cores.flatten().map(|cpu| self.cpus[*cpu]).collect()
    }

    /// The CPUs of `set` whose core is in it as a whole.
    pub(super) fn whole_cores(&self, set: &CpuSet) -> CpuSet {
        let whole = |core: &&Vec<usize>| core.iter().all(|cpu| set.contains(self.cpus[*cpu]));
        self.cores.members.iter().filter(whole).flatten().map(|cpu| self.cpus[*cpu]).collect()
    }
}

impl Level {
    /// Groups by the given number of each CPU; numbers nobody has are left out, the order stays.
    fn new(numbers: impl Iterator<Item = usize> + Clone) -> Self {
        let mut used: Vec<usize> = numbers.clone().collect();
        used.sort_unstable();
        used.dedup();
        let mut level = Self { members: vec![Vec::new(); used.len()], of: Vec::new() };
        for (cpu, number) in numbers.enumerate() {
            let group = used.partition_point(|other| *other < number);
            level.of.push(group);
            level.members[group].push(cpu);
        }
        level
    }

    /// How many CPUs of each group are flagged.
    pub(super) fn counts(&self, flags: &[bool]) -> Vec<usize> {
        let mut counts = vec![0; self.members.len()];
        for (cpu, group) in self.of.iter().enumerate() {
            counts[*group] += usize::from(flags[cpu]);
        }
        counts
    }

    /// The groups with flagged CPUs: those with the fewest first, then by id.
    pub(super) fn sorted(&self, flags: &[bool]) -> Vec<usize> {
        let counts = self.counts(flags);
        let mut groups: Vec<usize> = (0..counts.len()).filter(|group| counts[*group] > 0).collect();
        groups.sort_by_key(|group| (counts[*group], *group));
        groups
    }

    /// As [`Level::sorted`], but within each of the outer groups in their order.
    pub(super) fn sorted_within(&self, outer: &Self, order: &[usize], flags: &[bool]) -> Vec<usize> {
        let mut inside = vec![Vec::new(); outer.members.len()];
        for group in self.sorted(flags) {
            for cpu in self.members[group].iter().filter(|cpu| flags[**cpu]) {
                let bucket: &mut Vec<usize> = &mut inside[outer.of[*cpu]];
                if bucket.last() != Some(&group) {
                    bucket.push(group);
                }
            }
        }
        // A group that reaches into two outer ones is met twice; its first place counts.
        let mut seen = vec![false; self.members.len()];
        let all = order.iter().flat_map(|group| inside[*group].iter().copied());
        all.filter(|group| !std::mem::replace(&mut seen[*group], true)).collect()
    }
}
