//! The kubelet's managers: what they are told, and what an older state file holds against it.

use super::Check;
use super::facts::{Facts, Known};
use super::finding::Finding;
use crate::discover::kubelet::RUNNING;
use crate::discover::{KubeletCpuState, Place, Said};
use crate::model::{CpuOption, CpuOptions, CpuSet};

pub(super) const CHECKS: &[Check] = &[
    presence,
    files,
    cpu_policy,
    cpu_state,
    memory_state,
    state_cpus,
    state_reserved,
    cpu_options,
    topology_policy,
    topology_scope,
    many_nodes,
    restarted,
];

/// The kubelet enumerates all sets of nodes and refuses more than this (`maxAllowableNUMANodes`).
const MOST_NODES: usize = 8;

fn presence(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kubelet.found";
    match (facts.has_kubelet(), facts.sees_settings()) {
        (false, _) => vec![Finding::note(CHECK, "no kubelet is found: nothing of it is checked")],
        (true, false) => {
            let why = "the kubelet's settings: it does not run, and there is neither its configuration file nor RKE2's \
                       or k3s's";
            vec![Finding::not_checked(CHECK, why)]
        }
        (true, true) => vec![Finding::ok(CHECK, "what the kubelet is told can be read")],
    }
}

fn files(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kubelet.files";
    let broken = facts.kubelet.unread.iter().map(|error| {
        let title =
            "a file of the kubelet's configuration cannot be read: the kubelet does not start with it";
        let fix = "make it a KubeletConfiguration that the kubelet can read, or take it out of the directory";
        Finding::error(CHECK, title).seen(&Place::words("reading it"), error.to_string()).fix(fix)
    });
    broken.collect()
}

fn cpu_policy(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kubelet.cpu-manager-policy";
    if !facts.sees_settings() {
        return Vec::new();
    }
    let policy = facts.cpu_policy();
    match policy.value.as_str() {
        "static" | "none" => {
            vec![Finding::ok(CHECK, format!("the CPU manager's policy is {}", policy.value))]
        }
        other => {
            let title = format!("the kubelet knows no CPU manager policy {other:?} and does not start");
            let fix = facts.tell_kubelet("cpu-manager-policy=none", "cpuManagerPolicy: none");
            vec![Finding::error(CHECK, title).seen(&policy.place, other).fix(fix)]
        }
    }
}

/// A setting as the kubelet will have it when it starts again.
fn at_next_start(facts: &Facts, key: &str, default: &str) -> Said<String> {
    let told = facts.kubelet.next_word(key).or_else(|| facts.kubelet.word(key));
    told.unwrap_or_else(|| Said { value: default.to_owned(), place: Place::words("the kubelet's default") })
}

fn cpu_state(facts: &Facts) -> Vec<Finding> {
    let state = facts.cpu_state.clone().map(|state| state.map(|state| state.policy));
    let told = at_next_start(facts, "cpuManagerPolicy", "none");
    fossil(facts, "kubelet.cpu-state", "CPU", "cpu_manager_state", (state, told))
}

fn memory_state(facts: &Facts) -> Vec<Finding> {
    let state = facts.memory_state.clone();
    let told = at_next_start(facts, "memoryManagerPolicy", "None");
    fossil(facts, "kubelet.memory-state", "memory", "memory_manager_state", (state, told))
}

/// A state file of another policy than the one that is told.
fn fossil(
    facts: &Facts,
    check: &'static str,
    manager: &str,
    file: &str,
    (state, told): (Known<Option<String>>, Said<String>),
) -> Vec<Finding> {
    let path = format!("{}/{file}", facts.kubelet.state_dir());
    let start_anew = format!(
        "kubectl drain this node, then: systemctl stop {unit} && rm /{path} && systemctl start {unit}",
        unit = facts.unit
    );
    let state = match state {
        Ok(None) => return vec![Finding::ok(check, format!("the {manager} manager has no older state"))],
        Ok(Some(state)) => state,
        Err(error) => {
            let title =
                format!("the {manager} manager's state cannot be read: the kubelet does not start with it");
            let finding = Finding::error(check, title).seen(&Place::file(&path), error.as_str());
            return vec![finding.fix(start_anew)];
        }
    };
    if !facts.sees_settings() {
        return Vec::new();
    }
    if state.eq_ignore_ascii_case(&told.value) {
        return vec![Finding::ok(
            check,
            format!("the {manager} manager's state is of the policy that is told"),
        )];
    }
    let title = format!(
        "the {manager} manager's state is of the policy {state}, and the kubelet is told {}: it refuses to start, or \
         goes on without the change",
        told.value
    );
    let finding = Finding::error(check, title).seen(&Place::file(&path), format!("policyName {state}"));
    vec![finding.seen(&told.place, told.value).fix(start_anew)]
}

