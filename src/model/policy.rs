//! The words of the kubelet's policies, with its meanings.

use std::fmt;
use std::str::FromStr;

/// A word that is none of those expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is no {what}: expected one of {expected}")]
pub struct WordError {
    /// What the word is for.
    pub what: &'static str,
    /// What was found.
    pub found: String,
    /// The words there are.
    pub expected: String,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident ($what:literal) { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $name {
            /// Every word with its meaning.
            pub const ALL: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),*];
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$variant => $word),* })
            }
        }
        impl FromStr for $name {
            type Err = WordError;
            fn from_str(text: &str) -> Result<Self, WordError> {
                let hit = Self::ALL.iter().find(|(word, _)| *word == text);
                hit.map(|(_, value)| *value).ok_or_else(|| WordError {
                    what: $what,
                    found: text.to_owned(),
                    expected: Self::ALL.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

words! {
    /// Topology Manager policy, from the laxest to the strictest.
    TopologyPolicy ("topology policy") {
        /// Nothing is aligned.
        None = "none",
        /// Aligned where possible, always admitted.
        BestEffort = "best-effort",
        /// Admitted only with a preferred affinity.
        Restricted = "restricted",
        /// Admitted only on one node.
        SingleNumaNode = "single-numa-node",
    }
}
words! {
    /// What is aligned together. `container < pod` in strictness.
    Scope ("scope") {
        /// Each container by itself.
        Container = "container",
        /// The pod as one.
        Pod = "pod",
    }
}
words! {
    /// Memory Manager policy.
    MemoryManager ("memory manager") {
        /// Memory is not accounted and `mems` not set.
        None = "none",
        /// Promised per node.
        Static = "static",
    }
}
words! {
    /// What a device of unknown locality means.
    UnknownLocality ("rule for unknown locality") {
        /// It cannot be aligned: a container that must align is rejected.
        Reject = "reject",
        /// It has no preference, as the kubelet treats it.
        Ignore = "ignore",
    }
}
words! {
    /// An option of the static CPU policy.
    CpuOption ("CPU option") {
        /// Whole cores only.
        FullPcpusOnly = "full-pcpus-only",
        /// Evenly over the nodes of a multi-node placement.
        DistributeAcrossNuma = "distribute-cpus-across-numa",
        /// A hint within the fewest sockets is preferred too.
        AlignBySocket = "align-by-socket",
        /// One thread a core first.
        DistributeAcrossCores = "distribute-cpus-across-cores",
        /// Reserved CPUs leave the shared pool.
        StrictReservation = "strict-cpu-reservation",
        /// Whole last-level caches where possible.
        PreferAlignByUncoreCache = "prefer-align-cpus-by-uncorecache",
    }
}

words! {
    /// Memory policies, `MPOL_*` of the kernel's `include/uapi/linux/mempolicy.h`.
    MemoryMode ("memory policy") {
        /// Only these nodes.
        Bind = "bind",
        /// This one node first, then others.
        Preferred = "preferred",
        /// These nodes first, then others (kernel ≥ 5.15).
        PreferredMany = "preferred-many",
        /// Round-robin over these nodes.
        Interleave = "interleave",
        /// Round-robin over these nodes, as often as the kernel's weight of each says (kernel ≥ 6.9).
        WeightedInterleave = "weighted-interleave",
        /// The node of the CPU that touches a page first; names no nodes.
        Local = "local",
    }
}

impl MemoryMode {
    /// The word in an annotation or a configuration that leaves the kernel's default.
    pub const NONE: &'static str = "none";
}

/// The CPU options in force.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuOptions(pub std::collections::BTreeSet<CpuOption>);

/// Pairs of options that contradict each other: the kubelet refuses to start with them
/// (`NewStaticPolicyOptions` in `cpumanager/policy_options.go`).
const RIVALS: [(CpuOption, CpuOption); 4] = [
    (CpuOption::DistributeAcrossCores, CpuOption::FullPcpusOnly),
    (CpuOption::DistributeAcrossCores, CpuOption::DistributeAcrossNuma),
    (CpuOption::DistributeAcrossCores, CpuOption::PreferAlignByUncoreCache),
    (CpuOption::PreferAlignByUncoreCache, CpuOption::DistributeAcrossNuma),
];

impl CpuOptions {
    /// Whether the option is in force.
    #[must_use]
    pub fn has(&self, option: CpuOption) -> bool {
        self.0.contains(&option)
    }

    /// One of these options that cannot be in force together with `option`.
    #[must_use]
    pub fn rival(&self, option: CpuOption) -> Option<CpuOption> {
        let mut pairs = RIVALS.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
        pairs.find(|(one, other)| *one == option && self.has(*other)).map(|(_, other)| other)
    }
}

/// What governs one decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How strictly things are aligned.
    pub topology: TopologyPolicy,
    /// What is aligned together.
    pub scope: Scope,
    /// Options of the CPU policy.
    pub cpu: CpuOptions,
    /// Among node sets of equal size the closest together.
    pub prefer_closest: bool,
    /// Whether memory is promised per node.
    pub memory: MemoryManager,
    /// What a device of unknown locality means.
    pub unknown_locality: UnknownLocality,
}
