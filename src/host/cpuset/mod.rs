//! The `cpuset` controller: reading what is effective, and writing so that it becomes effective.

mod legacy;

use super::cgroups::absent;
use super::error::{io, read, written};
use super::mounts::Hierarchy;
use super::{Cgroups, HostError};
use crate::decision::Observed;
use crate::model::{CpuId, CpuSet, Id, IdSet, NodeId, NodeSet};
use cgroups_rs::cpuset::CpuSetController;
use std::path::Path;

/// The two sets a cpuset has, so that nothing is written twice below.
trait Member: Id {
    /// The file of the set itself.
    const FILE: &'static str;
    /// The file of what is effective, cgroup v2 and v1.
    const EFFECTIVE: [&'static str; 2];
    /// Writes [`Self::FILE`].
    fn set(cgroup: &CpuSetController, list: &str) -> cgroups_rs::error::Result<()>;
}

impl Member for CpuId {
    const FILE: &'static str = "cpuset.cpus";
    const EFFECTIVE: [&'static str; 2] = ["cpuset.cpus.effective", "cpuset.effective_cpus"];
    fn set(cgroup: &CpuSetController, list: &str) -> cgroups_rs::error::Result<()> {
        cgroup.set_cpus(list)
    }
}

impl Member for NodeId {
    const FILE: &'static str = "cpuset.mems";
    const EFFECTIVE: [&'static str; 2] = ["cpuset.mems.effective", "cpuset.effective_mems"];
    fn set(cgroup: &CpuSetController, list: &str) -> cgroups_rs::error::Result<()> {
        cgroup.set_mems(list)
    }
}

impl Cgroups {
    /// The effective CPUs and nodes of a container; `None` is no such cgroup (any more).
    ///
    /// A set that reads empty is told as not known (`None` within [`Observed`]): the kernel runs
    /// nothing on an empty set, so it is that of a cgroup nothing was put in yet (v1, between `mkdir`
    /// and the runtime's writes) or of a partition that lent all it has (v2), and says nothing of
    /// what the container will run on. A v2 cgroup without the controller has the sets of the nearest
    /// one above that has it.
    ///
    /// # Errors
    /// A path that names no cgroup, a file that cannot be read, a list that is none.
    pub fn observe(&self, cgroups_path: &str) -> Result<Option<Observed>, HostError> {
        let dir = self.cpuset.container(cgroups_path)?;
        let Found::There(cpus) = self.cpuset.effective(&dir)? else { return Ok(None) };
        let Found::There(mems) = self.cpuset.effective(&dir)? else { return Ok(None) };
        Ok(Some(Observed { cpus, mems }))
    }

    /// Sets a container's CPUs, and its nodes where given, and checks that they became effective.
    ///
    /// With cgroup v1 nested cgroups are changed along: those that had what the container had go on
    /// so, others keep what they can of their own. With v2 the kernel does as much.
    ///
    /// # Errors
    /// [`HostError::Gone`] where the container ended meanwhile; [`HostError::NotEffective`] with what
    /// was wanted and what it became.
    pub fn write_cpuset(
        &self,
        cgroups_path: &str,
        cpus: &CpuSet,
        mems: Option<&NodeSet>,
    ) -> Result<(), HostError> {
        let dir = self.cpuset.container(cgroups_path)?;
        if let Some(gone) = absent(&dir) {
            return Err(gone);
        }
        // Before anything is written: half a change is worse than none.
        refuse_empty(&dir, cpus)?;
        mems.map_or(Ok(()), |mems| refuse_empty(&dir, mems))?;
        self.cpuset.write(&dir, cpus)?;
        mems.map_or(Ok(()), |mems| self.cpuset.write(&dir, mems))
    }