/// The state of the static policy, where there is one.
fn static_state(facts: &Facts) -> Option<&KubeletCpuState> {
    facts.cpu_state.as_ref().ok()?.as_ref().filter(|state| state.policy == "static")
}

fn is_strict(facts: &Facts) -> bool {
    let options = facts.kubelet.map("cpuManagerPolicyOptions").map(|said| said.value).unwrap_or_default();
    options.get("strict-cpu-reservation").is_some_and(|value| value == "true")
}

fn state_cpus(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kubelet.cpu-state-cpus";
    let (Some(state), Ok(machine)) = (static_state(facts), &facts.machine) else { return Vec::new() };
    let given = state.entries.values().flat_map(|containers| containers.values());
    let mut all = given.fold(state.default_cpus.clone(), |all, cpus| all.union(cpus));
    if let Some(Said { value: Ok(reserved), .. }) = facts.kubelet_reserved().filter(|_| is_strict(facts)) {
        all = all.union(&reserved);
    }
    let online = &machine.topology.cpus;
    if all == *online {
        return vec![Finding::ok(CHECK, "the CPU manager's state has the CPUs that are online")];
    }
    let path = format!("{}/cpu_manager_state", facts.kubelet.state_dir());
    let title = "the CPU manager's state has other CPUs than those that are online: the kubelet refuses to start \
                 (\"current set of available CPUs doesn't match with CPUs in state\")";
    let finding = Finding::error(CHECK, title)
        .seen(&Place::file(&path), format!("CPUs {all}"))
        .seen_in("sys/devices/system/cpu/online", online.to_string());
    let fix = format!(
        "bring the CPUs back, or kubectl drain this node, then: systemctl stop {unit} && rm /{path} && systemctl start {unit}",
        unit = facts.unit
    );
    vec![finding.fix(fix)]
}

fn state_reserved(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kubelet.cpu-state-reserved";
    let Some(state) = static_state(facts).filter(|_| !is_strict(facts)) else { return Vec::new() };
    let Some(Said { value: Ok(reserved), place }) = facts.kubelet_reserved() else { return Vec::new() };
    let missing: CpuSet = reserved.difference(&state.default_cpus);
    if missing.is_empty() {
        return vec![Finding::ok(CHECK, "the reserved CPUs are in the shared pool")];
    }
    let path = format!("{}/cpu_manager_state", facts.kubelet.state_dir());
    let title = format!(
        "the reserved CPUs {missing} are not in the CPU manager's shared pool: the kubelet refuses to start (\"not all \
         reserved cpus are present in defaultCpuSet\")"
    );
    let finding = Finding::error(CHECK, title).seen(&place, format!("reserved CPUs {reserved}"));
    let finding = finding.seen(&Place::file(&path), format!("defaultCpuSet {}", state.default_cpus));
    let fix = format!(
        "kubectl drain this node, then: systemctl stop {unit} && rm /{path} && systemctl start {unit}",
        unit = facts.unit
    );
    vec![finding.fix(fix)]
}

fn cpu_options(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kubelet.cpu-options";
    let Some(told) = facts.kubelet.map("cpuManagerPolicyOptions") else { return Vec::new() };
    let mut known = CpuOptions::default();
    let mut findings = Vec::new();
    for (name, _) in told.value.iter().filter(|(_, value)| *value == "true") {
        let option = CpuOption::ALL.iter().find(|(word, _)| word == name).map(|(_, option)| *option);
        let rival = option.and_then(|option| known.rival(option));
        known.0.extend(option);
        let title = match (option, rival) {
            (None, _) => format!("the CPU manager knows no option {name:?}"),
            (Some(_), Some(rival)) => {
                format!("the CPU manager's options {name} and {rival} exclude each other")
            }
            (Some(_), None) => continue,
        };
        let title = format!("{title}: the kubelet does not start");
        let fix = format!(
            "take one of them out of cpuManagerPolicyOptions (flag cpu-manager-policy-options), then: systemctl restart {}",
            facts.unit
        );
        findings.push(Finding::error(CHECK, title).seen(&told.place, format!("{name}=true")).fix(fix));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "the CPU manager's options go together"));
    }
    findings
}

