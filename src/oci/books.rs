//! The shared store as the ledger's books: who holds what, who of them lives, and what the dead have left.

use super::OciError;
use crate::decision::Known;
use crate::host::{self, Cgroups, HostError};
use crate::ledger::Record;
use crate::model::{ContainerKey, CpuSet, Placement};
use crate::store::{Allocation, By, Process, Store};
use serde_json::value::RawValue;
use std::path::Path;

/// How long a caller that has handed a configuration on may take to have the container made, in seconds.
const PATIENCE: u64 = 120;

/// The store, and where to look whether those in it live.
pub struct Books<'a> {
    /// The store.
    pub store: &'a Store,
    /// This machine's cgroups.
    pub cgroups: &'a Cgroups,
    /// Where this machine's `proc` is.
    pub root: &'a Path,
}

/// What was read of the books.
#[derive(Debug, Default)]
pub struct Entries {
    /// The allocations of containers that live, or whose pod does.
    pub living: Vec<(Allocation, Known)>,
    /// Keys whose containers have ended with their pods: theirs to be forgotten.
    pub dead: Vec<ContainerKey>,
    /// What is an allocation by its name and cannot be understood, a sentence each: who holds what is not known.
    pub unclear: Vec<String>,
}

/// What has become of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Runs,
    /// It has stopped, its pod has not.
    Stopped,
    Ended,
}

impl Books<'_> {
    /// Reads all allocations. What cannot be understood is left alone, with a warning.
    ///
    /// # Errors
    /// The store cannot be listed.
    pub fn read(&self) -> Result<Entries, OciError> {
        let (allocations, skipped) = self.store.allocations()?;
        skipped.iter().for_each(|skipped| tracing::warn!("{skipped}"));
        let unclear = skipped.iter().filter(|skipped| skipped.is_allocation()).map(ToString::to_string);
        let daemon = daemon(self.store, self.root).is_some();
        let mut entries = Entries { unclear: unclear.collect(), ..Entries::default() };
        for allocation in allocations {
            match (self.life(&allocation, daemon), record(&allocation)) {
                (Life::Ended, _) => entries.dead.push(allocation.key),
                (_, Err(error)) => {
                    tracing::warn!(key = %allocation.key, %error, "an allocation is not understood");
                    entries.unclear.push(error.to_string());
                }
                (life, Ok(record)) => {
                    let known = Known {
                        record,
                        cgroups_path: self.cgroup(&allocation),
                        told: allocation.told.clone(),
                        reserved: allocation.reserved,
                        claims: allocation.claims.clone(),
                        runs: life == Life::Runs,
                    };
                    entries.living.push((allocation, known));
                }
            }
        }
        Ok(entries)
    }

    /// The cgroup of a container, of those it may have: the one in which something runs, else one that is there; the
    /// only one there can be also before it is made.
    fn cgroup(&self, allocation: &Allocation) -> Option<String> {
        let mut all = allocation.cgroups.iter();
        let runs = match all.len() {
            0 | 1 => None,
            _ => all.clone().find(|path| self.cgroups.is_populated(path).is_ok_and(|runs| runs)),
        };
        let there = runs.or_else(|| all.find(|path| self.cgroups.is_there(path)));
        there.or_else(|| allocation.cgroups.first().filter(|_| allocation.cgroups.len() == 1)).cloned()
    }

    fn life(&self, allocation: &Allocation, daemon: bool) -> Life {
        // The daemon forgets what has ended itself.
        let known = allocation.by == By::Nri && daemon;
        if known
            || allocation.holders.iter().any(|holder| self.process_lives(*holder))
            || self.populated(allocation)
        {
            return if allocation.stopped { Life::Stopped } else { Life::Runs };
        }
        // A daemon of an older version left nothing to tell by; the next one knows.
        let untold =
            allocation.by == By::Nri && allocation.cgroups.is_empty() && allocation.pod_cgroup.is_none();
        match untold || allocation.pod_cgroup.as_deref().is_some_and(|pod| self.cgroups.pod_is_there(pod)) {
            true => Life::Stopped,
            false => Life::Ended,
        }
    }

    /// Whether a process is the one that was kept, and its word still counts.
    pub(super) fn process_lives(&self, Process { pid, start, until }: Process) -> bool {
        let counts = until.is_none_or(|until| host::now(self.root).is_none_or(|now| now < until));
        counts && host::start_time(self.root, pid) == Some(start)
    }

    /// Whether anything runs in a container's cgroup, or in one that it may have. What cannot be read is not taken for
    /// dead; what is no cgroup's name can have nobody in it.
    pub(super) fn populated(&self, allocation: &Allocation) -> bool {
        allocation.cgroups.iter().any(|path| match self.cgroups.is_populated(path) {
            Ok(populated) => populated,
            Err(HostError::CgroupsPath { .. }) => false,
            Err(error) => {
                tracing::warn!(key = %allocation.key, %error, "taken for alive");
                true
            }
        })
    }
}

/// The daemon that wrote itself into the store's lock file, if it runs.
#[must_use]
pub fn daemon(store: &Store, root: &Path) -> Option<u32> {
    let runs = |pid: &u32| host::name(root, *pid).is_some_and(|name| name.contains("maitred"));
    store.daemon_pid().filter(runs)
}

/// A process as it is kept; `None` is one that has ended.
#[must_use]
pub fn process(root: &Path, pid: u32) -> Option<Process> {
    Some(Process { pid, start: host::start_time(root, pid)?, until: None })
}

/// The process that has started this one and starts the runtime next. It may live on for months (`podman system
/// service`), also where the container never comes to be: so it counts for a while only.
pub(super) fn caller(root: &Path) -> Option<Process> {
    let caller = u32::try_from(nix::unistd::getppid().as_raw()).ok()?;
    let until = host::now(root).map(|now| now + PATIENCE * host::TICKS_A_SECOND);
    Some(Process { until, ..process(root, caller)? })
}

/// An allocation's record, if it speaks of that very container.
///
/// # Errors
/// It cannot be understood.
pub fn record(allocation: &Allocation) -> Result<Record, OciError> {
    let error = |source| OciError::Record { id: allocation.id.to_string(), source };
    let record = Record::parse(allocation.record.get()).map_err(error)?;
    match record.key == allocation.key && record.id == allocation.id {
        true => Ok(record),
        false => Err(OciError::OthersRecord { key: allocation.key.clone(), found: record.key }),
    }
}

/// A record as an allocation keeps it.
#[must_use]
pub fn raw(record: &Record) -> Box<RawValue> {
    // What the ledger writes is JSON.
    RawValue::from_string(record.to_json()).unwrap_or_default()
}

/// The CPUs a container is given by a placement, or by what it is told of the shared pool.
pub(super) fn told(placement: &Placement, shared: Option<&CpuSet>, all: &CpuSet) -> CpuSet {
    match placement.cpus.is_empty() {
        true => shared.unwrap_or(all).clone(),
        false => placement.cpus.clone(),
    }
}
