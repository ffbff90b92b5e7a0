//! CPUs, packages, cores and last-level caches, from `/sys/devices/system/cpu`.
//!
//! Every set is cut down to the online CPUs. Kernels differ in what they offer: `online` and the
//! `_list` files came in 2.6.2x, `core_cpus` and `package_cpus` renamed `thread_siblings` and
//! `core_siblings` in 5.x (`Documentation/admin-guide/cputopology.rst`). What contradicts itself is an
//! error, because a core taken for two would give one core to two containers.

use super::root::malformed;
use super::{DiscoverError, Root, Warning, parse};
use crate::model::{Core, CpuId, CpuSet, Llc, Package, PackageId};
use std::collections::BTreeMap;
use std::path::PathBuf;

const CPUS: &str = "sys/devices/system/cpu";

/// What the CPU directories tell.
pub(super) struct Cpus {
    pub online: CpuSet,
    pub isolated: CpuSet,
    pub packages: Vec<Package>,
    pub cores: Vec<Core>,
    pub llcs: Vec<Llc>,
    /// What hotplug can bring, where the kernel tells.
    pub possible: Option<CpuSet>,
    /// What the cgroup of all pods has.
    pub pods: Option<CpuSet>,
}

/// Where the kubelet keeps all pods (its systemd and its cgroupfs driver), in cgroup v2 and v1.
const PODS: [&str; 4] = [
    "sys/fs/cgroup/kubepods.slice/cpuset.cpus.effective",
    "sys/fs/cgroup/kubepods/cpuset.cpus.effective",
    "sys/fs/cgroup/cpuset/kubepods.slice/cpuset.effective_cpus",
    "sys/fs/cgroup/cpuset/kubepods/cpuset.effective_cpus",
];

pub(super) fn read(root: &Root, warnings: &mut Vec<Warning>) -> Result<Cpus, DiscoverError> {
    let online = online(root)?;
    let isolated = root.list(&format!("{CPUS}/isolated"))?.unwrap_or_default();
    let packages = packages(root, &online, warnings)?;
    let cores = cores(root, &online, &packages)?;
    let llcs = llcs(root, &online)?;
    let possible = root.list(&format!("{CPUS}/possible"))?;
    let pods = pods(root, &online)?;
    Ok(Cpus { isolated: isolated.intersection(&online), online, packages, cores, llcs, possible, pods })
}

/// The CPUs that pods can have at all: a cgroup above them may have fewer than the machine, and what is
/// outside of it no container gets, whatever its cpuset says.
pub(super) fn pods(root: &Root, online: &CpuSet) -> Result<Option<CpuSet>, DiscoverError> {
    for path in PODS {
        if let Some(cpus) = root.list::<CpuId>(path)? {
            // An empty set is a cgroup in the making.
            return Ok(Some(cpus.intersection(online)).filter(|cpus| !cpus.is_empty()));
        }
    }
    Ok(None)
}

/// `cpu/online`, or without it every CPU directory that does not say it is offline.
fn online(root: &Root) -> Result<CpuSet, DiscoverError> {
    let path = format!("{CPUS}/online");
    let online = match root.list(&path)? {
        Some(online) => online,
        None => online_one_by_one(root)?,
    };
    match online.is_empty() {
        true => Err(DiscoverError::Missing { path: root.full(&path), expected: "at least one online CPU" }),
        false => Ok(online),
    }
}

fn online_one_by_one(root: &Root) -> Result<CpuSet, DiscoverError> {
    let mut online = CpuSet::new();
    for cpu in root.numbered(CPUS, "cpu")?.unwrap_or_default() {
        let path = format!("{CPUS}/cpu{cpu}/online");
        let flag = |text: &str| matches!(text, "0" | "1").then_some(text == "1");
        // The boot CPU has no such file where it cannot be taken offline.
        if root.value(&path, "0 or 1", flag)?.unwrap_or(true) {
            let list = root.full(CPUS).join(format!("cpu{cpu}"));
            let id = cpu.to_string().parse::<CpuSet>();
            online.extend(id.map_err(|source| DiscoverError::List { path: list, source })?.iter());
        }
    }
    Ok(online)
}

fn topology_file(cpu: CpuId, name: &str) -> String {
    format!("{CPUS}/cpu{cpu}/topology/{name}")
}

