//! What a container really has, against its placement.

use crate::model::{Bytes, CpuSet, MemoryMode, MemoryPolicy, NodeId, NodeSet, Placement};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What was read of a running container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Effective cpuset.cpus; `None` could not be read.
    pub cpus: Option<CpuSet>,
    /// Effective cpuset.mems; `None` could not be read.
    pub mems: Option<NodeSet>,
    /// Its processes.
    pub processes: Vec<SeenProcess>,
    /// Huge pages by the `hugetlb` controller, of the sizes that it was promised; empty where the kernel does not tell.
    pub hugepages: BTreeMap<NodeId, Bytes>,
}

/// What was read of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenProcess {
    /// Its number on the host.
    pub pid: u32,
    /// `Cpus_allowed_list`.
    pub cpus: CpuSet,
    /// The same of threads that have others, by their number.
    pub threads: BTreeMap<u32, CpuSet>,
    /// `Mems_allowed_list`.
    pub mems: NodeSet,
    /// The memory policies its areas have, as the kernel prints them (`bind=static:1`).
    pub policies: BTreeSet<String>,
    /// Its own pages and huge pages by node. Pages of files are not among them: they lie where whoever read the file
    /// first had them.
    pub memory: BTreeMap<NodeId, Bytes>,
}

/// One way in which a container is not where it was placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drift {
    /// Its cgroup's CPUs are not those of the placement.
    Cpus { effective: CpuSet, expected: CpuSet },
    /// Its cgroup's nodes are not those of the placement.
    Mems { effective: NodeSet, expected: NodeSet },
    /// A process may run elsewhere.
    ProcessCpus { pid: u32, allowed: CpuSet, expected: CpuSet },
    /// A thread of a process may run elsewhere.
    ThreadCpus { pid: u32, thread: u32, allowed: CpuSet, expected: CpuSet },
    /// A process may have memory from elsewhere.
    ProcessMems { pid: u32, allowed: NodeSet, expected: NodeSet },
    /// No process has any memory of the policy it was to start with.
    Policy { expected: MemoryPolicy, found: BTreeSet<String> },
    /// A process has memory elsewhere.
    Memory { pid: u32, node: NodeId, bytes: Bytes, expected: NodeSet },
    /// It uses huge pages elsewhere.
    Hugepages { node: NodeId, bytes: Bytes, expected: NodeSet },
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus { effective, expected } => {
                write!(f, "effective cpuset.cpus {effective}, expected {expected}")
            }
            Self::Mems { effective, expected } => {
                write!(f, "effective cpuset.mems {effective}, expected {expected}")
            }
            Self::ProcessCpus { pid, allowed, expected } => {
                write!(f, "process {pid} may run on CPUs {allowed}, expected only {expected}")
            }
            Self::ThreadCpus { pid, thread, allowed, expected } => {
                write!(
                    f,
                    "thread {thread} of process {pid} may run on CPUs {allowed}, expected only {expected}"
                )
            }
            Self::ProcessMems { pid, allowed, expected } => {
                write!(f, "process {pid} may have memory of nodes {allowed}, expected only {expected}")
            }
            Self::Policy { expected, found } => {
                let found: Vec<&str> = found.iter().map(String::as_str).collect();
                write!(f, "no memory has the policy {expected}, found {}", found.join(", "))
            }
            Self::Memory { pid, node, bytes, expected } => {
                write!(f, "process {pid} has {bytes} of memory on node {node}, expected only on {expected}")
            }
            Self::Hugepages { node, bytes, expected } => {
                write!(f, "{bytes} of huge pages are from node {node}, expected only from {expected}")
            }
        }
    }
}

/// Where a container is not as it was placed; empty is all well. What could not be read is no drift.
#[must_use]
pub fn drifts(placement: &Placement, seen: &Seen) -> Vec<Drift> {
    let mut drifts = Vec::new();
    if !placement.cpus.is_empty() {
        drifts.extend(cpus(&placement.cpus, seen));
    }
    if !placement.mems.is_empty() {
        drifts.extend(mems(&placement.mems, seen));
        drifts.extend(residency(&placement.mems, seen));
    }
    drifts.extend(placement.policy.as_ref().and_then(|expected| policy(expected, seen)));
    drifts
}

