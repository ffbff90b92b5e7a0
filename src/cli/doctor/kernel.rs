//! The kernel's part: swap, NUMA balancing, quotas, cgroups, and what keeps programs from running.

use super::Check;
use super::daemon::Daemon;
use super::facts::{Facts, Known};
use super::finding::Finding;
use crate::decision::Delivery;
use crate::discover::{Place, Root};

pub(super) const CHECKS: &[Check] =
    &[swap, numa_balancing, quota, seccomp, cgroups, pods_cpus, selinux, fapolicyd];

const SWAPS: &str = "proc/swaps";
const BALANCING: &str = "proc/sys/kernel/numa_balancing";
const ENFORCE: &str = "sys/fs/selinux/enforce";
/// A page or so for each CPU.
const CPU_INFO: u64 = 64 << 20;
const AUDIT: &str = "var/log/audit/audit.log";
const CONTROLLERS: &str = "sys/fs/cgroup/cgroup.controllers";
const COMMAND_LINE: &str = "proc/cmdline";
const FAPOLICYD: &str = "etc/fapolicyd";

/// What the kernel tells of itself; what was not gathered is `None`.
#[derive(Debug)]
pub struct Kernel {
    /// Its parameters.
    pub command_line: Option<String>,
    /// `6.12.0-…`.
    pub release: Option<String>,
    /// Files and devices that are swapped to.
    pub swaps: Known<Vec<String>>,
    /// `kernel.numa_balancing`.
    pub balancing: Known<String>,
    /// Whether it runs on a hypervisor.
    pub is_guest: bool,
}

impl Kernel {
    /// Reads it.
    pub fn read(root: &Root) -> Self {
        let read = |path: &str| root.read(path).ok().flatten();
        let needed = |path: &str| match root.read(path) {
            Ok(Some(text)) => Ok(text),
            Ok(None) => Err(format!("there is no {path}")),
            Err(error) => Err(error.to_string()),
        };
        let swaps = needed(SWAPS).map(|text| text.lines().skip(1).map(str::to_owned).collect());
        let hypervised =
            |text: String| text.lines().any(|line| line.starts_with("flags") && line.contains(" hypervisor"));
        Self {
            command_line: read(COMMAND_LINE),
            release: read("proc/sys/kernel/osrelease"),
            swaps,
            balancing: needed(BALANCING),
            is_guest: root.text_up_to("proc/cpuinfo", CPU_INFO).ok().flatten().is_some_and(hypervised),
        }
    }

    /// The value of the last parameter of that name.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let words = self.command_line.as_deref()?.split_whitespace();
        words.rev().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// Whether its version is at least that; `None` where it is not known.
    pub fn is_at_least(&self, major: u32, minor: u32) -> Option<bool> {
        let release = crate::nri::Version::parse(self.release.as_deref()?)?;
        Some((release.major, release.minor) >= (major, minor))
    }
}

/// Where the kernel's parameters stand, for evidence.
pub(super) fn command_line() -> Place {
    Place::file(COMMAND_LINE)
}

fn swap(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kernel.swap";
    let swaps = match &facts.kernel.swaps {
        Err(why) => return vec![Finding::not_checked(CHECK, format!("swap: {why}"))],
        Ok(swaps) if swaps.is_empty() => return vec![Finding::ok(CHECK, "nothing is swapped")],
        Ok(swaps) => swaps,
    };
    let title = "memory can be swapped out: a pinned container's pages then come back from a disk, and on no node in \
                 particular";
    let seen = swaps.iter().fold(Finding::warning(CHECK, title), |finding, swap| {
        finding.seen_in(SWAPS, swap.split_whitespace().collect::<Vec<_>>().join(" "))
    });
    let stops = facts.has_kubelet() && facts.distribution.is_none();
    let stops = stops && facts.kubelet.truth("failSwapOn").is_none_or(|said| said.value);
    let more =
        if stops { "; the kubelet does not start with swap either, unless failSwapOn is false" } else { "" };
    vec![seen.fix(format!("swapoff -a, and take the swap lines out of /etc/fstab{more}"))]
}

