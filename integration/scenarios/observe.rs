//! What a running container really has: its own process's /proc entries and its cgroup's files.

use crate::cgroup;
use crate::cri::Cri;
use crate::list::{self, Set};
use crate::pod::GPU_MOUNTS;
use crate::wait;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::time::Duration;

const PROGRAM: &str = "/tenant";

#[derive(Debug, Clone)]
pub struct Seen {
    pub pid: u32,
    /// Below the hierarchy's root.
    pub cgroup: String,
    /// Cpus_allowed_list and Mems_allowed_list.
    pub cpus: Set,
    pub mems: Set,
    pub env: HashMap<String, String>,
    pub cpu_max: String,
    /// Where something is mounted inside it.
    pub mounts: BTreeSet<String>,
}

/// How an attempt to open a device node inside a container ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// The node is there and its cgroup allows it. The stand-ins' numbers have no driver, so that the kernel
    /// says ENXIO after it has asked the cgroup.
    Allowed,
    /// The node is not there.
    Absent,
    /// The cgroup forbids it.
    Denied,
    /// Anything else, by its error number.
    Other(i32),
}

impl Opened {
    fn of(errno: i32) -> Opened {
        match errno {
            0 | libc::ENXIO | libc::ENODEV => Opened::Allowed,
            libc::ENOENT => Opened::Absent,
            libc::EPERM => Opened::Denied,
            other => Opened::Other(other),
        }
    }
}

/// What `tenant open` has written to its log, once it has opened everything.
pub fn opened(log: &Path, limit: Duration) -> Result<BTreeMap<String, Opened>> {
    let read = || fs::read_to_string(log).with_context(|| format!("reading {}", log.display()));
    wait::until(limit, "the container has opened its devices", || Ok(read()?.contains(" ready")))?;
    let text = read()?;
    // Each line begins with a time, the stream and a letter.
    let words = text.lines().filter_map(|line| line.splitn(4, ' ').nth(3));
    let opened = words.filter_map(|line| line.split_once(": "));
    opened.map(|(path, code)| Ok((path.to_owned(), Opened::of(code.trim().parse()?)))).collect()
}

impl Seen {
    /// The GPUs this container would be given by the NVIDIA runtime.
    pub fn gpus(&self) -> Vec<String> {
        let value = self.env.get("NVIDIA_VISIBLE_DEVICES").map(String::as_str).unwrap_or_default();
        value.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect()
    }

    /// The GPUs it is given by mounts.
    pub fn mounted_gpus(&self) -> Vec<String> {
        let below = |at: &String| {
            // /var/run may be a link to /run.
            let at = at.strip_prefix("/var").unwrap_or(at);
            at.strip_prefix(GPU_MOUNTS.trim_start_matches("/var"))?.strip_prefix('/').map(str::to_owned)
        };
        self.mounts.iter().filter_map(below).collect()
    }
}

/// The text of a file of a process.
pub fn proc(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).with_context(|| format!("reading {path}"))
}

/// A line of a `/proc/PID/status`, such as `VmRSS`.
pub fn field<'t>(status: &'t str, name: &str) -> Result<&'t str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim).with_context(|| format!("no {name} in status"))
}

/// Process id of a container's first process, from containerd.
pub fn pid(cri: &Cri, container: &str) -> Result<u32> {
    let answer = cri.container_status(container, true)?;
    let info = answer.info.get("info").context("a verbose status has info")?;
    let info: serde_json::Value = serde_json::from_str(info)?;
    let pid = info["pid"].as_u64().filter(|pid| *pid > 0);
    let state = || format!("container {container} has no process; its state is {}", answer.status.state);
    Ok(u32::try_from(pid.with_context(state)?)?)
}

/// Waits until the container's program runs, then reads what it has been given.
pub fn container(cri: &Cri, container: &str, limit: Duration) -> Result<Seen> {
    let pid = pid(cri, container)?;
    // Between start and exec the process is still runc's own.
    wait::until(limit, "the container's program runs", || Ok(proc(pid, "cmdline")?.starts_with(PROGRAM)))?;
    process(pid, limit)
}

