//! NRI: on, reachable, maitred among its plugins, and nobody else on the same fields.

use super::Check;
use super::containerd::beside_wrapper;
use super::daemon::Daemon;
use super::facts::Facts;
use super::finding::{Finding, Severity};
use crate::discover::containerd::{NRI, Value};
use crate::discover::{Place, Said};
use crate::nri::DEFAULT_SOCKET;
use std::time::Duration;

pub(super) const CHECKS: &[Check] =
    &[enabled, socket, names, own_link, registered, others, request_timeout, registration_timeout, required];

/// Plugins that are known to write cpusets, by what their names have in them.
const RIVALS: [&str; 7] =
    ["topology-aware", "balloons", "resource-policy", "template", "koordlet", "dracpu", "memory-policy"];
/// The same as processes; names are cut off after 15 bytes.
const RIVAL_PROCESSES: [&str; 4] = ["nri-resource-po", "koordlet", "dracpu", "crane-agent"];

fn enabled(facts: &Facts) -> Vec<Finding> {
    is_enabled(facts).into_iter().map(|finding| beside_wrapper(facts, finding)).collect()
}

fn is_enabled(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "nri.enabled";
    if let Some(finding) = disabled_plugin(facts) {
        return vec![finding];
    }
    let lines = "  [plugins.\"io.containerd.nri.v1.nri\"]\n    disable = false";
    let fix = || facts.tell_containerd(lines);
    match (facts.containerd.truth(NRI, &["disable"]), facts.containerd_is(2, 0)) {
        (Some(said), _) if said.value => {
            let title = "NRI is switched off in containerd's configuration: maitred sees no container";
            vec![Finding::error(CHECK, title).seen(&said.place, "disable = true").fix(fix())]
        }
        (Some(said), _) => vec![Finding::ok(CHECK, "NRI is on").seen(&said.place, "disable = false")],
        (None, Some(true)) => {
            vec![Finding::ok(CHECK, "NRI is on, as it is from containerd 2.0 unless said otherwise")]
        }
        (None, Some(false)) => {
            let version = facts.runtime.host().map(ToString::to_string).unwrap_or_default();
            let title = "NRI is off, which is containerd 1.7's default: maitred sees no container";
            let finding =
                Finding::error(CHECK, title).seen(&Place::words("containerd's default"), "disable = true");
            vec![
                finding
                    .seen_in(&facts.containerd.main, format!("says nothing of NRI; this is {version}"))
                    .fix(fix()),
            ]
        }
        (None, None) => {
            let why = "whether NRI is on: containerd's configuration does not say, and its version, whose default counts \
                       then, is not known";
            vec![Finding::not_checked(CHECK, why).fix(format!("to be sure, {}", fix()))]
        }
    }
}

/// NRI among the plugins that containerd is not to load.
fn disabled_plugin(facts: &Facts) -> Option<Finding> {
    let said = facts.containerd.list(&["disabled_plugins"])?;
    let named = said.value.iter().find(|name| *name == NRI || *name == "nri")?;
    let title = "containerd is told not to load NRI: maitred sees no container";
    let finding =
        Finding::error("nri.enabled", title).seen(&said.place, format!("disabled_plugins has {named:?}"));
    Some(finding.fix(format!("take {named:?} out of disabled_plugins, then restart containerd")))
}

fn socket_path(facts: &Facts) -> Said<String> {
    let said = facts.containerd.text(NRI, &["socket_path"]);
    said.unwrap_or_else(|| Said {
        value: DEFAULT_SOCKET.to_owned(),
        place: Place::words("containerd's default"),
    })
}

fn is_off(facts: &Facts) -> bool {
    is_enabled(facts).iter().any(|finding| finding.severity == Severity::Error)
}

fn is_prelaunched(facts: &Facts) -> bool {
    matches!(facts.daemon, Daemon::Alive { prelaunched: true, .. })
}

