//! containerd: its configuration, and what its version cannot do.

use super::Check;
use super::facts::Facts;
use super::finding::{Finding, Severity};
use crate::decision::{Delivery, GpuPlacement, Mode};
use crate::discover::containerd::{CRI, Value};
use crate::discover::kubelet::Kind;
use crate::discover::{Place, Said};

pub(super) const CHECKS: &[Check] =
    &[files, version, features, delivery, gpu_placement, native_runc, wrapper, hugetlb, cgroup_driver];

fn files(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "containerd.files";
    let broken = facts.containerd.unread.iter().map(|error| {
        let title = "containerd's configuration cannot be read: it does not start with it";
        Finding::error(CHECK, title)
            .seen(&Place::words("reading it"), error.to_string())
            .fix("correct the file, or take it out of imports; containerd config dump shows what containerd makes of it")
    });
    let mut findings: Vec<_> = broken.collect();
    if findings.is_empty() {
        let main = &facts.containerd.main;
        findings.push(match facts.containerd.is_there {
            true => Finding::ok(
                CHECK,
                format!(
                    "containerd's configuration can be read (/{main}, version {})",
                    facts.containerd.version
                ),
            ),
            false => Finding::note(CHECK, format!("there is no /{main}: containerd runs with its defaults")),
        });
    }
    findings
}

fn version(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "containerd.version";
    match &facts.runtime.containerd {
        Ok(said) => vec![
            Finding::ok(CHECK, said.value.to_string()).seen(&said.place, said.value.runtime_version.as_str()),
        ],
        Err(why) => {
            let fix = "on the node: containerd --version; what falls away with it is not told here";
            vec![Finding::not_checked(CHECK, format!("containerd's version: {why}")).fix(fix)]
        }
    }
}

/// A feature that an older runtime drops without a word.
struct Feature {
    first: (u32, u32),
    lost: &'static str,
}

const FEATURES: [Feature; 3] = [
    Feature {
        first: (2, 1),
        lost: "CDI devices that NRI adds are dropped silently (from 1.7.30 and 2.1 on they are not)",
    },
    Feature {
        first: (2, 2),
        lost: "no launcher can be put in front of a container's command, no device can be taken away, and no plugin can be \
               required",
    },
    Feature { first: (2, 3), lost: "no memory policy can be handed to the runtime" },
];

fn features(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "containerd.features";
    let Ok(said) = &facts.runtime.containerd else { return Vec::new() };
    let is_newer = |(major, minor)| facts.containerd_is(major, minor).unwrap_or(false);
    let lost = FEATURES.iter().filter(|feature| !is_newer(feature.first));
    let lost = lost.filter(|feature| feature.first != (2, 1) || !said.value.features().add_cdi);
    let findings: Vec<_> = lost
        .map(|Feature { first: (major, minor), lost }| {
            let title = format!("before containerd {major}.{minor} {lost}");
            Finding::note(CHECK, title)
                .seen(&said.place, said.value.to_string())
                .fix(upgrade(facts, *major, *minor))
        })
        .collect();
    match findings.is_empty() {
        true => vec![Finding::ok(CHECK, format!("{} has all that maitred can use", said.value))],
        false => findings,
    }
}

/// How to come by that containerd.
fn upgrade(facts: &Facts, major: u32, minor: u32) -> String {
    let rke2 = match (major, minor) {
        (2, 1) => "1.31.13, 1.32.9, 1.33.5, 1.34.1",
        (2, 2) => "1.33.10, 1.34.6, 1.35.3, 1.36.0",
        _ => "1.36.2",
    };
    match facts.distribution.as_ref().map(|found| found.kind) {
        Some(Kind::Rke2) => format!("RKE2 {rke2} or later brings containerd {major}.{minor} or later"),
        Some(Kind::K3s) => format!("a k3s that brings containerd {major}.{minor} or later"),
        None => format!("containerd {major}.{minor} or later"),
    }
}

