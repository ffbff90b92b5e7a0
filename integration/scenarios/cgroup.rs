//! cgroup files of both versions: the pod cgroups that a kubelet makes, and what the kernel says of
//! a container's.

use crate::list::{self, Set};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";
/// What a kubelet enables for pods, as far as this kernel has it.
const CONTROLLERS: &[&str] = &["cpuset", "cpu", "memory", "hugetlb", "pids"];

pub fn is_v2() -> bool {
    Path::new(ROOT).join("cgroup.controllers").exists()
}

/// The directory of `path` in `controller`'s hierarchy; none where the kernel lacks the controller.
fn directory(controller: &str, path: &str) -> Option<PathBuf> {
    let hierarchy = if is_v2() { PathBuf::from(ROOT) } else { Path::new(ROOT).join(controller) };
    hierarchy.is_dir().then(|| hierarchy.join(path.trim_start_matches('/')))
}

pub fn read(controller: &str, path: &str, file: &str) -> Result<String> {
    let directory = directory(controller, path).with_context(|| format!("no {controller} controller"))?;
    let file = directory.join(file);
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    Ok(text.trim().to_owned())
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("writing {text:?} to {}", file.display()))
}

/// CPUs and nodes the kernel really lets this cgroup use.
pub fn effective_cpuset(path: &str) -> Result<(Set, Set)> {
    let suffix = if is_v2() { ".effective" } else { "" };
    let get = |kind: &str| list::parse(&read("cpuset", path, &format!("cpuset.{kind}{suffix}"))?);
    Ok((get("cpus")?, get("mems")?))
}

/// Writes a container's own cpuset past everybody's back.
pub fn set_cpus(path: &str, cpus: &Set) -> Result<()> {
    let directory = directory("cpuset", path).context("no cpuset controller")?;
    write(&directory.join("cpuset.cpus"), &list::show(cpus))
}

/// `quota period` of cpu.max, `max` where there is no quota.
pub fn cpu_max(path: &str) -> Result<String> {
    if is_v2() {
        return read("cpu", path, "cpu.max");
    }
    let quota = read("cpu", path, "cpu.cfs_quota_us")?;
    let quota = if quota.starts_with('-') { "max".to_owned() } else { quota };
    Ok(format!("{quota} {}", read("cpu", path, "cpu.cfs_period_us")?))
}

/// Makes `path` and its parents usable for containers, as the kubelet does before a pod's sandbox.
pub fn create(path: &str) -> Result<()> {
    if is_v2() {
        return create_v2(path);
    }
    for controller in CONTROLLERS.iter().chain(&["cpuacct", "devices", "freezer", "blkio", "systemd"]) {
        let Some(full) = directory(controller, path) else { continue };
        fs::create_dir_all(&full).with_context(|| format!("making {}", full.display()))?;
    }
    let Some(root) = directory("cpuset", "") else { return Ok(()) };
    let mut at = root;
    for part in path.trim_matches('/').split('/') {
        let parent = at.clone();
        at.push(part);
        inherit_cpuset_v1(&parent, &at)?;
    }
    Ok(())
}

/// A new v1 cpuset is empty, and an empty cpuset takes no process.
fn inherit_cpuset_v1(parent: &Path, child: &Path) -> Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if fs::read_to_string(child.join(file))?.trim().is_empty() {
            write(&child.join(file), fs::read_to_string(parent.join(file))?.trim())?;
        }
    }
    Ok(())
}

fn create_v2(path: &str) -> Result<()> {
    let mut at = PathBuf::from(ROOT);
    for part in path.trim_matches('/').split('/') {
        let offered = fs::read_to_string(at.join("cgroup.controllers"))?;
        for controller in
            CONTROLLERS.iter().filter(|wanted| offered.split_whitespace().any(|has| has == **wanted))
        {
            write(&at.join("cgroup.subtree_control"), &format!("+{controller}"))?;
        }
        at.push(part);
        fs::create_dir_all(&at).with_context(|| format!("making {}", at.display()))?;
    }
    let offered = fs::read_to_string(at.join("cgroup.controllers"))?;
    for controller in
        CONTROLLERS.iter().filter(|wanted| offered.split_whitespace().any(|has| has == **wanted))
    {
        write(&at.join("cgroup.subtree_control"), &format!("+{controller}"))?;
    }
    Ok(())
}

/// The pod's own limits; 0 leaves a limit off.
pub struct Limits {
    pub shares: u64,
    pub quota: i64,
    pub period: u64,
    pub memory: u64,
    /// `2MB` → bytes.
    pub hugetlb: Vec<(String, u64)>,
}

pub fn limit(path: &str, limits: &Limits) -> Result<()> {
    let set = |controller: &str, file: &str, text: String| match directory(controller, path) {
        Some(full) => write(&full.join(file), &text),
        None => Ok(()),
    };
    for (size, bytes) in &limits.hugetlb {
        let file =
            if is_v2() { format!("hugetlb.{size}.max") } else { format!("hugetlb.{size}.limit_in_bytes") };
        if directory("hugetlb", path).is_some_and(|full| full.join(&file).exists()) {
            set("hugetlb", &file, bytes.to_string())?;
        }
    }
    if is_v2() {
        set("cpu", "cpu.weight", weight(limits.shares).to_string())?;
        if limits.quota > 0 {
            set("cpu", "cpu.max", format!("{} {}", limits.quota, limits.period))?;
        }
        return if limits.memory > 0 {
            set("memory", "memory.max", limits.memory.to_string())
        } else {
            Ok(())
        };
    }
    set("cpu", "cpu.shares", limits.shares.to_string())?;
    if limits.quota > 0 {
        set("cpu", "cpu.cfs_period_us", limits.period.to_string())?;
        set("cpu", "cpu.cfs_quota_us", limits.quota.to_string())?;
    }
    if limits.memory > 0 { set("memory", "memory.limit_in_bytes", limits.memory.to_string()) } else { Ok(()) }
}

/// The kubelet's own conversion from v1 shares to a v2 weight.
fn weight(shares: u64) -> u64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9999 / 262_142
}

/// Takes the pod's cgroup away again; what a dead container left below it goes too.
pub fn remove(path: &str) {
    let all =
        ["cpuset", "cpu", "cpuacct", "memory", "hugetlb", "pids", "devices", "freezer", "blkio", "systemd"];
    for full in all.iter().filter_map(|controller| directory(controller, path)) {
        remove_tree(&full);
    }
}

fn remove_tree(directory: &Path) {
    for child in fs::read_dir(directory).into_iter().flatten().flatten() {
        if child.path().is_dir() {
            remove_tree(&child.path());
        }
    }
    // Busy or gone already: the next clean state will show whether it matters.
    let _ = fs::remove_dir(directory);
}
