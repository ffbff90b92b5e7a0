//! containerd and RKE2.

use super::*;

fn config(node: &Node, lines: &str) {
    node.append(CONFIG, &format!("\n{lines}\n"));
}

fn newer(node: &Node, version: &str) {
    node.replace(LOG, "version=v2.1.4-k3s1", &format!("version={version}"));
}

#[test]
fn files_that_cannot_be_read() {
    let found = fires(
        |node| dropped(node, "[plugins\n"),
        "containerd.files",
        Severity::Error,
        "cannot be read",
        "containerd config dump",
    );
    assert!(seen(&found)[0].contains("70-test.toml:1: found \"[plugins\""), "{:?}", seen(&found));
    fires(|node| node.remove(CONTAINERD), "containerd.files", Severity::Note, "defaults", "");
    let change = |node: &Node| node.file("etc/rancher/rke2/config.yaml.d/99-x.yaml", "kubelet-arg: [\n");
    fires(change, "rke2.files", Severity::Error, "rke2 does not start", "systemctl restart rke2-agent");
    let directory = |node: &Node| node.file("etc/rancher/rke2/config.yaml.d/99-x.yaml/y", "");
    fires(directory, "rke2.files", Severity::Error, "cannot be read", "YAML");
}

#[test]
fn versions_and_what_falls_away() {
    let nothing = |node: &Node| {
        node.remove(LOG);
        node.remove("var/lib/rancher/rke2/bin");
        node.remove("var/lib/rancher/rke2/data");
    };
    fires(
        nothing,
        "containerd.version",
        Severity::NotChecked,
        "no containerd to ask",
        "containerd --version",
    );
    fires(nothing, "rke2.version", Severity::NotChecked, "rke2's version", "");
    silent(|node| node.remove(LOG), "containerd.version");
    let found = fires(
        old_containerd,
        "containerd.features",
        Severity::Note,
        "dropped silently",
        "RKE2 1.31.13, 1.32.9, 1.33.5, 1.34.1 or later",
    );
    assert!(seen(&found)[0].ends_with("containerd v1.7.23-k3s2 (NRI 0.6.1)"), "{:?}", seen(&found));
    silent(|node| newer(node, "v2.3.2-k3s1"), "containerd.features");
    let by_release = Node::healthy();
    by_release.remove(LOG);
    let told = by_release.says("containerd.features");
    assert!(
        seen(&told[0])[0]
            .starts_with("what RKE2 v1.33.5+rke2r1 brings, or a later one of its line: containerd 2.1.0"),
        "{told:#?}"
    );
}

#[test]
fn a_memory_policy_that_cannot_arrive() {
    for (word, runtime) in [("native", "v2.3.2-k3s1"), ("launcher", "v2.2.2-k3s1")] {
        let lines = format!("delivery = \"{word}\"");
        let told = |node: &Node| node.replace(CONFIG, "[memory]", &format!("[memory]\n{lines}"));
        fires(
            told,
            "containerd.delivery",
            Severity::Error,
            "is rejected",
            "under [memory]: delivery = \"auto\"",
        );
        let suits = |node: &Node| {
            told(node);
            newer(node, runtime);
        };
        silent(suits, "containerd.delivery");
    }
    let inherited = |node: &Node| node.replace(CONFIG, "[memory]", "[memory]\ndelivery = \"inherited\"");
    fires(inherited, "containerd.delivery", Severity::Error, "inherited", "delivery = \"auto\"");
    let wrapped = |node: &Node| {
        inherited(node);
        let table = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\nBinaryName = '/usr/bin/maitred-runtime'";
        dropped(node, table);
    };
    silent(wrapped, "containerd.delivery");
    let gone = |node: &Node| {
        wrapped(node);
        node.file("usr/bin/other", "");
    };
    fires(
        gone,
        "containerd.wrapper",
        Severity::Error,
        "no container of that runtime starts",
        "ln -s /usr/bin/maitred /usr/bin/maitred-runtime",
    );
    fires(wrapped, "containerd.wrapper", Severity::NotChecked, "there is no usr", "");
    let there = |node: &Node| {
        wrapped(node);
        node.file("usr/bin/maitred-runtime", "");
        node.remove("proc/1200");
        let off = "[plugins.'io.containerd.nri.v1.nri']\ndisable = true";
        node.file("var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.d/60-nri.toml", off);
    };
    silent(there, "containerd.wrapper");
    fires(there, "maitred.running", Severity::Note, "does not run", "systemctl enable --now maitred");
    fires(there, "nri.enabled", Severity::Note, "switched off", "disable = false");
    let beside = |node: &Node| {
        there(node);
        let line = "[plugins.'io.containerd.cri.v1.runtime'.containerd]\ndefault_runtime_name = 'nvidia'";
        node.file("var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.d/80-default.toml", line);
    };
    let found = fires(beside, "nri.enabled", Severity::Warning, "switched off", "disable = false");
    assert!(
        seen(&found)[1].ends_with("the runtime runc goes through maitred's wrapper, which pins without it")
    );
}