    /// `cpus` without those that a container cannot have in its cgroup, which need not be there yet, because a cgroup
    /// above was given fewer than the hierarchy has: v1 refuses a set that the cgroup above does not contain, and v2 makes
    /// nothing effective that the one above has not. A cgroup above that is not there either, or was never set up, gets
    /// what those above it have.
    ///
    /// # Errors
    /// A path that names no cgroup, a file that cannot be read, a list that is none.
    pub fn room_for(&self, cgroups_path: &str, cpus: &CpuSet) -> Result<CpuSet, HostError> {
        let dir = self.cpuset.container(cgroups_path)?;
        let file = if self.cpuset.v2 { CpuId::EFFECTIVE[0] } else { CpuId::FILE };
        let mount = self.cpuset.mount.as_path();
        let set = |cgroup: &Path| Ok(list::<CpuId>(&cgroup.join(file))?.filter(|set| !set.is_empty()));
        let above =
            dir.ancestors().skip(1).take_while(|cgroup| cgroup.starts_with(mount) && *cgroup != mount);
        for cgroup in above {
            if let Some(allowed) = set(cgroup)? {
                let all = set(mount)?.unwrap_or_default();
                return Ok(cpus.difference(&all.difference(&allowed)));
            }
        }
        Ok(cpus.clone())
    }
}

/// Whether there was a cgroup to look at.
enum Found<T> {
    Gone,
    There(T),
}

impl Hierarchy {
    /// The effective set of the cgroup `dir`; within, `None` is one that reads empty.
    fn effective<I: Member>(&self, dir: &Path) -> Result<Found<Option<IdSet<I>>>, HostError> {
        let [v2, v1] = I::EFFECTIVE;
        // The set itself where the kernel has no effective one (v1 before 3.17).
        let files: &[_] = if self.v2 { &[v2] } else { &[v1, I::FILE] };
        let known = |set: IdSet<I>| Ok(Found::There((!set.is_empty()).then_some(set)));
        for file in files {
            if let Some(set) = list(&dir.join(file))? {
                return known(set);
            }
        }
        if absent(dir).is_some() {
            return Ok(Found::Gone);
        }
        match self.above(dir, v2)? {
            Some(set) => known(set),
            None => Err(no_file(&dir.join(if self.v2 { v2 } else { I::FILE }))),
        }
    }

    /// The list in `file` of the nearest cgroup above `dir` that has such a file (v2).
    fn above<I: Id>(&self, dir: &Path, file: &str) -> Result<Option<IdSet<I>>, HostError> {
        let mut above =
            dir.ancestors().skip(1).take_while(|cgroup| self.v2 && cgroup.starts_with(&self.mount));
        above.find_map(|cgroup| list(&cgroup.join(file)).transpose()).transpose()
    }

    fn write<I: Member>(&self, dir: &Path, wanted: &IdSet<I>) -> Result<(), HostError> {
        match self.v2 {
            // The kernel would answer EACCES to the attempt at making the file.
            true if !dir.join(I::FILE).exists() => {
                return Err(absent(dir).unwrap_or_else(|| no_file(&dir.join(I::FILE))));
            }
            true => set(dir, wanted, true)?,
            false => legacy::write(&self.mount, dir, wanted)?,
        }
        match self.effective(dir)? {
            Found::Gone => Err(HostError::Gone { path: dir.to_owned() }),
            Found::There(Some(effective)) if effective == *wanted => Ok(()),
            Found::There(other) => Err(HostError::NotEffective {
                path: dir.join(I::FILE),
                wanted: wanted.to_string(),
                effective: other.unwrap_or_default().to_string(),
            }),
        }
    }
}

fn no_file(path: &Path) -> HostError {
    io("find", path)(std::io::ErrorKind::NotFound.into())
}

fn refuse_empty<I: Member>(dir: &Path, wanted: &IdSet<I>) -> Result<(), HostError> {
    match wanted.is_empty() {
        true => Err(HostError::Empty { path: dir.join(I::FILE), noun: I::NOUN }),
        false => Ok(()),
    }
}

/// The kernel list in `path`; `None` is no such file.
fn list<I: Id>(path: &Path) -> Result<Option<IdSet<I>>, HostError> {
    let Some(text) = read(path)? else { return Ok(None) };
    let parsed = text.parse::<IdSet<I>>();
    parsed.map(Some).map_err(|source| HostError::List { path: path.to_owned(), source })
}

fn set<I: Member>(dir: &Path, wanted: &IdSet<I>, v2: bool) -> Result<(), HostError> {
    let list = wanted.to_string();
    let result = I::set(&CpuSetController::new(dir.to_owned(), v2), &list);
    written(dir.join(I::FILE), &list, result)
}

#[cfg(test)]
mod tests;