fn numa_balancing(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kernel.numa-balancing";
    match facts.kernel.balancing.as_deref() {
        Err(why) => vec![Finding::not_checked(CHECK, format!("automatic NUMA balancing: {why}"))],
        Ok("0") => vec![Finding::ok(CHECK, "automatic NUMA balancing is off")],
        Ok(value) => {
            let title = "automatic NUMA balancing is on: it takes page faults from pinned containers, whose memory it \
                         cannot move anywhere better";
            let fix = "sysctl -w kernel.numa_balancing=0, and the line kernel.numa_balancing = 0 in \
                       /etc/sysctl.d/90-maitred.conf";
            vec![Finding::note(CHECK, title).seen_in(BALANCING, value).fix(fix)]
        }
    }
}

fn quota(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kernel.cfs-quota";
    let Ok(config) = &facts.config else { return Vec::new() };
    let limited = facts.kubelet.truth("cpuCFSQuota").is_none_or(|said| said.value);
    if config.cpu.drop_cfs_quota || !limited {
        return vec![Finding::ok(CHECK, "containers with exclusive CPUs have no CFS quota")];
    }
    let title = "containers with exclusive CPUs keep their CFS quota and are throttled by it now and then, although \
                 nobody else uses their CPUs";
    let finding = Finding::warning(CHECK, title).seen(&facts.config_file, "drop_cfs_quota = false");
    vec![finding.fix(format!("in {}, under [cpu]: drop_cfs_quota = true", facts.config_file.file))]
}

/// The default profile forbids `set_mempolicy` without CAP_SYS_NICE.
fn seccomp(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kernel.seccomp";
    let launched =
        facts.config.as_ref().is_ok_and(|config| config.memory.delivery == Some(Delivery::Launcher));
    let Some(default) = facts.kubelet.truth("seccompDefault").filter(|said| said.value && launched) else {
        return vec![Finding::ok(CHECK, "no default seccomp profile stands in a launcher's way")];
    };
    let title = "the launcher may not set a memory policy: every container has the default seccomp profile, which \
                 forbids set_mempolicy without CAP_SYS_NICE, and ends with status 121";
    let finding = Finding::error(CHECK, title)
        .seen(&default.place, "seccompDefault: true")
        .seen(&facts.config_file, "delivery = \"launcher\"");
    let fix = format!(
        "in {}, under [memory]: delivery = \"auto\"; or give the containers CAP_SYS_NICE",
        facts.config_file.file
    );
    vec![finding.fix(fix)]
}

fn cgroups(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kernel.cgroups";
    let has = |dir: &str| matches!(facts.root.names(dir), Ok(Some(_)));
    match facts.root.read(CONTROLLERS) {
        Err(error) => vec![Finding::not_checked(CHECK, error.to_string())],
        Ok(Some(text)) => {
            let missing = |name: &&str| !text.split_whitespace().any(|word| word == *name);
            if let Some(name) = ["cpuset"].iter().find(|name| missing(name)) {
                let title = format!("the kernel has no cgroup controller {name}: nothing can be pinned");
                let fix = format!("take {name} out of cgroup_disable= in the kernel's parameters and boot");
                return vec![Finding::error(CHECK, title).seen_in(CONTROLLERS, text.as_str()).fix(fix)];
            }
            if missing(&"hugetlb") {
                let title = "there is no cgroup controller hugetlb: huge pages are promised and not limited";
                return vec![Finding::note(CHECK, title).seen_in(CONTROLLERS, text.as_str())];
            }
            vec![Finding::ok(CHECK, "cgroup v2 with cpuset and hugetlb")]
        }
        Ok(None) if has("sys/fs/cgroup/cpuset") => vec![Finding::ok(CHECK, "cgroup v1 with cpuset")],
        Ok(None) if has("sys/fs/cgroup") => {
            let title = "no cgroup controller cpuset is mounted: nothing can be pinned";
            vec![
                Finding::error(CHECK, title)
                    .seen_in("sys/fs/cgroup", "neither cgroup.controllers nor cpuset/"),
            ]
        }
        Ok(None) => vec![Finding::not_checked(CHECK, "cgroups: there is no sys/fs/cgroup")],
    }
}