fn cpus(expected: &CpuSet, seen: &Seen) -> Vec<Drift> {
    let cgroup = seen.cpus.iter().filter(|effective| *effective != expected);
    let cgroup =
        cgroup.map(|effective| Drift::Cpus { effective: effective.clone(), expected: expected.clone() });
    // A process may narrow itself.
    let wide = seen.processes.iter().filter(|process| !process.cpus.is_subset(expected));
    let wide = wide.map(|process| Drift::ProcessCpus {
        pid: process.pid,
        allowed: process.cpus.clone(),
        expected: expected.clone(),
    });
    let escaped = seen.processes.iter().flat_map(|process| {
        let wide = process.threads.iter().filter(|(_, cpus)| !cpus.is_subset(expected));
        wide.map(|(thread, allowed)| Drift::ThreadCpus {
            pid: process.pid,
            thread: *thread,
            allowed: allowed.clone(),
            expected: expected.clone(),
        })
    });
    cgroup.chain(wide).chain(escaped).collect()
}

fn mems(expected: &NodeSet, seen: &Seen) -> Vec<Drift> {
    let cgroup = seen.mems.iter().filter(|effective| *effective != expected);
    let cgroup =
        cgroup.map(|effective| Drift::Mems { effective: effective.clone(), expected: expected.clone() });
    let wide = seen.processes.iter().filter(|process| !process.mems.is_subset(expected));
    let wide = wide.map(|process| Drift::ProcessMems {
        pid: process.pid,
        allowed: process.mems.clone(),
        expected: expected.clone(),
    });
    cgroup.chain(wide).collect()
}

fn residency(expected: &NodeSet, seen: &Seen) -> Vec<Drift> {
    let elsewhere = |(node, bytes): &(NodeId, Bytes)| bytes.0 > 0 && !expected.contains(*node);
    let pages = |memory: &BTreeMap<NodeId, Bytes>| {
        memory.iter().map(|(node, bytes)| (*node, *bytes)).filter(elsewhere).collect::<Vec<_>>()
    };
    let own = seen.processes.iter().flat_map(|process| {
        let drift =
            |(node, bytes)| Drift::Memory { pid: process.pid, node, bytes, expected: expected.clone() };
        pages(&process.memory).into_iter().map(drift).collect::<Vec<_>>()
    });
    let huge = pages(&seen.hugepages).into_iter();
    own.chain(huge.map(|(node, bytes)| Drift::Hugepages { node, bytes, expected: expected.clone() }))
        .collect()
}

/// A program may set another policy for itself; that not one area of any process has it says it never arrived.
fn policy(expected: &MemoryPolicy, seen: &Seen) -> Option<Drift> {
    let found: BTreeSet<String> =
        seen.processes.iter().flat_map(|process| process.policies.clone()).collect();
    let arrived = found.is_empty() || printed(expected).iter().any(|policy| found.contains(policy));
    (!arrived).then(|| Drift::Policy { expected: expected.clone(), found })
}