fn socket(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "nri.socket";
    let path = socket_path(facts);
    let connections = facts.containerd.truth(NRI, &["disable_connections"]).filter(|said| said.value);
    if let Some(said) = connections {
        let title = "containerd takes no NRI plugin that connects: only those it starts itself";
        let finding = Finding::warning(CHECK, title).seen(&said.place, "disable_connections = true");
        let fix = format!(
            "ln -s /usr/bin/maitred {}/90-maitred, and restart containerd; or disable_connections = false",
            facts.plugin_dir
        );
        return match is_prelaunched(facts) {
            true => vec![Finding::ok(CHECK, "containerd starts its plugins itself")],
            false => vec![finding.fix(fix)],
        };
    }
    let sockets = match &facts.sockets {
        Ok(Some(sockets)) => sockets,
        Ok(None) => return vec![Finding::not_checked(CHECK, "NRI's socket: there is no proc/net/unix")],
        Err(error) => return vec![Finding::not_checked(CHECK, format!("NRI's socket: {error}"))],
    };
    if sockets.listens(&path.value) {
        let other = !path.value.ends_with("/run/nri/nri.sock");
        let title = format!("NRI listens at {}, and maitred looks at {DEFAULT_SOCKET}", path.value);
        return match other {
            false => vec![Finding::ok(CHECK, format!("containerd listens at {}", path.value))],
            true => {
                let fix = format!("start it with: maitred nri --socket {}", path.value);
                vec![Finding::note(CHECK, title).seen(&path.place, path.value.as_str()).fix(fix)]
            }
        };
    }
    if is_off(facts) {
        // What nri.enabled says is the reason.
        return Vec::new();
    }
    let title = "nobody listens at NRI's socket: containerd does not run, was not restarted since NRI was switched on, or \
                 has it elsewhere";
    let finding = Finding::error(CHECK, title).seen_in("proc/net/unix", format!("no socket {}", path.value));
    let unit = if facts.distribution.is_some() { facts.unit.as_str() } else { "containerd" };
    vec![finding.seen(&path.place, path.value.as_str()).fix(format!("systemctl restart {unit}"))]
}

/// One bad name in the directory, and containerd starts none of them.
fn names(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "nri.plugin-names";
    let plugins = match &facts.plugins {
        Ok(plugins) => plugins.as_deref().unwrap_or_default(),
        Err(error) => return vec![Finding::not_checked(CHECK, format!("the NRI plugins: {error}"))],
    };
    let bad: Vec<_> = plugins.iter().filter(|plugin| plugin.parts().is_none()).collect();
    if bad.is_empty() {
        return vec![Finding::ok(CHECK, "every NRI plugin has a name that containerd takes")];
    }
    let title = "an executable in the plugin directory is not called NN-NAME: containerd then starts none of the plugins";
    let finding = bad.iter().fold(Finding::error(CHECK, title), |finding, plugin| {
        finding.seen(
            &Place::words(&format!("{}/{}", facts.plugin_dir, plugin.name)),
            "no two digits and a dash in front, or a character in its name that containerd does not take",
        )
    });
    let files: Vec<_> = bad.iter().map(|plugin| format!("{}/{}", facts.plugin_dir, plugin.name)).collect();
    vec![finding.fix(format!("mv {} somewhere else, then restart containerd", files.join(" ")))]
}

