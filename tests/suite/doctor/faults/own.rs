//! maitred's own part.

use super::*;

#[test]
fn a_wrong_configuration() {
    let change = |node: &Node| node.replace(CONFIG, "\"enforce\"", "\"loud\"");
    let found = fires(change, "maitred.config", Severity::Error, "is wrong", "write what is expected there");
    assert_eq!(
        seen(&found),
        [
            r#"/etc/maitred/config.toml: /etc/maitred/config.toml:2: mode = "loud": expected one of "enforce", "audit""#
        ]
    );
    fires(|node| node.remove(CONFIG), "maitred.config", Severity::Note, "no configuration", "");
}

#[test]
fn a_configuration_for_another_machine() {
    let change = |node: &Node| node.replace(CONFIG, "1 = { memory", "7 = { memory");
    fires(
        change,
        "maitred.machine",
        Severity::Error,
        "does not fit the machine",
        "CPUs and nodes that the machine has",
    );
}

#[test]
fn switched_off() {
    let change =
        |node: &Node| node.file("run/maitred/off", r#"{"since":1,"reason":"ticket 7","by":"uid 0"}"#);
    let found = fires(change, "maitred.off", Severity::Error, "switched off", "maitred on");
    assert_eq!(seen(&found), ["/run/maitred/off: by uid 0: ticket 7"]);
}

#[test]
fn not_running() {
    fires(
        |node| node.remove("proc/1200"),
        "maitred.running",
        Severity::Error,
        "does not run",
        "systemctl enable --now maitred",
    );
    fires(|node| node.remove("proc"), "maitred.running", Severity::NotChecked, "no processes", "");
    let only_named = |node: &Node| node.remove("run/maitred");
    silent(only_named, "maitred.running");
    let stale = |node: &Node| node.file("run/maitred/daemon.lock", "990");
    silent(stale, "maitred.running");
}

#[test]
fn in_audit_mode() {
    let change = |node: &Node| node.replace(CONFIG, "\"enforce\"", "\"audit\"");
    fires(
        change,
        "maitred.mode",
        Severity::Warning,
        "audit mode",
        "in /etc/maitred/config.toml: mode = \"enforce\"",
    );
}

#[test]
fn two_hand_out_cpus_or_nobody() {
    let told = |word: &'static str| {
        move |node: &Node| {
            node.replace(CONFIG, "version = 1", &format!("version = 1\nauthority = \"{word}\""))
        }
    };
    let found = fires(
        told("maitred"),
        "maitred.authority",
        Severity::Error,
        "both hand out CPUs",
        "authority = \"auto\"",
    );
    assert_eq!(
        seen(&found),
        [
            "/etc/maitred/config.toml: authority = \"maitred\"",
            "/var/lib/kubelet/cpu_manager_state: CPU manager policy static"
        ]
    );
    silent(told("kubelet"), "maitred.authority");
    let nobody = |node: &Node| {
        left_to_maitred(node);
        told("kubelet")(node);
    };
    fires(nobody, "maitred.authority", Severity::Error, "nobody hands out", "authority = \"auto\"");
    silent(left_to_maitred, "maitred.authority");
}

#[test]
fn admitting_on_failure() {
    let change = |node: &Node| node.append(CONFIG, "\n[failure]\npolicy = \"admit\"\n");
    fires(
        change,
        "maitred.failure",
        Severity::Note,
        "start unpinned",
        "under [failure]: policy = \"reject\"",
    );
}