/// The kernel's words for a policy (`mpol_to_str` in `mm/mempolicy.c`), with and without the flag of fixed nodes.
fn printed(policy: &MemoryPolicy) -> [String; 2] {
    let mode = match policy.mode {
        MemoryMode::Bind => "bind",
        MemoryMode::Preferred => "prefer",
        MemoryMode::PreferredMany => "prefer (many)",
        MemoryMode::Interleave => "interleave",
        MemoryMode::WeightedInterleave => "weighted interleave",
        MemoryMode::Local => return ["local".to_owned(), "default".to_owned()],
    };
    [format!("{mode}=static:{}", policy.nodes), format!("{mode}:{}", policy.nodes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement() -> Placement {
        let policy = MemoryPolicy { mode: MemoryMode::Bind, nodes: "1".parse().unwrap() };
        Placement {
            cpus: "4-7".parse().unwrap(),
            mems: "1".parse().unwrap(),
            policy: Some(policy),
            ..Placement::default()
        }
    }

    fn seen() -> Seen {
        let process = SeenProcess {
            pid: 7,
            cpus: "4-5".parse().unwrap(),
            threads: [(8, "4".parse().unwrap())].into(),
            mems: "1".parse().unwrap(),
            policies: ["bind=static:1".to_owned(), "default".to_owned()].into(),
            memory: [(NodeId(0), Bytes(0)), (NodeId(1), Bytes(4096))].into(),
        };
        Seen {
            cpus: Some("4-7".parse().unwrap()),
            mems: Some("1".parse().unwrap()),
            processes: vec![process],
            hugepages: [(NodeId(1), Bytes(2 << 20))].into(),
        }
    }

    fn said(change: impl FnOnce(&mut Seen)) -> Vec<String> {
        let mut seen = seen();
        change(&mut seen);
        drifts(&placement(), &seen).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_thread_that_may_run_elsewhere_has_escaped() {
        let told = said(|seen| drop(seen.processes[0].threads.insert(9, "5,12".parse().unwrap())));
        assert_eq!(told, ["thread 9 of process 7 may run on CPUs 5,12, expected only 4-7"]);
    }

    #[test]
    fn what_is_as_placed_has_not_drifted() {
        assert_eq!(said(|_| {}), [""; 0]);
        assert_eq!(said(|seen| *seen = Seen::default()), [""; 0], "what is not known is no drift");
        let mut elsewhere = seen();
        elsewhere.mems = Some("0-3".parse().unwrap());
        assert_eq!(drifts(&Placement::default(), &elsewhere), [], "nothing was promised");
    }

    #[test]
    fn each_drift_names_what_is_and_what_was_expected() {
        assert_eq!(
            said(|seen| seen.cpus = Some("0-7".parse().unwrap())),
            ["effective cpuset.cpus 0-7, expected 4-7"]
        );
        assert_eq!(
            said(|seen| seen.mems = Some("0-1".parse().unwrap())),
            ["effective cpuset.mems 0-1, expected 1"]
        );
        assert_eq!(
            said(|seen| seen.processes[0].cpus = "3-4".parse().unwrap()),
            ["process 7 may run on CPUs 3-4, expected only 4-7"]
        );
        assert_eq!(
            said(|seen| seen.processes[0].mems = "0-1".parse().unwrap()),
            ["process 7 may have memory of nodes 0-1, expected only 1"]
        );
        assert_eq!(
            said(|seen| {
                seen.processes[0].memory.insert(NodeId(2), Bytes(8192));
            }),
            ["process 7 has 8Ki of memory on node 2, expected only on 1"]
        );
        assert_eq!(
            said(|seen| {
                seen.hugepages.insert(NodeId(0), Bytes(4 << 20));
            }),
            ["4Mi of huge pages are from node 0, expected only from 1"]
        );
        assert_eq!(
            said(|seen| seen.processes[0].policies = ["default".to_owned(), "local".to_owned()].into()),
            ["no memory has the policy bind:1, found default, local"]
        );
    }

    #[test]
    fn policies_are_known_by_the_kernels_words() {
        for (mode, words) in [
            (MemoryMode::Preferred, "prefer=static:1"),
            (MemoryMode::PreferredMany, "prefer (many)=static:1"),
            (MemoryMode::Interleave, "interleave:1"),
            (MemoryMode::WeightedInterleave, "weighted interleave=static:1"),
            (MemoryMode::Local, "local"),
        ] {
            let expected = MemoryPolicy { mode, nodes: "1".parse().unwrap() };
            assert!(printed(&expected).contains(&words.to_owned()), "{words}");
        }
    }
}
