//! Reserved CPUs against those that are online, isolated, and whole cores.

use super::facts::Facts;
use super::finding::Finding;
use super::{Check, kernel};
use crate::cli::output::count;
use crate::discover::{Place, Said};
use crate::model::{CpuSet, Quantity};

pub(super) const CHECKS: &[Check] = &[
    reserved_missing,
    reserved_offline,
    isolated,
    isolated_pool,
    half_cores,
    amounts,
    reserved_cgroups,
    agreement,
];

/// The kubelet's keys for what it reserves by amount.
const AMOUNTS: [&str; 2] = ["systemReserved", "kubeReserved"];

/// The reserved CPUs of whoever hands CPUs out, with their place.
fn reserved(facts: &Facts) -> Option<Said<CpuSet>> {
    if facts.kubelet_decides() {
        let said = facts.kubelet_reserved()?;
        return Some(Said { value: said.value.ok()?, place: said.place });
    }
    let config = facts.config.as_ref().ok()?;
    if let Some(value) = config.cpu.reserved.clone() {
        return Some(Said { value, place: facts.config_file.clone() });
    }
    // As the engine has it: the first core with its siblings.
    let first = facts.machine.as_ref().ok()?.topology.cores.first()?;
    Some(Said { value: first.cpus.clone(), place: Place::words("maitred's default, the first core") })
}

/// Thousandths of CPUs in an amount such as `systemReserved`'s.
fn cpu_of(facts: &Facts, key: &str) -> Option<Said<u64>> {
    let said = facts.kubelet.map(key)?;
    let milli = said.value.get("cpu")?.parse::<Quantity>().ok()?.milli();
    Some(Said { value: milli, place: said.place })
}

fn reserved_missing(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "cpus.reserved";
    if let Some(Said { value: Err(error), place }) = facts.kubelet_reserved() {
        let title = "the kubelet's reserved CPUs are no list of CPUs: it does not start";
        let fix = facts.tell_kubelet("reserved-cpus=0-1", "reservedSystemCPUs: 0-1");
        return vec![Finding::error(CHECK, title).seen(&place, error).fix(fix)];
    }
    match &facts.config {
        Ok(config) if !facts.kubelet_decides() && config.cpu.reserved.is_none() => {
            let title = "no CPUs are reserved by name: maitred keeps the first core for the system";
            let file = &facts.config_file.file;
            let fix =
                format!("in {file}, under [cpu]: reserved = \"0-1\", or whichever the system is to have");
            return vec![Finding::note(CHECK, title).seen(&facts.config_file, "no cpu.reserved").fix(fix)];
        }
        _ => {}
    }
    if let Some(Said { value, place }) = reserved(facts) {
        return vec![Finding::ok(CHECK, format!("the CPUs {value} are reserved ({place})"))];
    }
    if !facts.kubelet_decides() || !facts.sees_settings() {
        return Vec::new();
    }
    if AMOUNTS.iter().any(|key| cpu_of(facts, key).is_some_and(|cpu| cpu.value > 0)) {
        return vec![Finding::ok(CHECK, "CPUs are reserved by number")];
    }
    let title = "the kubelet's policy is static and no CPU is reserved: it does not start";
    let policy = facts.cpu_policy();
    let fix = facts.tell_kubelet("reserved-cpus=0-1", "reservedSystemCPUs: 0-1");
    vec![Finding::error(CHECK, title).seen(&policy.place, policy.value).fix(fix)]
}

fn reserved_offline(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "cpus.reserved-offline";
    let (Some(reserved), Ok(machine)) = (reserved(facts), &facts.machine) else { return Vec::new() };
    let offline = reserved.value.difference(&machine.topology.cpus);
    if offline.is_empty() {
        return vec![Finding::ok(CHECK, "the reserved CPUs are online")];
    }
    let finding = match facts.kubelet_decides() {
        true => Finding::error(
            CHECK,
            format!("the reserved CPUs {offline} are offline: the kubelet does not start"),
        ),
        false => Finding::warning(
            CHECK,
            format!("the reserved CPUs {offline} are offline: the system has fewer than meant"),
        ),
    };
    let finding = finding
        .seen(&reserved.place, format!("reserved CPUs {}", reserved.value))
        .seen_in("sys/devices/system/cpu/online", machine.topology.cpus.to_string());
    vec![finding.fix(
        "reserve CPUs that are online, or: for each of them, echo 1 > /sys/devices/system/cpu/cpuN/online",
    )]
}

/// Isolated CPUs and the CPUs of pods should be the same.
fn isolated(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "cpus.isolated";
    let Ok(machine) = &facts.machine else { return Vec::new() };
    let isolated = &machine.topology.isolated;
    let Some(reserved) = reserved(facts).filter(|_| !isolated.is_empty()) else { return Vec::new() };
    let both = reserved.value.intersection(isolated);
    let neither = machine.topology.cpus.difference(&reserved.value).difference(isolated);
    let title = match (both.is_empty(), neither.is_empty()) {
        (true, true) => return vec![Finding::ok(CHECK, "isolcpus leaves out just the reserved CPUs")],
        (false, true) => format!("the CPUs {both} are reserved for the system and isolated from it at once"),
        (true, false) => {
            format!("the CPUs {neither} are given to pods and not isolated: the system runs there too")
        }
        (false, false) => format!(
            "isolcpus and the reserved CPUs do not go together: {both} are both, and {neither} are given to pods without \
             being isolated"
        ),
    };
    let finding = Finding::warning(CHECK, title)
        .seen_in("sys/devices/system/cpu/isolated", isolated.to_string())
        .seen(&reserved.place, format!("reserved CPUs {}", reserved.value));
    let pods = machine.topology.cpus.difference(&reserved.value);
    let finding = match facts.kernel.parameter("isolcpus") {
        Some(told) => finding.seen(&kernel::command_line(), format!("isolcpus={told}")),
        None => finding,
    };
    vec![finding.fix(format!(
        "in the kernel's parameters: isolcpus={pods}, and boot; or reserve the CPUs {}",
        machine.topology.cpus.difference(isolated)
    ))]
}

