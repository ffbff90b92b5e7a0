//! maitred itself: its configuration, its switch, its daemon, and who hands out the CPUs.

use super::Check;
use super::containerd::beside_wrapper;
use super::daemon::Daemon;
use super::facts::Facts;
use super::finding::Finding;
use crate::config::Authority;
use crate::decision::{FailurePolicy, Mode};
use crate::discover::Place;
use crate::engine::Machine;

pub(super) const CHECKS: &[Check] = &[config, fits, switched_off, running, mode, authority, failure];

fn config(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "maitred.config";
    match (&facts.config, facts.configured) {
        (Err(error), _) => {
            let title = "maitred's configuration is wrong: it does not start";
            let finding = Finding::error(CHECK, title).seen(&facts.config_file, error.as_str());
            vec![finding.fix("write what is expected there; packaging/config.toml documents every key")]
        }
        (Ok(_), true) => vec![Finding::ok(CHECK, "maitred's configuration is sound")],
        (Ok(_), false) => {
            let title = "there is no configuration: maitred enforces single-numa-node in scope pod from its first minute";
            vec![Finding::note(CHECK, title).seen(&facts.config_file, "not there")]
        }
    }
}

/// The configuration against the machine: what the daemon would say at its start.
fn fits(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "maitred.machine";
    let (Ok(config), Ok(machine)) = (&facts.config, &facts.machine) else { return Vec::new() };
    let made = Machine::new(&machine.topology, &config.reserve());
    let checked = made.and_then(|made| made.check_options(&config.policy.cpu));
    match checked {
        Ok(()) => vec![Finding::ok(CHECK, "maitred's configuration fits the machine")],
        Err(error) => {
            let title = "maitred's configuration does not fit the machine: it does not start";
            let finding = Finding::error(CHECK, title).seen(&facts.config_file, error.to_string());
            vec![finding.fix("name CPUs and nodes that the machine has, and options that suit it")]
        }
    }
}

fn switched_off(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "maitred.off";
    match &facts.off {
        Ok(None) => vec![Finding::ok(CHECK, "maitred is not switched off")],
        Ok(Some(off)) => {
            let title = "maitred is switched off on this node: containers start unpinned";
            let reason = if off.reason.is_empty() { "no reason given" } else { off.reason.as_str() };
            let finding =
                Finding::error(CHECK, title).seen_in("run/maitred/off", format!("by {}: {reason}", off.by));
            vec![finding.fix("maitred on")]
        }
        Err(error) => vec![Finding::not_checked(CHECK, format!("whether maitred is switched off: {error}"))],
    }
}

fn running(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "maitred.running";
    match &facts.daemon {
        Daemon::Alive { process, .. } => {
            let place = Place::words(&format!("process {}", process.pid));
            vec![Finding::ok(CHECK, "maitred runs").seen(&place, process.name.as_str())]
        }
        Daemon::Unknown => {
            vec![Finding::not_checked(CHECK, "whether maitred runs: there are no processes in proc")]
        }
        Daemon::Dead => {
            let title = "maitred does not run: containers start unpinned";
            let fix = format!(
                "systemctl enable --now maitred; or let containerd start it: ln -s /usr/bin/maitred {}/90-maitred, and \
                 restart containerd",
                facts.plugin_dir
            );
            let finding = Finding::error(CHECK, title).seen_in("proc", "no process of maitred nri").fix(fix);
            vec![beside_wrapper(facts, finding)]
        }
    }
}

fn mode(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "maitred.mode";
    match &facts.config {
        Ok(config) if config.mode == Mode::Audit => {
            let title = "maitred is in audit mode: it logs what it would do, and changes nothing";
            let finding = Finding::warning(CHECK, title).seen(&facts.config_file, "mode = \"audit\"");
            vec![finding.fix(format!(
                "when the log shows what is wanted: in {}: mode = \"enforce\", and restart maitred",
                facts.config_file.file
            ))]
        }
        Ok(_) => vec![Finding::ok(CHECK, "maitred enforces")],
        Err(_) => Vec::new(),
    }
}

/// Two that hand out CPUs, or nobody.
fn authority(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "maitred.authority";
    let Ok(config) = &facts.config else { return Vec::new() };
    let policy = match &facts.cpu_state {
        Ok(Some(state)) => crate::discover::Said {
            value: state.policy.clone(),
            place: Place::file(&format!("{}/cpu_manager_state", facts.kubelet.state_dir())),
        },
        _ => facts.cpu_policy(),
    };
    let is_static = facts.kubelet_is_static();
    let (title, word) = match (config.authority, is_static) {
        (Authority::Maitred, true) => (
            "maitred and the kubelet's static CPU manager both hand out CPUs: the same ones are given twice",
            "maitred",
        ),
        (Authority::Kubelet, false)
            if facts.has_kubelet()
                && !facts.sees_settings()
                && facts.cpu_state.as_ref().is_ok_and(Option::is_none) =>
        {
            return vec![Finding::not_checked(
                CHECK,
                "whether the kubelet hands out CPUs: its settings are not seen",
            )];
        }
        (Authority::Kubelet, false) => (
            "nobody hands out exclusive CPUs: maitred leaves it to the kubelet, whose CPU manager is not static",
            "kubelet",
        ),
        (Authority::Auto, true) | (Authority::Kubelet, true) => {
            return vec![
                Finding::ok(CHECK, "the kubelet hands out the CPUs, maitred checks and completes them")
                    .seen(&policy.place, policy.value),
            ];
        }
        (Authority::Auto | Authority::Maitred, false) => {
            return vec![Finding::ok(CHECK, "maitred hands out the CPUs").seen(&policy.place, policy.value)];
        }
    };
    let finding = Finding::error(CHECK, title)
        .seen(&facts.config_file, format!("authority = {word:?}"))
        .seen(&policy.place, format!("CPU manager policy {}", policy.value));
    vec![finding.fix(format!("in {}: authority = \"auto\", and restart maitred", facts.config_file.file))]
}

fn failure(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "maitred.failure";
    match &facts.config {
        Ok(config) if config.failure.policy == FailurePolicy::Admit => {
            let title = "where nothing can be decided, containers that count on pinning start unpinned";
            let finding = Finding::note(CHECK, title).seen(&facts.config_file, "failure.policy = \"admit\"");
            vec![finding.fix(format!("in {}, under [failure]: policy = \"reject\"", facts.config_file.file))]
        }
        Ok(_) => vec![Finding::ok(
            CHECK,
            "where nothing can be decided, containers that count on pinning are rejected",
        )],
        Err(_) => Vec::new(),
    }
}
