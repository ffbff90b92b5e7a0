//! RKE2 and k3s: their files, templates, taints and labels.

use super::Check;
use super::facts::Facts;
use super::finding::Finding;
use crate::discover::Place;
use crate::discover::kubelet::{Distribution, Kind};

pub(super) const CHECKS: &[Check] = &[files, version, templates, taints, stray_keys];

fn files(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "rke2.files";
    let Some(found) = &facts.distribution else { return Vec::new() };
    let name = found.kind.name();
    let broken = found.unread.iter().map(|error| {
        let title = format!("a file of {name}'s configuration cannot be read: {name} does not start with it");
        let fix = format!("make it YAML with keys and values, then: systemctl restart {}", facts.unit);
        Finding::error(CHECK, title).seen(&Place::words("reading it"), error.to_string()).fix(fix)
    });
    let mut findings: Vec<_> = broken.collect();
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, format!("{name}'s configuration can be read")));
    }
    findings
}

fn version(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "rke2.version";
    let Some(found) = &facts.distribution else { return Vec::new() };
    let name = found.kind.name();
    match &found.version {
        Some(said) => vec![
            Finding::ok(CHECK, format!("this is {name} {}", said.value))
                .seen(&said.place, said.value.as_str()),
        ],
        None => {
            let why = format!("{name}'s version: /{}/bin is no link to one of its releases", found.data_dir);
            vec![Finding::not_checked(CHECK, why)]
        }
    }
}

/// containerd 2 is rendered from `config-v3.toml.tmpl` where there is one; one of version 2 alone is migrated and loses
/// the drop-ins of version 3.
fn templates(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "rke2.template";
    let Some(found) = &facts.distribution else { return Vec::new() };
    let dir = format!("{}/agent/etc/containerd", found.data_dir);
    let text = |name: &str| facts.root.text(&format!("{dir}/{name}")).ok().flatten();
    let (old, new) = (text("config.toml.tmpl"), text("config-v3.toml.tmpl"));
    let replaced = |text: &String| !text.contains("template \"base\"");
    let path = |name: &str| format!("{dir}/{name}");
    let mut findings = Vec::new();
    let used = [("config-v3.toml.tmpl", &new), ("config.toml.tmpl", &old)]
        .into_iter()
        .find(|(_, text)| text.is_some());
    if let Some((name, Some(_))) = used.filter(|(_, text)| text.as_ref().is_some_and(replaced)) {
        let title = "containerd's template does not begin with the distribution's own: what an upgrade adds to that, such as \
                     NRI or drop-ins, never reaches this node";
        let finding = Finding::note(CHECK, title).seen_in(&path(name), "no {{ template \"base\" . }}");
        findings.push(finding.fix(format!(
            "let /{} begin with the line {{{{ template \"base\" . }}}} and keep below it only what differs",
            path(name)
        )));
    }
    if old.is_some() && new.is_none() && facts.containerd_is(2, 0) == Some(true) {
        let title = "containerd 2 is configured by a template of version 2: drop-ins in config-v3.toml.d are not read";
        let finding = Finding::warning(CHECK, title)
            .seen_in(&path("config.toml.tmpl"), "and no config-v3.toml.tmpl beside it");
        findings.push(finding.fix(format!("move what it adds to /{dir}/config-v3.toml.d/*.toml, with the tables' names of version 3, and take it away")));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "no template of containerd's configuration stands in the way"));
    }
    findings
}

/// The tenth knob: other work is kept off.
fn taints(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "rke2.taints";
    let Some(found) = &facts.distribution else { return Vec::new() };
    let has_gpus = facts.machine.as_ref().is_ok_and(|machine| !machine.topology.gpus.is_empty());
    let told = facts.kubelet.word("registerWithTaints");
    if let Some(taint) = found.last("node-taint").or(told.as_ref()) {
        return vec![Finding::ok(CHECK, "the node has a taint").seen(&taint.place, taint.value.as_str())];
    }
    if !has_gpus {
        return Vec::new();
    }
    let title = "the node has GPUs and no taint of its own configuration: work that needs none shares its CPUs and memory";
    let labels = match found.last("node-label") {
        Some(_) => "",
        None => "\nand a label to choose it by:\nnode-label:\n  - \"maitred.io/pinned=true\"",
    };
    let finding = Finding::note(CHECK, title)
        .seen_in(&found.config, "no node-taint (one may have been set by kubectl)");
    vec![finding.fix(format!(
        "in /{}:\nnode-taint:\n  - \"nvidia.com/gpu=present:NoSchedule\"{labels}\nwhich counts for a new node; on this one: \
         kubectl taint node NAME nvidia.com/gpu=present:NoSchedule",
        found.config
    ))]
}

/// Keys of the kubelet's at the top of the file, where only RKE2's own are looked at.
fn stray_keys(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "rke2.stray-keys";
    let Some(found) = &facts.distribution else { return Vec::new() };
    const KEYS: [&str; 7] = [
        "cpu-manager-policy",
        "topology-manager-policy",
        "topology-manager-scope",
        "memory-manager-policy",
        "reserved-cpus",
        "reserved-memory",
        "kubelet-args",
    ];
    let stray: Vec<_> = KEYS.iter().filter_map(|key| Some((key, found.last(key)?))).collect();
    if stray.is_empty() {
        return vec![Finding::ok(CHECK, "no key of the kubelet's stands outside kubelet-arg")];
    }
    let told = stray.iter().map(|(key, said)| {
        let title = format!("{} does not know the key {key}: it is a flag of the kubelet's", name(found));
        let fix = match **key {
            "kubelet-args" => "call it kubelet-arg".to_owned(),
            key => facts.tell_kubelet(&format!("{key}={}", said.value), key),
        };
        Finding::error(CHECK, title).seen(&said.place, format!("{key}: {}", said.value)).fix(fix)
    });
    told.collect()
}

fn name(found: &Distribution) -> &'static str {
    match found.kind {
        Kind::Rke2 => "RKE2",
        Kind::K3s => "k3s",
    }
}