/// maitred in the plugin directory: once, and leading somewhere.
fn own_link(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "nri.own-link";
    let Ok(Some(plugins)) = &facts.plugins else { return Vec::new() };
    let own: Vec<_> = plugins.iter().filter(|plugin| plugin.name.contains("maitred")).collect();
    let path = |name: &str| format!("{}/{name}", facts.plugin_dir);
    if let Some(broken) = own.iter().find(|plugin| !plugin.runs) {
        let title = "maitred's link in the plugin directory leads nowhere: containerd cannot start it";
        let finding = Finding::error(CHECK, title).seen_in(&path(&broken.name), "leads to no executable");
        return vec![finding.fix(format!("ln -sf /usr/bin/maitred {}", path(&broken.name)))];
    }
    if own.len() > 1 {
        let title = "maitred is in the plugin directory more than once: two plugins that set the same fields fail every container";
        let finding = own.iter().fold(Finding::error(CHECK, title), |finding, plugin| {
            finding.seen_in(&path(&plugin.name), "is started by containerd")
        });
        return vec![finding.fix(format!("keep one of them, then: rm {}", path(&own[own.len() - 1].name)))];
    }
    let prelaunched = matches!(facts.daemon, Daemon::Alive { prelaunched: false, .. }) && own.len() == 1;
    if prelaunched {
        let title = "maitred is in the plugin directory and runs by another hand as well: there is one daemon at a time, and \
                     the one that containerd starts gives up";
        let finding = Finding::warning(CHECK, title).seen_in(&path(&own[0].name), "is started by containerd");
        return vec![
            finding.fix("systemctl disable --now maitred, and restart containerd; or take the link away"),
        ];
    }
    vec![Finding::ok(CHECK, "maitred is in the plugin directory at most once")]
}

fn registered(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "nri.registered";
    let Daemon::Alive { process, prelaunched, connected } = &facts.daemon else { return Vec::new() };
    let path = socket_path(facts);
    let place = Place::words(&format!("process {} ({})", process.pid, process.name));
    if *prelaunched {
        return vec![
            Finding::ok(CHECK, "containerd has started maitred itself")
                .seen(&place, "its parent is containerd"),
        ];
    }
    let plugins = match &facts.sockets {
        Ok(Some(sockets)) => sockets.connections(&path.value),
        _ => {
            return vec![Finding::not_checked(
                CHECK,
                "whether maitred is registered: there is no proc/net/unix",
            )];
        }
    };
    match (plugins, connected) {
        (0, _) | (_, Some(false)) => {
            let title = "maitred runs and is not connected to containerd: containers start without it";
            let finding = Finding::error(CHECK, title)
                .seen(&place, "no connection")
                .seen_in("proc/net/unix", format!("{plugins} connected to {}", path.value));
            vec![finding.fix("journalctl -u maitred tells why it is refused; it tries again for ever")]
        }
        (_, Some(true)) => {
            vec![Finding::ok(CHECK, "maitred is registered").seen(&place, "connected to containerd")]
        }
        (_, None) => {
            let many = crate::cli::output::count(plugins, "plugin");
            vec![Finding::ok(
                CHECK,
                format!("{many} connected; whose connection it is cannot be seen from here"),
            )]
        }
    }
}

/// Whoever else may set cpusets.
fn others(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "nri.other-plugins";
    let plugins = facts.plugins.as_ref().ok().and_then(Option::as_deref).unwrap_or_default();
    let mut findings = Vec::new();
    for plugin in plugins.iter().filter(|plugin| !plugin.name.contains("maitred")) {
        let rival = RIVALS.iter().any(|name| plugin.name.contains(name));
        let path = format!("{}/{}", facts.plugin_dir, plugin.name);
        findings.push(match rival {
            true => rival_of(CHECK, &Place::file(&path), "sets cpusets")
                .fix(format!("rm {path}, then restart containerd")),
            false => Finding::note(CHECK, format!("there is another NRI plugin: {}", plugin.name)).seen_in(
                &path,
                "what it sets is not known; two plugins that set the same field fail the container",
            ),
        });
    }
    let processes = facts.processes.iter().flatten();
    for process in
        processes.filter(|process| RIVAL_PROCESSES.iter().any(|name| process.name.starts_with(name)))
    {
        let place = Place::words(&format!("process {} ({})", process.pid, process.name));
        let fix = "keep it off this node (a nodeSelector or an affinity on its DaemonSet), or maitred";
        findings.push(rival_of(CHECK, &place, "runs here").fix(fix));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "no other NRI plugin is known here"));
    }
    findings
}