/// The scheduler never moves a thread off an isolated CPU to balance load.
fn isolated_pool(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "cpus.isolated-pool";
    let Ok(machine) = &facts.machine else { return Vec::new() };
    if machine.topology.isolated.is_empty() {
        return Vec::new();
    }
    let title = "containers without exclusive CPUs share isolated ones, between which the kernel balances no load: their \
                 threads stay on whichever CPU they started";
    let finding = Finding::note(CHECK, title)
        .seen_in("sys/devices/system/cpu/isolated", machine.topology.isolated.to_string());
    vec![finding.fix("leave out isolcpus where pods without exclusive CPUs run too: exclusive CPUs are kept clear of other pods without it")]
}

fn half_cores(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "cpus.half-cores";
    let (Some(reserved), Ok(machine)) = (reserved(facts), &facts.machine) else { return Vec::new() };
    let cores = machine.topology.cores.iter();
    let halves =
        cores.filter(|core| !core.cpus.is_disjoint(&reserved.value) && !core.cpus.is_subset(&reserved.value));
    let left = halves.fold(CpuSet::new(), |left, core| left.union(&core.cpus.difference(&reserved.value)));
    if left.is_empty() {
        return vec![Finding::ok(CHECK, "whole cores are reserved")];
    }
    let title =
        format!("the CPUs {left} share a core with reserved ones: whoever gets them runs beside the system");
    let whole = reserved.value.union(&left);
    let finding =
        Finding::warning(CHECK, title).seen(&reserved.place, format!("reserved CPUs {}", reserved.value));
    let fix = match facts.kubelet_decides() {
        true => {
            facts.tell_kubelet(&format!("reserved-cpus={whole}"), &format!("reservedSystemCPUs: {whole}"))
        }
        false => format!("in {}, under [cpu]: reserved = \"{whole}\"", facts.config_file.file),
    };
    vec![finding.fix(fix)]
}

/// With CPUs reserved by name the numbers count for nothing.
fn amounts(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "cpus.reserved-amounts";
    let Some(Said { value: Ok(named), place }) = facts.kubelet_reserved() else { return Vec::new() };
    let told: Vec<_> = AMOUNTS.iter().filter_map(|key| cpu_of(facts, key)).collect();
    let milli: u64 = told.iter().map(|said| said.value).sum();
    if milli <= named.len() as u64 * 1000 {
        return vec![Finding::ok(CHECK, "the reserved amounts of CPU are within the reserved CPUs")];
    }
    let title = format!(
        "{milli}m of CPU are reserved for the system by amount, and {} by name: the names count, the amounts are ignored",
        count(named.len(), "CPU")
    );
    let finding = told.iter().fold(Finding::warning(CHECK, title), |finding, said| {
        finding.seen(&said.place, format!("cpu {}m", said.value))
    });
    let finding = finding.seen(&place, format!("reserved CPUs {named}"));
    vec![finding.fix("reserve as many CPUs by name as the system needs, and leave cpu out of system-reserved and kube-reserved")]
}

fn reserved_cgroups(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "cpus.reserved-cgroups";
    let Some(reserved) = facts.kubelet.word("reservedSystemCPUs") else { return Vec::new() };
    let cgroups = ["systemReservedCgroup", "kubeReservedCgroup"];
    let Some(cgroup) = cgroups.iter().find_map(|key| facts.kubelet.word(key)) else {
        return vec![Finding::ok(CHECK, "CPUs are reserved by name and by no cgroup")];
    };
    let title =
        "the kubelet takes reserved CPUs by name or a cgroup of the system's, not both: it does not start";
    let finding =
        Finding::error(CHECK, title).seen(&reserved.place, reserved.value).seen(&cgroup.place, cgroup.value);
    vec![finding.fix(format!(
        "take out system-reserved-cgroup and kube-reserved-cgroup, then: systemctl restart {}",
        facts.unit
    ))]
}

/// maitred and the kubelet each have a list; where the kubelet decides only its own counts.
fn agreement(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "cpus.reserved-agreement";
    let Some(own) = reserved(facts).filter(|_| !facts.kubelet_decides()) else { return Vec::new() };
    let Some(Said { value: Ok(kubelets), place }) = facts.kubelet_reserved() else { return Vec::new() };
    if own.value == kubelets {
        return vec![Finding::ok(CHECK, "maitred and the kubelet reserve the same CPUs")];
    }
    let title = "maitred and the kubelet reserve different CPUs: maitred's count, and the scheduler goes by the kubelet's";
    let finding = Finding::warning(CHECK, title)
        .seen(&own.place, format!("reserved CPUs {}", own.value))
        .seen(&place, format!("reserved CPUs {kubelets}"));
    vec![finding.fix(format!("in {}, under [cpu]: reserved = \"{kubelets}\"", facts.config_file.file))]
}