#[test]
fn gpus_that_cannot_be_swapped() {
    let change = |node: &Node| config(node, "[gpu]\nplacement = \"repair\"");
    fires(change, "containerd.gpu-placement", Severity::Error, "this runtime cannot", "placement = \"keep\"");
    let static_kubelet = |node: &Node| {
        change(node);
        newer(node, "v2.2.2-k3s1");
    };
    fires(
        static_kubelet,
        "containerd.gpu-placement",
        Severity::Error,
        "while the kubelet gives out",
        "placement = \"keep\"",
    );
    let fits = |node: &Node| {
        static_kubelet(node);
        left_to_maitred(node);
    };
    silent(fits, "containerd.gpu-placement");
}

#[test]
fn what_runc_knows_cannot_be_asked_of_files() {
    fires(|node| newer(node, "v2.3.2-k3s1"), "containerd.runc", Severity::NotChecked, "runc", "");
}

#[test]
fn hidden_huge_page_limits() {
    let drop_in = "var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.d/50-hugetlb.toml";
    let change = |node: &Node| node.remove(drop_in);
    let found = fires(
        change,
        "containerd.hugetlb",
        Severity::Note,
        "hides limits",
        "disable_hugetlb_controller = false",
    );
    assert!(found.fix.unwrap().contains("[plugins.\"io.containerd.cri.v1.runtime\"]"));
    let old = fires(
        old_containerd,
        "containerd.hugetlb",
        Severity::Note,
        "hides limits",
        "[plugins.\"io.containerd.grpc.v1.cri\"]",
    );
    assert_eq!(seen(&old), ["containerd's default: disable_hugetlb_controller = true"]);
}

#[test]
fn two_cgroup_drivers() {
    let change = |node: &Node| node.replace(CONTAINERD, "SystemdCgroup = true", "SystemdCgroup = false");
    let found = fires(
        change,
        "containerd.cgroup-driver",
        Severity::Error,
        "by systemd and containerd by cgroupfs",
        "SystemdCgroup = true",
    );
    assert_eq!(found.evidence.len(), 2);
    silent(|node| node.remove("var/lib/rancher/rke2/agent/etc/kubelet.conf.d"), "containerd.cgroup-driver");
}

#[test]
fn rke2s_own_ways() {
    let template = "var/lib/rancher/rke2/agent/etc/containerd/config.toml.tmpl";
    let change = |node: &Node| node.file(template, "version = 2");
    fires(change, "rke2.template", Severity::Warning, "template of version 2", "config-v3.toml.d/*.toml");
    fires(change, "rke2.template", Severity::Note, "does not begin", "{{ template \"base\" . }}");
    let change = |node: &Node| node.file("etc/rancher/rke2/config.yaml.d/50-gpu.yaml", "node-label+: a=b");
    fires(
        change,
        "rke2.taints",
        Severity::Note,
        "no taint",
        "node-taint:\n  - \"nvidia.com/gpu=present:NoSchedule\"",
    );
    let change = |node: &Node| node.append(RKE2, "cpu-manager-policy: static\n");
    let found = fires(
        change,
        "rke2.stray-keys",
        Severity::Error,
        "does not know the key cpu-manager-policy",
        "\"cpu-manager-policy=static\"",
    );
    assert_eq!(seen(&found), ["/etc/rancher/rke2/config.yaml:18: cpu-manager-policy: static"]);
}

#[test]
fn tables_of_another_version() {
    let class = std::fs::read_to_string("hooks/containerd/runtime-class-v2.toml").unwrap();
    let found = fires(
        |node| dropped(node, &format!("version = 3\n{class}")),
        "containerd.tables",
        Severity::Warning,
        "passes over a table",
        "[plugins.\"io.containerd.cri.v1.runtime\"] in its place",
    );
    assert!(
        seen(&found)[0].contains("70-test.toml:7: [plugins.\"io.containerd.grpc.v1.cri\"]"),
        "{found:#?}"
    );
    let new = std::fs::read_to_string("hooks/containerd/runtime-class.toml").unwrap();
    let behind = |node: &Node| {
        old_containerd(node);
        node.append(CONTAINERD, &format!("\n{new}"));
    };
    fires(behind, "containerd.tables", Severity::Warning, "passes over", "io.containerd.grpc.v1.cri");
    silent(behind, "containerd.wrapper");
    let fits = |node: &Node| {
        old_containerd(node);
        node.append(CONTAINERD, &format!("\n{class}"));
        node.file("usr/local/sbin/maitred-runtime", "");
    };
    silent(fits, "containerd.tables");
}

#[test]
fn devices_that_cdi_does_not_bring() {
    let specs = |node: &Node| node.file("etc/cdi/nvidia.yaml", "cdiVersion: 0.5.0");
    let old = |node: &Node| {
        old_containerd(node);
        specs(node);
    };
    fires(old, "containerd.cdi", Severity::Note, "reaches no container", "enable_cdi = true");
    let on = |node: &Node| {
        old(node);
        node.append(CONTAINERD, "\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\n");
    };
    silent(on, "containerd.cdi");
    silent(specs, "containerd.cdi");
    silent(old_containerd, "containerd.cdi");
}