fn rival_of(check: &'static str, place: &Place, what: &str) -> Finding {
    let title = "another program sets cpusets through NRI: where two plugins set the same field, every container fails";
    Finding::error(check, title).seen(place, what)
}

fn timeout(facts: &Facts, key: &str, default: Duration) -> (Duration, Said<String>) {
    let said = facts.containerd.text(NRI, &[key]);
    let told = said.as_ref().and_then(|said| duration(&said.value));
    let default_said =
        Said { value: format!("{key} {default:?}"), place: Place::words("containerd's default") };
    (told.unwrap_or(default), said.map_or(default_said, |said| said.map(|text| format!("{key} = {text:?}"))))
}

/// Go's durations, as far as anybody writes them here: `2s`, `1.5s`, `500ms`, `1m30s`; a bare number is nanoseconds.
fn duration(text: &str) -> Option<Duration> {
    if let Ok(nanoseconds) = text.parse() {
        return Some(Duration::from_nanos(nanoseconds));
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, unit) = rest.split_at(digits);
        let end = unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len());
        let scale = match &unit[..end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * scale;
        rest = &unit[end..];
    }
    Duration::try_from_secs_f64(seconds).ok()
}

fn request_timeout(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "nri.request-timeout";
    let Ok(config) = &facts.config else { return Vec::new() };
    let (limit, said) = timeout(facts, "plugin_request_timeout", Duration::from_secs(2));
    let deadline = config.failure.deadline;
    if deadline < limit {
        return vec![Finding::ok(
            CHECK,
            format!("maitred answers within {deadline:?}, containerd waits for {limit:?}"),
        )];
    }
    let title = format!(
        "maitred may take {deadline:?} for an answer and containerd waits for {limit:?}: it then closes the plugin and starts \
         the container unpinned"
    );
    let finding = Finding::error(CHECK, title)
        .seen(&said.place, said.value)
        .seen(&facts.config_file, format!("deadline_ms {}", deadline.as_millis()));
    let half = (limit.as_millis() / 2).max(10);
    vec![finding.fix(format!("in {}, under [failure]: deadline_ms = {half}", facts.config_file.file))]
}

fn registration_timeout(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "nri.registration-timeout";
    let (limit, said) = timeout(facts, "plugin_registration_timeout", Duration::from_secs(5));
    if limit >= Duration::from_secs(5) {
        return vec![Finding::ok(CHECK, format!("a plugin has {limit:?} to register"))];
    }
    let title =
        format!("a plugin has only {limit:?} to register, and a sick GPU driver takes up to 3 s to say so");
    let lines = "  [plugins.\"io.containerd.nri.v1.nri\"]\n    plugin_registration_timeout = \"5s\"";
    vec![Finding::note(CHECK, title).seen(&said.place, said.value).fix(facts.tell_containerd(lines))]
}

/// Plugins without which containerd refuses every container.
fn required(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "nri.required-plugins";
    let Some(said) = facts.containerd.plugin(NRI, &["default_validator", "required_plugins"]) else {
        return vec![Finding::ok(CHECK, "no NRI plugin is required of every pod")];
    };
    let Value::List(names) = &said.value else { return Vec::new() };
    if names.is_empty() {
        return vec![Finding::ok(CHECK, "no NRI plugin is required of every pod")];
    }
    let title = "NRI plugins are required of every pod of the node: while one of them is away no pod starts, static pods of \
                 the control plane included";
    let finding = Finding::warning(CHECK, title).seen(&said.place, format!("required_plugins = {names:?}"));
    vec![finding.fix(
        "take required_plugins out, and require them of single pods by the annotation required-plugins.noderesource.dev",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, milliseconds) in
            [("2s", 2000), ("500ms", 500), ("1m30s", 90_000), ("1.5s", 1500), ("3000000", 3)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for bad in ["", "s", "2", "1x", "-1s", "1..5s"] {
            assert_ne!(duration(bad), Some(Duration::from_secs(2)), "{bad}");
        }
        assert_eq!(duration("2 s"), None);
    }
}
