//! NRI.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn executable(node: &Node, path: &str) {
    node.file(path, "#!/bin/sh");
    fs::set_permissions(node.path().join(path), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn switched_off() {
    let found = fires(
        |node| nri(node, "disable = true"),
        "nri.enabled",
        Severity::Error,
        "switched off",
        "disable = false",
    );
    assert_eq!(
        seen(&found),
        ["/var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.d/70-test.toml:2: disable = true"]
    );
    assert_eq!(
        found.fix.unwrap(),
        "in /var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.d/90-maitred.toml:\n  \
         [plugins.\"io.containerd.nri.v1.nri\"]\n    disable = false\nthen: systemctl restart rke2-agent"
    );
    let not_loaded = |node: &Node| dropped(node, "disabled_plugins = [\"io.containerd.nri.v1.nri\"]");
    fires(not_loaded, "nri.enabled", Severity::Error, "not to load NRI", "out of disabled_plugins");
}

#[test]
fn off_by_default_in_containerd_1_7() {
    let template = "in /var/lib/rancher/rke2/agent/etc/containerd/config.toml.tmpl (a new one begins with the line {{ template \"base\" . }}";
    fires(old_containerd, "nri.enabled", Severity::Error, "containerd 1.7's default", template);
    let on = |node: &Node| {
        old_containerd(node);
        node.append(CONTAINERD, "[plugins.\"io.containerd.nri.v1.nri\"]\ndisable = false\n");
    };
    silent(on, "nri.enabled");
    let unknown = |node: &Node| {
        node.remove(LOG);
        node.remove("var/lib/rancher/rke2/bin");
        node.remove("var/lib/rancher/rke2/data");
    };
    fires(unknown, "nri.enabled", Severity::NotChecked, "version", "disable = false");
}

#[test]
fn no_socket() {
    let gone = |node: &Node| node.replace("proc/net/unix", "/var/run/nri/nri.sock", "/run/other.sock");
    fires(gone, "nri.socket", Severity::Error, "nobody listens", "systemctl restart rke2-agent");
    fires(|node| node.remove("proc/net/unix"), "nri.socket", Severity::NotChecked, "proc/net/unix", "");
    let elsewhere = |node: &Node| {
        gone(node);
        nri(node, "socket_path = \"/run/other.sock\"");
    };
    fires(elsewhere, "nri.socket", Severity::Note, "/run/other.sock", "maitred nri --socket /run/other.sock");
    let closed = |node: &Node| nri(node, "disable_connections = true");
    fires(
        closed,
        "nri.socket",
        Severity::Warning,
        "no NRI plugin that connects",
        "ln -s /usr/bin/maitred /opt/nri/plugins/90-maitred",
    );
}

#[test]
fn a_badly_named_executable() {
    let change = |node: &Node| executable(node, "opt/nri/plugins/90-maitred~");
    let found =
        fires(change, "nri.plugin-names", Severity::Error, "starts none", "mv /opt/nri/plugins/90-maitred~");
    assert_eq!(
        seen(&found),
        [
            "/opt/nri/plugins/90-maitred~: no two digits and a dash in front, or a character in its name that containerd does not take"
        ]
    );
    silent(|node| node.file("opt/nri/plugins/README", "not executable"), "nri.plugin-names");
    silent(|node| executable(node, "opt/nri/plugins/10-logger"), "nri.plugin-names");
}

#[test]
fn maitreds_own_link() {
    let link = |node: &Node| node.link("opt/nri/plugins/90-maitred", "/usr/bin/maitred");
    fires(
        link,
        "nri.own-link",
        Severity::Error,
        "leads nowhere",
        "ln -sf /usr/bin/maitred /opt/nri/plugins/90-maitred",
    );
    let both = |node: &Node| {
        executable(node, "usr/bin/maitred");
        link(node);
    };
    fires(both, "nri.own-link", Severity::Warning, "by another hand", "systemctl disable --now maitred");
    let twice = |node: &Node| {
        both(node);
        executable(node, "opt/nri/plugins/91-maitred.dpkg-new");
    };
    fires(
        twice,
        "nri.own-link",
        Severity::Error,
        "more than once",
        "rm /opt/nri/plugins/91-maitred.dpkg-new",
    );
    let prelaunched = |node: &Node| {
        both(node);
        node.replace("proc/1200/status", "PPid:\t1\n", "PPid:\t950\n");
    };
    silent(prelaunched, "nri.own-link");
    silent(prelaunched, "nri.registered");
}

#[test]
fn not_registered() {
    let change = |node: &Node| {
        node.replace("proc/net/unix", "0001 03 20003 /var/run/nri/nri.sock", "0001 03 20003 /run/x")
    };
    fires(change, "nri.registered", Severity::Error, "not connected", "journalctl -u maitred");
    let of_another = |node: &Node| node.link("proc/1200/fd/9", "socket:[77]");
    fires(of_another, "nri.registered", Severity::Error, "not connected", "journalctl -u maitred");
    silent(|node| node.link("proc/1200/fd/9", "socket:[20004]"), "nri.registered");
}

#[test]
fn another_plugin_sets_cpusets() {
    let plugin = |node: &Node| executable(node, "opt/nri/plugins/10-balloons");
    fires(plugin, "nri.other-plugins", Severity::Error, "sets cpusets", "rm /opt/nri/plugins/10-balloons");
    let process = |node: &Node| node.file("proc/1400/comm", "nri-resource-po");
    let found = fires(process, "nri.other-plugins", Severity::Error, "sets cpusets", "keep it off this node");
    assert_eq!(seen(&found), ["process 1400 (nri-resource-po): runs here"]);
    let unknown = |node: &Node| executable(node, "opt/nri/plugins/10-logger");
    fires(unknown, "nri.other-plugins", Severity::Note, "another NRI plugin: 10-logger", "");
}

#[test]
fn too_little_time() {
    let change = |node: &Node| nri(node, "plugin_request_timeout = \"800ms\"");
    let found = fires(change, "nri.request-timeout", Severity::Error, "waits for 800ms", "deadline_ms = 400");
    assert_eq!(seen(&found)[1], "/etc/maitred/config.toml: deadline_ms 1000");
    let change = |node: &Node| nri(node, "plugin_registration_timeout = \"1s\"");
    fires(
        change,
        "nri.registration-timeout",
        Severity::Note,
        "only 1s",
        "plugin_registration_timeout = \"5s\"",
    );
}

#[test]
fn plugins_required_of_every_pod() {
    let line = "[plugins.'io.containerd.nri.v1.nri'.default_validator]\nenable = true\nrequired_plugins = ['maitred']";
    let change = |node: &Node| dropped(node, line);
    fires(
        change,
        "nri.required-plugins",
        Severity::Warning,
        "static pods",
        "required-plugins.noderesource.dev",
    );
    silent(|node| dropped(node, &line.replace("'maitred'", "")), "nri.required-plugins");
}
