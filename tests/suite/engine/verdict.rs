//! Whether a container could be seated, the naive way: counts against counts, sets against all sets.

use super::naive::{Aligned, Bits, Naive, Sum, strict};
use maitred::model::*;

/// What the naive way finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It has a place, aligned so.
    Fits(Aligned),
    /// There is none.
    Refused,
    /// Whether depends on which of several equal CPUs are taken, which is not what is looked at here: whole
    /// cores where the nodes' free CPUs are parts of cores, or the pool's last CPUs where some of the pod's own
    /// ended containers' could be taken instead.
    Depends,
}

impl Naive {
    /// Whether the container has a place, on the pod's seat where there is one.
    pub fn verdict(
        &self,
        pod: &PodUid,
        request: &ContainerRequest,
        seat: Option<Aligned>,
        policy: &Policy,
    ) -> Verdict {
        let need = Sum::of(request, policy);
        let aligned = match seat {
            Some(seat) => self.locality_known(pod, &need, policy).then_some(seat),
            None => self.align(pod, &need, policy),
        };
        let Some(aligned) = aligned else { return Verdict::Refused };
        let fits = self.has_pages(&need)
            && self.devices_fit(pod, &need, aligned, policy)
            && self.memory_fits(pod, &need, aligned);
        match fits {
            true => self.cpus_fit(pod, need.cpus, aligned, policy),
            false => Verdict::Refused,
        }
    }

    fn has_pages(&self, need: &Sum) -> bool {
        let has = |size: &HugepageSize| {
            self.topology.numa_nodes.iter().any(|node| node.hugepages.contains_key(size))
        };
        need.memory.keys().all(|kind| match kind {
            MemoryKind::Memory => true,
            MemoryKind::Hugepages(size) => has(size),
        })
    }

    fn devices_fit(&self, pod: &PodUid, need: &Sum, aligned: Aligned, policy: &Policy) -> bool {
        need.devices.iter().all(|(resource, count)| {
            let Some(table) = self.devices.get(resource) else { return false };
            let local = table.iter().any(|(_, mask)| *mask != 0);
            let confined = aligned.nodes.filter(|_| strict(policy) && local);
            let free = self.free_devices(pod, resource);
            free.iter().filter(|mask| confined.is_none_or(|nodes| nodes & **mask != 0)).count() >= *count
        })
    }

    fn memory_fits(&self, pod: &PodUid, need: &Sum, aligned: Aligned) -> bool {
        if need.memory.is_empty() {
            return true;
        }
        let could = |mask: &Bits| self.may_promise(*mask) && self.holds(&need.memory, *mask, pod, true);
        let ever =
            |mask: &Bits| need.memory.iter().all(|(kind, need)| self.capacity_of(*mask, *kind) >= *need);
        let around = aligned.nodes.unwrap_or(0);
        let nodes = match around != 0 && self.holds(&need.memory, around, pod, false) {
            true => return self.may_promise(around),
            false => {
                let supersets = self.masks().filter(|mask| mask & around == around && could(mask));
                supersets.min_by_key(|mask| (mask.count_ones(), *mask))
            }
        };
        let fewest = self.masks().filter(ever).map(u32::count_ones).min();
        let fewest = fewest.unwrap_or_else(|| self.all().count_ones());
        nodes.is_some_and(|mask| !aligned.preferred || mask.count_ones() == fewest)
    }

    fn cpus_fit(&self, pod: &PodUid, need: u64, aligned: Aligned, policy: &Policy) -> Verdict {
        if need == 0 {
            return Verdict::Fits(aligned);
        }
        let (free, own) = (self.free_cpus(), self.reusable_cpus(pod));
        let all = free.union(&own);
        let near =
            aligned.nodes.map_or_else(|| all.clone(), |nodes| self.near(nodes, policy).intersection(&all));
        let confined = strict(policy) && aligned.nodes.is_some();
        let count = |set: &CpuSet| set.len() as u64;
        if count(if confined { &near } else { &all }) < need {
            return Verdict::Refused;
        }
        let whole = policy.cpu.has(CpuOption::FullPcpusOnly);
        if whole && (!need.is_multiple_of(self.threads()) || count(&self.whole_cores(&free)) < need) {
            return Verdict::Refused;
        }
        let alike = self.topology.cores.iter().all(|core| count(&core.cpus) == self.threads());
        let depends = whole && !(alike && count(&self.whole_cores(&near)) >= need);
        match count(&self.pool(policy)) {
            pool if pool <= need && own.is_empty() => Verdict::Refused,
            pool if pool <= need || depends => Verdict::Depends,
            _ => Verdict::Fits(aligned),
        }
    }

    /// The shared containers' CPUs before anything is taken.
    fn pool(&self, policy: &Policy) -> CpuSet {
        let held = self.held_cpus();
        match policy.cpu.has(CpuOption::StrictReservation) {
            true => self.topology.cpus.difference(&held).difference(&self.reserved),
            false => self.topology.cpus.difference(&held),
        }
    }

    fn near(&self, nodes: Bits, policy: &Policy) -> CpuSet {
        let on = (0..self.nodes()).filter(|at| nodes >> at & 1 == 1);
        let cpus = on.fold(CpuSet::new(), |all, at| all.union(self.node_cpus(at)));
        let sockets = self.topology.packages.iter().filter(|socket| !socket.cpus.is_disjoint(&cpus));
        match policy.cpu.has(CpuOption::AlignBySocket) {
            true => sockets.fold(CpuSet::new(), |all, socket| all.union(&socket.cpus)),
            false => cpus,
        }
    }

    fn threads(&self) -> u64 {
        self.topology.cores.iter().map(|core| core.cpus.len() as u64).max().unwrap_or(1)
    }

    fn whole_cores(&self, set: &CpuSet) -> CpuSet {
        let whole = self.topology.cores.iter().filter(|core| core.cpus.is_subset(set));
        whole.fold(CpuSet::new(), |all, core| all.union(&core.cpus))
    }
}