/// A memory policy that is to come by a way this runtime does not have: every container with one is rejected.
fn delivery(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "containerd.delivery";
    let Ok(config) = &facts.config else { return Vec::new() };
    let Some(way) = config.memory.delivery.filter(|_| config.memory.mode.is_some()) else {
        return vec![Finding::ok(CHECK, "the memory policy comes in whichever way works")];
    };
    let (word, has) = match way {
        Delivery::Native => ("native", facts.containerd_is(2, 3)),
        Delivery::Launcher => ("launcher", facts.containerd_is(2, 2)),
        Delivery::Inherited => ("inherited", Some(false)),
        Delivery::Cpuset => return vec![Finding::ok(CHECK, "cpuset.mems alone limits memory")],
    };
    match has {
        _ if wrapped(facts).is_some() => {
            vec![Finding::ok(CHECK, format!("the runtime wrapper delivers memory policies as {word}"))]
        }
        Some(true) => vec![Finding::ok(CHECK, format!("memory policies can be delivered as {word}"))],
        None => vec![Finding::not_checked(
            CHECK,
            format!("delivery = {word:?}: containerd's version is not known"),
        )],
        Some(false) => {
            let title = format!(
                "the memory policy cannot come as {word} here: every container that has one is rejected"
            );
            let finding =
                Finding::error(CHECK, title).seen(&facts.config_file, format!("delivery = {word:?}"));
            let finding = match (&facts.runtime.containerd, way) {
                (_, Delivery::Inherited) => {
                    finding.seen_in(&facts.containerd.main, "no runtime with a BinaryName of maitred-runtime")
                }
                (Ok(said), _) => finding.seen(&said.place, said.value.to_string()),
                (Err(_), _) => finding,
            };
            vec![finding.fix(format!("in {}, under [memory]: delivery = \"auto\"", facts.config_file.file))]
        }
    }
}

/// maitred's wrapper: the handler of containerd's that is started through it, and its binary.
fn wrapped(facts: &Facts) -> Option<(&str, Said<String>)> {
    facts.containerd.runtimes().find_map(|(handler, key, said)| match &said.value {
        Value::Text(text) if key == "BinaryName" && text.contains("maitred") => {
            Some((handler, Said { value: text.clone(), place: said.place.clone() }))
        }
        _ => None,
    })
}

/// What keeps the daemon from pinning is less of an error where the wrapper does it: for one runtime, or for all.
pub(super) fn beside_wrapper(facts: &Facts, finding: Finding) -> Finding {
    let Some((handler, said)) = wrapped(facts).filter(|_| finding.severity == Severity::Error) else {
        return finding;
    };
    let default = facts.containerd.text(CRI, &["containerd", "default_runtime_name"]);
    let is_default = default.map_or_else(|| "runc".to_owned(), |said| said.value) == handler;
    let severity = if is_default { Severity::Note } else { Severity::Warning };
    let told = format!("the runtime {handler} goes through maitred's wrapper, which pins without it");
    Finding { severity, ..finding.seen(&said.place, told) }
}

/// A runtime whose binary is gone starts no container.
fn wrapper(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "containerd.wrapper";
    let Some((_, said)) = wrapped(facts) else { return Vec::new() };
    let inside = said.value.trim_start_matches('/');
    let found = facts.root.place(inside).ok().flatten().and_then(|path| path.metadata().ok());
    let top = inside.split('/').next().unwrap_or_default();
    if found.is_some() {
        return vec![
            Finding::ok(CHECK, "the runtime wrapper is where containerd looks for it")
                .seen(&said.place, said.value),
        ];
    }
    if !matches!(facts.root.names(top), Ok(Some(_))) {
        return vec![Finding::not_checked(
            CHECK,
            format!("the runtime wrapper {}: there is no {top}", said.value),
        )];
    }
    let title = "containerd starts a runtime through maitred's wrapper, which is not there: no container of that runtime starts";
    let fix = format!("ln -s /usr/bin/maitred {}; or take that BinaryName away", said.value);
    vec![Finding::error(CHECK, title).seen(&said.place, format!("BinaryName = {:?}", said.value)).fix(fix)]
}