/// A set of siblings, cut down to the online CPUs, and the file it is from: the current name or the
/// old one, as a list or as a mask.
fn siblings(
    root: &Root,
    online: &CpuSet,
    cpu: CpuId,
    names: [&str; 2],
) -> Result<Option<(CpuSet, PathBuf)>, DiscoverError> {
    for name in names {
        let mask = topology_file(cpu, name);
        if let Some((set, path)) = root.set::<CpuId>(&format!("{mask}_list"), &mask)? {
            return Ok(Some((set.intersection(online), path)));
        }
    }
    Ok(None)
}

const PACKAGE_SETS: [&str; 2] = ["package_cpus", "core_siblings"];
const CORE_SETS: [&str; 2] = ["core_cpus", "thread_siblings"];

/// CPUs by `physical_package_id`, checked once a package against the kernel's own set.
fn packages(
    root: &Root,
    online: &CpuSet,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Package>, DiscoverError> {
    let mut by_id: BTreeMap<Option<u32>, CpuSet> = BTreeMap::new();
    for cpu in online.iter() {
        let path = topology_file(cpu, "physical_package_id");
        let id = root.value(&path, "a package id or -1", parse::id_or_minus_one)?;
        let absent = || DiscoverError::Missing { path: root.full(&path), expected: "a package id" };
        by_id.entry(id.ok_or_else(absent)?).or_default().insert(cpu);
    }
    let Some(unnumbered) = by_id.remove(&None) else { return checked(root, online, by_id) };
    let first = unnumbered.first().unwrap_or(CpuId(0));
    let path = root.full(&topology_file(first, "physical_package_id"));
    if !by_id.is_empty() {
        return Err(malformed(path, "-1", "a package id, as other CPUs have one"));
    }
    warnings.push(Warning::PackageIds { path });
    packages_by_set(root, online)
}

fn checked(
    root: &Root,
    online: &CpuSet,
    by_id: BTreeMap<Option<u32>, CpuSet>,
) -> Result<Vec<Package>, DiscoverError> {
    let mut packages = Vec::new();
    for (id, cpus) in by_id.into_iter().filter_map(|(id, cpus)| Some((PackageId(id?), cpus))) {
        let Some(first) = cpus.first() else { continue };
        if let Some((found, path)) = siblings(root, online, first, PACKAGE_SETS)?
            && found != cpus
        {
            return Err(DiscoverError::PackagesDisagree { path, found, expected: cpus, package: id });
        }
        packages.push(Package { id, cpus });
    }
    Ok(packages)
}

/// Packages on a kernel that does not number them (old POWER): told apart by their CPUs.
fn packages_by_set(root: &Root, online: &CpuSet) -> Result<Vec<Package>, DiscoverError> {
    let groups = partition(online, |cpu| {
        let absent = || DiscoverError::Missing {
            path: root.full(&topology_file(cpu, PACKAGE_SETS[1])),
            expected: "the CPUs of a package",
        };
        siblings(root, online, cpu, PACKAGE_SETS)?.ok_or_else(absent)
    })?;
    let numbered = groups.into_iter().zip(0..);
    Ok(numbered.map(|((cpus, _), rank)| Package { id: PackageId(rank), cpus }).collect())
}

/// The sets that `set_of` gives for each CPU, each once with its first file, by lowest CPU.
///
/// # Errors
/// Where two CPUs disagree on whether they belong together.
fn partition(
    online: &CpuSet,
    mut set_of: impl FnMut(CpuId) -> Result<(CpuSet, PathBuf), DiscoverError>,
) -> Result<Vec<(CpuSet, PathBuf)>, DiscoverError> {
    let mut sets: Vec<(CpuSet, PathBuf)> = Vec::new();
    let mut place: BTreeMap<CpuId, usize> = BTreeMap::new();
    for cpu in online.iter() {
        let (cpus, path) = set_of(cpu)?;
        match place.get(&cpu) {
            Some(known) if sets[*known].0 == cpus => {}
            None if cpus.contains(cpu) && cpus.iter().all(|member| !place.contains_key(&member)) => {
                place.extend(cpus.iter().map(|member| (member, sets.len())));
                sets.push((cpus, path));
            }
            known => {
                let others = known.copied().or_else(|| cpus.iter().find_map(|c| place.get(&c).copied()));
                let others = others.map(|at| sets[at].0.clone()).unwrap_or_default();
                let other = others.first().unwrap_or(cpu);
                return Err(DiscoverError::SiblingsDisagree { path, cpu, cpus, other, others });
            }
        }
    }
    Ok(sets)
}

fn cores(root: &Root, online: &CpuSet, packages: &[Package]) -> Result<Vec<Core>, DiscoverError> {
    let sets = partition(online, |cpu| {
        let absent = || DiscoverError::Missing {
            path: root.full(&topology_file(cpu, CORE_SETS[1])),
            expected: "the threads of a core",
        };
        siblings(root, online, cpu, CORE_SETS)?.ok_or_else(absent)
    })?;
    let mut cores = Vec::new();
    for (cpus, path) in sets {
        let Some(package) = packages.iter().find(|package| !package.cpus.is_disjoint(&cpus)) else {
            continue;
        };
        if !cpus.is_subset(&package.cpus) {
            return Err(DiscoverError::CoreAcrossPackages { path, cpus, package: package.id });
        }
        cores.extend(by_core_id(root, &cpus)?.into_iter().map(|cpus| Core { package: package.id, cpus }));
    }
    cores.sort_by_key(|core| core.cpus.first());
    Ok(cores)
}

/// Siblings with different `core_id`s are the two cores of an AMD compute unit (family 15h), which
/// share a front end but are cores of their own; the kubelet counts by `core_id` as well.
fn by_core_id(root: &Root, siblings: &CpuSet) -> Result<Vec<CpuSet>, DiscoverError> {
    if siblings.len() == 1 {
        return Ok(vec![siblings.clone()]);
    }
    let mut by_id: BTreeMap<Option<u32>, CpuSet> = BTreeMap::new();
    for cpu in siblings.iter() {
        let path = topology_file(cpu, "core_id");
        let id = root.value(&path, "a core id or -1", parse::id_or_minus_one)?.flatten();
        by_id.entry(id).or_default().insert(cpu);
    }
    Ok(by_id.into_values().collect())
}

/// Each L3, read once: from the first CPU that it serves. A CPU whose directory names none has none
/// (low-power cores of hybrid processors).
fn llcs(root: &Root, online: &CpuSet) -> Result<Vec<Llc>, DiscoverError> {
    let mut llcs: Vec<Llc> = Vec::new();
    let mut served = CpuSet::new();
    for cpu in online.iter() {
        if served.contains(cpu) {
            continue;
        }
        let Some((cpus, path, size_bytes)) = l3_of(root, online, cpu)? else { continue };
        if !cpus.contains(cpu) || !cpus.is_disjoint(&served) {
            let other = llcs.into_iter().map(|llc| llc.cpus).find(|other| !other.is_disjoint(&cpus));
            let other = other.unwrap_or_default();
            return Err(DiscoverError::CachesOverlap { path, cpu, found: cpus, other });
        }
        served.extend(cpus.iter());
        llcs.push(Llc { cpus, size_bytes });
    }
    Ok(llcs)
}

fn l3_of(
    root: &Root,
    online: &CpuSet,
    cpu: CpuId,
) -> Result<Option<(CpuSet, PathBuf, Option<u64>)>, DiscoverError> {
    let caches = format!("{CPUS}/cpu{cpu}/cache");
    for index in root.numbered(&caches, "index")?.unwrap_or_default() {
        let cache = format!("{caches}/index{index}");
        if root.value(&format!("{cache}/level"), "a cache level", parse::number)? != Some(3) {
            continue;
        }
        let mask = format!("{cache}/shared_cpu_map");
        let shared = root.set::<CpuId>(&format!("{cache}/shared_cpu_list"), &mask)?;
        let Some((cpus, path)) = shared else {
            return Err(DiscoverError::Missing { path: root.full(&mask), expected: "the CPUs of a cache" });
        };
        let size = root.value(&format!("{cache}/size"), "a size such as 32768K", parse::cache_size)?;
        // Old Itanium kernels print an empty mask for a cache that no other CPU shares.
        let cpus = if cpus.is_empty() { CpuSet::single(cpu) } else { cpus.intersection(online) };
        return Ok(Some((cpus, path, size)));
    }
    Ok(None)
}
