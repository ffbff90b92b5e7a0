//! The options of the static CPU policy, each in one place. What they exclude is [`CpuOptions::rival`].
//!
//! | option | here | in the kubelet (`pkg/kubelet/cm/cpumanager`) |
//! |---|---|---|
//! | full-pcpus-only | [`Offer::check_cores`], [`Offer::is_whole`] | `staticPolicy.Allocate`, `SMTAlignmentError` |
//! | align-by-socket | [`Offer::cpu_preference`], [`Offer::near`] | `isHintSocketAligned`, `getAlignedCPUs` |
//! | strict-cpu-reservation | [`shared_pool`] | `staticPolicy.validateState`, `GetAvailableCPUs` |
//! | distribute-cpus-across-numa | [`Style`], `distribute` | `takeByTopologyNUMADistributed` |
//! | distribute-cpus-across-cores | [`Style`], `take` | `CPUSortingStrategySpread` |
//! | prefer-align-cpus-by-uncorecache | [`Style`], `take` | `takeUncoreCache` |
//!
//! Everything else asks these and never the options themselves.

use super::error::MachineError;
use super::hints::Preference;
use super::layout::Layout;
use super::machine::Machine;
use super::mask::Mask;
use super::offer::Offer;
use super::refuse::Failure;
use super::take::Style;
use crate::model::{CpuOption, CpuOptions, CpuSet, TopologyPolicy};

impl Style {
    /// How the options want CPUs taken. Distributed CPUs come core by core with full-pcpus-only.
    pub(super) fn new(layout: &Layout, options: &CpuOptions) -> Self {
        Self {
            spread: options.has(CpuOption::DistributeAcrossCores),
            caches: options.has(CpuOption::PreferAlignByUncoreCache),
            distribute: options.has(CpuOption::DistributeAcrossNuma).then(|| granule(layout, options)),
        }
    }
}

/// How many CPUs are given out together at least: a core's with full-pcpus-only.
pub(super) fn granule(layout: &Layout, options: &CpuOptions) -> usize {
    if options.has(CpuOption::FullPcpusOnly) { layout.threads_per_core() } else { 1 }
}

/// The shared pool when these CPUs are held exclusively: the other online ones, under
/// strict-cpu-reservation without the reserved ones.
#[must_use]
pub fn shared_pool(machine: &Machine, exclusive: &CpuSet, options: &CpuOptions) -> CpuSet {
    let pool = machine.online().difference(exclusive);
    match options.has(CpuOption::StrictReservation) {
        true => pool.difference(machine.reserved()),
        false => pool,
    }
}

impl Machine {
    /// Whether the options make sense here: align-by-socket takes sockets for sets of nodes
    /// (`ValidateStaticPolicyOptions` of the kubelet).
    ///
    /// # Errors
    /// align-by-socket, and more sockets than nodes with CPUs.
    pub fn check_options(&self, options: &CpuOptions) -> Result<(), MachineError> {
        let (sockets, nodes) = (self.layout.sockets.members.len(), self.layout.nodes.members.len());
        match options.has(CpuOption::AlignBySocket) && sockets > nodes {
            true => Err(MachineError::SocketsWithoutNodes { sockets, nodes }),
            false => Ok(()),
        }
    }
}

impl Offer<'_> {
    /// align-by-socket. Under single-numa-node it would leave the one node, so it is never in force there.
    fn by_socket(&self) -> bool {
        self.policy.cpu.has(CpuOption::AlignBySocket)
            && self.policy.topology != TopologyPolicy::SingleNumaNode
    }

    /// Which node sets CPUs prefer, if `fewest` nodes could hold them: sets that narrow, and with
    /// align-by-socket also those of the fewest sockets.
    pub(super) fn cpu_preference(&self, fewest: usize) -> Preference {
        let per_socket = self.machine.cpu_nodes.len() / self.machine.layout.sockets.members.len().max(1);
        match self.by_socket() && per_socket > 0 {
            true => Preference::Sockets { fewest, sockets: fewest.div_ceil(per_socket) },
            false => Preference::Fewest(fewest),
        }
    }

    /// The CPUs that are taken first for these nodes: theirs; with align-by-socket their sockets'.
    pub(super) fn near(&self, nodes: Mask) -> CpuSet {
        let cpus = self.machine.cpus_of(nodes);
        if !self.by_socket() {
            return cpus;
        }
        let layout = &self.machine.layout;
        let sockets = layout.sockets.members.iter();
        let met = sockets.filter(|socket| socket.iter().any(|cpu| cpus.contains(layout.cpus[*cpu])));
        met.flatten().map(|cpu| layout.cpus[*cpu]).collect()
    }

    /// The CPUs of these that can be given out: with full-pcpus-only those of cores that are whole.
    pub(super) fn usable(&self, cpus: CpuSet) -> CpuSet {
        match self.policy.cpu.has(CpuOption::FullPcpusOnly) {
            true => self.machine.layout.whole_cores(&cpus),
            false => cpus,
        }
    }

    /// full-pcpus-only: a whole number of cores, and enough wholly free ones.
    pub(super) fn check_cores(&self, need: usize) -> Result<(), Failure> {
        if !self.policy.cpu.has(CpuOption::FullPcpusOnly) {
            return Ok(());
        }
        let layout = &self.machine.layout;
        let threads = layout.threads_per_core();
        if !need.is_multiple_of(threads) {
            return Err(Failure::PartOfCore { needed: need, threads });
        }
        // What init containers leave does not count here, though it is taken below: so does the kubelet.
        let available = layout.whole_cores(&self.free).len();
        if need > available {
            return Err(Failure::FreeCores { needed: need, available, threads });
        }
        Ok(())
    }

    /// full-pcpus-only: whether what was taken is whole cores. Where cores have different sizes, or have lost a
    /// thread, the number alone does not make it so; the kubelet divides, and hands out halves.
    pub(super) fn is_whole(&self, taken: &CpuSet) -> bool {
        !self.policy.cpu.has(CpuOption::FullPcpusOnly)
            || self.machine.layout.whole_cores(taken).len() == taken.len()
    }

    /// What to take whole cores from when the first try broke one: cores that are wholly free, then only
    /// those of the usual size.
    pub(super) fn whole_pools(&self) -> [CpuSet; 2] {
        let whole = self.usable(self.cpus.clone());
        let usual = self.machine.layout.cores_of_size(self.machine.layout.threads_per_core());
        [whole.clone(), whole.intersection(&usual)]
    }

    pub(super) fn no_whole_cores(&self, needed: usize, taken: &CpuSet) -> Failure {
        let layout = &self.machine.layout;
        let (available, threads) = (layout.whole_cores(taken).len(), layout.threads_per_core());
        Failure::FreeCores { needed, available, threads }
    }
}