/// What a container's process that runs its program has, once that is what its cgroup allows: one of the shared pool may be
/// on its way to other CPUs between the two looks.
pub fn process(pid: u32, limit: Duration) -> Result<Seen> {
    let mut seen = None;
    wait::until(limit, "the process has what its cgroup allows", || {
        seen = Some(look(pid)?);
        Ok(true)
    })?;
    seen.context("looked at")
}

fn look(pid: u32) -> Result<Seen> {
    let status = proc(pid, "status")?;
    let cgroup = cgroup_path(pid)?;
    let seen = Seen {
        pid,
        cpus: list::parse(field(&status, "Cpus_allowed_list")?)?,
        mems: list::parse(field(&status, "Mems_allowed_list")?)?,
        env: environment(pid)?,
        cpu_max: cgroup::cpu_max(&cgroup)?,
        mounts: mounts(pid)?,
        cgroup,
    };
    let (cpus, mems) = cgroup::effective_cpuset(&seen.cgroup)?;
    ensure!(
        (&cpus, &mems) == (&seen.cpus, &seen.mems),
        "cgroup {} allows CPUs {} and nodes {}, its process {pid} CPUs {} and nodes {}",
        seen.cgroup,
        list::show(&cpus),
        list::show(&mems),
        list::show(&seen.cpus),
        list::show(&seen.mems),
    );
    Ok(seen)
}

/// A process's end by SIGKILL, as the kernel's out-of-memory killer brings it about.
pub fn kill(pid: u32) -> Result<()> {
    let target = nix::unistd::Pid::from_raw(i32::try_from(pid)?);
    nix::sys::signal::kill(target, nix::sys::signal::Signal::SIGKILL)
        .with_context(|| format!("killing {pid}"))
}

/// The capability sets of every thread of a process, as `CapEff 0000000000000000`, each but once.
pub fn capabilities(pid: u32) -> Result<BTreeSet<String>> {
    let tasks = format!("/proc/{pid}/task");
    let mut sets = BTreeSet::new();
    for task in fs::read_dir(&tasks).with_context(|| format!("reading {tasks}"))? {
        let status = fs::read_to_string(task?.path().join("status"))?;
        for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            sets.insert(format!("{name} {}", field(&status, name)?));
        }
    }
    Ok(sets)
}

fn environment(pid: u32) -> Result<HashMap<String, String>> {
    let text = proc(pid, "environ")?;
    let pairs = text.split('\0').filter_map(|entry| entry.split_once('='));
    Ok(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

/// The fifth field of each line of mountinfo.
fn mounts(pid: u32) -> Result<BTreeSet<String>> {
    let text = proc(pid, "mountinfo")?;
    Ok(text.lines().filter_map(|line| line.split(' ').nth(4)).map(str::to_owned).collect())
}

/// The cpuset hierarchy's path on v1, the only path on v2.
fn cgroup_path(pid: u32) -> Result<String> {
    let text = proc(pid, "cgroup")?;
    let path = text.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let wanted = if cgroup::is_v2() {
            controllers.is_empty()
        } else {
            controllers.split(',').any(|c| c == "cpuset")
        };
        wanted.then(|| path.to_owned())
    });
    path.with_context(|| format!("no cpuset cgroup in {text:?}"))
}

/// The memory policy of a process's mappings with at least so many pages of their own, by numa_maps.
pub fn policies(pid: u32, pages: u64) -> Result<BTreeSet<String>> {
    let count = |line: &str| {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix("anon="));
        word.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0)
    };
    let maps = proc(pid, "numa_maps")?;
    let large = maps.lines().filter(|line| count(line) >= pages);
    Ok(large.filter_map(|line| line.split_whitespace().nth(1)).map(str::to_owned).collect())
}

/// Pages a process holds on each node, in mappings whose numa_maps line has `word`.
pub fn pages_by_node(pid: u32, word: &str) -> Result<BTreeMap<u32, u64>> {
    let mut pages = BTreeMap::new();
    for line in proc(pid, "numa_maps")?.lines().filter(|line| line.contains(word)) {
        for (node, count) in
            line.split_whitespace().filter_map(|entry| entry.strip_prefix('N')?.split_once('='))
        {
            if let (Ok(node), Ok(count)) = (node.parse::<u32>(), count.parse::<u64>()) {
                *pages.entry(node).or_default() += count;
            }
        }
    }
    Ok(pages)
}