fn topology_policy(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kubelet.topology-manager-policy";
    if !facts.sees_settings() || !facts.kubelet_is_static() {
        return Vec::new();
    }
    let told = facts.kubelet.word("topologyManagerPolicy");
    let told = told
        .unwrap_or_else(|| Said { value: "none".to_owned(), place: Place::words("the kubelet's default") });
    let fix = facts
        .tell_kubelet("topology-manager-policy=single-numa-node", "topologyManagerPolicy: single-numa-node");
    let finding = match told.value.as_str() {
        "none" => Finding::warning(
            CHECK,
            "the kubelet gives out CPUs and devices without asking whether they are on one node: maitred then rejects \
             what does not go together, where the kubelet could have chosen better",
        ),
        "best-effort" => Finding::note(
            CHECK,
            "the kubelet admits what cannot be aligned (best-effort): maitred rejects it when it is created",
        ),
        "restricted" | "single-numa-node" => {
            return vec![Finding::ok(CHECK, format!("the topology manager's policy is {}", told.value))];
        }
        other => Finding::error(
            CHECK,
            format!("the kubelet knows no topology manager policy {other:?} and does not start"),
        ),
    };
    vec![finding.seen(&told.place, told.value).fix(fix)]
}

fn topology_scope(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kubelet.topology-manager-scope";
    let policy = facts.kubelet.word("topologyManagerPolicy").filter(|policy| policy.value != "none");
    if !facts.kubelet_is_static() || policy.is_none() {
        return Vec::new();
    }
    let told = facts.kubelet.word("topologyManagerScope");
    let told = told.unwrap_or_else(|| Said {
        value: "container".to_owned(),
        place: Place::words("the kubelet's default"),
    });
    if told.value == "pod" {
        return vec![Finding::ok(CHECK, "a pod is aligned as one")];
    }
    let title = "every container is aligned by itself: a pod's containers can end up on different nodes";
    let fix = facts.tell_kubelet("topology-manager-scope=pod", "topologyManagerScope: pod");
    vec![Finding::note(CHECK, title).seen(&told.place, told.value).fix(fix)]
}

fn many_nodes(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kubelet.many-nodes";
    let Ok(machine) = &facts.machine else { return Vec::new() };
    let policy = facts.kubelet.word("topologyManagerPolicy").filter(|policy| policy.value != "none");
    let (Some(policy), nodes) = (policy, machine.topology.numa_nodes.len()) else { return Vec::new() };
    let options =
        facts.kubelet.map("topologyManagerPolicyOptions").map(|said| said.value).unwrap_or_default();
    let allowed =
        options.get("max-allowable-numa-nodes").and_then(|text| text.parse().ok()).unwrap_or(MOST_NODES);
    if nodes <= allowed {
        return vec![Finding::ok(CHECK, "the topology manager takes as many nodes as there are")];
    }
    let title = format!(
        "the machine has {nodes} NUMA nodes, and the topology manager refuses more than {allowed}: the kubelet does not \
         start, and beyond {MOST_NODES} nodes its search takes minutes"
    );
    let finding = Finding::error(CHECK, title)
        .seen_in("sys/devices/system/node/online", machine.topology.node_ids().to_string());
    let fix = facts.tell_kubelet("topology-manager-policy=none", "topologyManagerPolicy: none");
    vec![
        finding
            .seen(&policy.place, policy.value)
            .fix(format!("{fix}\nand leave alignment to maitred, whose search has no such limit")),
    ]
}

/// A changed configuration takes effect with the next start.
fn restarted(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "kubelet.restart";
    if !facts.kubelet.running || facts.distribution.is_none() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for key in facts.kubelet.next_keys() {
        let (next, now) = (facts.kubelet.next_word(key), facts.kubelet.word(key));
        let Some(next) = next.filter(|next| now.as_ref().is_none_or(|now| now.value != next.value)) else {
            continue;
        };
        let now = now.map_or_else(|| "not there".to_owned(), |now| now.value);
        let title = format!("the kubelet runs with another {key} than it is told: it was not started since");
        let finding =
            Finding::warning(CHECK, title).seen(&next.place, next.value).seen(&Place::words(RUNNING), now);
        findings.push(finding.fix(format!("systemctl restart {}", facts.unit)));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "the kubelet runs with what it is told"));
    }
    findings
}