fn pods_cpus(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kernel.pods-cpus";
    let Ok(machine) = &facts.machine else { return Vec::new() };
    let Some(pods) = &machine.topology.pods_cpus else { return Vec::new() };
    let missing = machine.topology.cpus.difference(pods);
    if missing.is_empty() {
        return vec![Finding::ok(CHECK, "the cgroup of all pods has every CPU")];
    }
    let title = format!("the cgroup of all pods lacks the CPUs {missing}: pods never get them");
    let fix = "look for AllowedCPUs= on kubepods.slice (systemctl cat kubepods.slice) and for a cpuset manager such as \
               tuned; without a reason for it, take it away and restart the kubelet";
    vec![
        Finding::warning(CHECK, title)
            .seen(&Place::words("the cpuset of kubepods"), pods.to_string())
            .fix(fix),
    ]
}

fn selinux(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kernel.selinux";
    match facts.root.read(ENFORCE) {
        Ok(Some(enforce)) if enforce == "1" => {}
        Ok(None) if !matches!(facts.root.names("sys"), Ok(Some(_))) => {
            return vec![Finding::not_checked(CHECK, "SELinux: there is no sys")];
        }
        Ok(_) => return vec![Finding::ok(CHECK, "SELinux does not enforce anything")],
        Err(error) => return vec![Finding::not_checked(CHECK, error.to_string())],
    }
    let log = match facts.root.last_lines(AUDIT) {
        Ok(Some(log)) => log,
        Ok(None) => {
            return vec![Finding::not_checked(
                CHECK,
                "SELinux enforces, and there is no var/log/audit/audit.log",
            )];
        }
        Err(error) => return vec![Finding::not_checked(CHECK, error.to_string())],
    };
    let denied = |line: &&str| line.contains("avc:") && line.contains("denied") && line.contains("maitred");
    let Some(denial) = log.lines().rev().find(denied) else {
        return vec![Finding::ok(CHECK, "SELinux enforces and has denied maitred nothing")];
    };
    let title = "SELinux denies maitred something it needs";
    let fix = "restorecon -Rv /usr/bin/maitred /opt/nri /run/maitred; where that changes nothing: ausearch -m avc -c \
               maitred | audit2allow -M maitred && semodule -i maitred.pp, after reading what it allows";
    vec![Finding::error(CHECK, title).seen_in(ENFORCE, "1").seen_in(AUDIT, denial).fix(fix)]
}

fn fapolicyd(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kernel.fapolicyd";
    let runs = |name: &str| facts.processes.iter().flatten().any(|process| process.name == name);
    if !matches!(facts.root.names(FAPOLICYD), Ok(Some(_)))
        || (facts.processes.is_some() && !runs("fapolicyd"))
    {
        return vec![Finding::ok(CHECK, "no fapolicyd decides what may run")];
    }
    let below = |dir: &str| {
        let names = facts.root.names(&format!("{FAPOLICYD}/{dir}")).ok().flatten().unwrap_or_default();
        names.into_iter().map(|name| format!("{FAPOLICYD}/{dir}/{name}")).collect::<Vec<_>>()
    };
    let single =
        ["fapolicyd.trust", "fapolicyd.rules", "compiled.rules"].map(|name| format!("{FAPOLICYD}/{name}"));
    let files = below("trust.d").into_iter().chain(below("rules.d")).chain(single);
    let mut texts = files.filter_map(|file| facts.root.read(&file).ok().flatten());
    if texts.any(|text| text.contains("maitred")) {
        return vec![Finding::ok(CHECK, "fapolicyd knows maitred")];
    }
    let title = "fapolicyd runs and no rule or trust file of its own names maitred: a binary that no package brought, \
                 and the launcher in /run/maitred, may be kept from running";
    let finding = match facts.daemon {
        Daemon::Alive { .. } => Finding::note(CHECK, title),
        _ => Finding::warning(CHECK, title),
    };
    let fix = "fapolicyd-cli --file add /usr/bin/maitred --trust-file maitred && fapolicyd-cli --update";
    vec![finding.seen_in(FAPOLICYD, "no line with maitred").fix(fix)]
}