fn gpu_placement(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "containerd.gpu-placement";
    let Ok(config) = &facts.config else { return Vec::new() };
    if config.gpu.placement == GpuPlacement::Keep || config.mode == Mode::Audit {
        return vec![Finding::ok(CHECK, "nothing is asked of the runtime that it cannot do to GPUs")];
    }
    let (Ok(said), place) = (&facts.runtime.containerd, &facts.config_file) else {
        return vec![Finding::not_checked(CHECK, "gpu.placement: containerd's version is not known")];
    };
    let features = said.value.features();
    let finding = if !(features.remove_devices && features.add_cdi) {
        let title = "gpu.placement takes GPUs away from containers, which this runtime cannot: maitred refuses to register";
        Finding::error(CHECK, title).seen(&said.place, said.value.to_string())
    } else if facts.kubelet_decides() {
        let title =
            "gpu.placement cannot be had while the kubelet gives out the CPUs: maitred refuses to register";
        let policy = facts.cpu_policy();
        Finding::error(CHECK, title).seen(&policy.place, policy.value)
    } else {
        return vec![Finding::ok(CHECK, "GPUs can be swapped")];
    };
    let word = if config.gpu.placement == GpuPlacement::Repair { "repair" } else { "choose" };
    let finding = finding.seen(place, format!("placement = {word:?}"));
    vec![finding.fix(format!("in {}, under [gpu]: placement = \"keep\"", place.file))]
}

/// A runc without memory policies ignores what containerd hands it.
fn native_runc(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "containerd.runc";
    let wanted = facts.config.as_ref().is_ok_and(|config| {
        config.memory.mode.is_some() && matches!(config.memory.delivery, None | Some(Delivery::Native))
    });
    if facts.containerd_is(2, 3) != Some(true) || !wanted {
        return Vec::new();
    }
    match &facts.runtime.runc {
        Ok(Said { value, place }) if value.sets_policies() => {
            vec![Finding::ok(CHECK, "runc sets memory policies").seen(place, "linux.memoryPolicy")]
        }
        Ok(Said { place, .. }) => {
            let title = "runc does not know memory policies and ignores them silently: pages are bound by cpuset.mems alone";
            let fix = format!(
                "runc 1.4.0 or later; or in {}, under [memory]: delivery = \"launcher\"",
                facts.config_file.file
            );
            vec![Finding::warning(CHECK, title).seen(place, "no linux.memoryPolicy").fix(fix)]
        }
        Err(why) => vec![Finding::not_checked(CHECK, format!("whether runc sets memory policies: {why}"))],
    }
}

fn hugetlb(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "containerd.hugetlb";
    let said = facts.containerd.truth(CRI, &["disable_hugetlb_controller"]);
    if said.as_ref().is_some_and(|said| !said.value) {
        return vec![Finding::ok(CHECK, "limits of huge pages reach the container")];
    }
    let some = facts.machine.iter().flat_map(|machine| &machine.topology.numa_nodes);
    if !some.flat_map(|node| node.hugepages.values()).any(|pool| pool.total > 0) {
        return Vec::new();
    }
    let title = "containerd hides limits of huge pages from maitred and from the container's cgroup: the pod's cgroup is \
                 asked instead, and several containers of a pod need annotations to be told apart";
    let finding = match said {
        Some(said) => Finding::note(CHECK, title).seen(&said.place, "disable_hugetlb_controller = true"),
        None => Finding::note(CHECK, title)
            .seen(&Place::words("containerd's default"), "disable_hugetlb_controller = true"),
    };
    let lines = format!("  {}\n    disable_hugetlb_controller = false", facts.cri_table());
    vec![finding.fix(facts.tell_containerd(&lines))]
}

fn cgroup_driver(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "containerd.cgroup-driver";
    let Some(kubelet) = facts.kubelet.word("cgroupDriver") else { return Vec::new() };
    let runc = facts.containerd.runtimes().find_map(|(handler, key, said)| match said.value {
        Value::Truth(systemd) if handler == "runc" && key == "SystemdCgroup" => Some((systemd, &said.place)),
        _ => None,
    });
    let default = Place::words("containerd's default");
    let (systemd, place) = runc.unwrap_or((false, &default));
    let name = if systemd { "systemd" } else { "cgroupfs" };
    if kubelet.value == name {
        return vec![Finding::ok(CHECK, format!("both use {name} for cgroups"))];
    }
    let title = format!(
        "the kubelet makes cgroups by {} and containerd by {name}: pods get cgroups that nobody looks into",
        kubelet.value
    );
    let finding = Finding::error(CHECK, title)
        .seen(&kubelet.place, format!("cgroupDriver {}", kubelet.value))
        .seen(place, format!("SystemdCgroup = {systemd}"));
    let table = facts.cri_table().trim_end_matches(']').to_owned();
    let lines = format!("  {table}.containerd.runtimes.runc.options]\n    SystemdCgroup = {}", !systemd);
    vec![finding.fix(facts.tell_containerd(&lines))]
}
