//! Who hands out CPUs on this node: the kubelet's CPU Manager policy, and the file that says so.

use super::state::{STATE, kubelet_cpu_policy};
use crate::discover::{DiscoverError, Root};
use serde::Deserialize;

const FLAG: &str = "--cpu-manager-policy";
/// Where kubeadm keeps the kubelet's configuration.
const CONFIG: &str = "var/lib/kubelet/config.yaml";
/// Where RKE2 keeps what it gives its kubelet.
const RKE2_DROP_INS: &str = "var/lib/rancher/rke2/agent/etc/kubelet.conf.d";
/// RKE2's and k3s's own files, whose `kubelet-arg` become flags.
const DISTRIBUTIONS: [&str; 2] = ["etc/rancher/rke2", "etc/rancher/k3s"];

/// The kubelet's CPU Manager policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuManager {
    /// `none`, `static`, or a word of the future.
    pub policy: String,
    /// The file that says so, or the flags of the kubelet that runs.
    pub source: String,
}

/// As much of a `KubeletConfiguration` as is read.
#[derive(Default, Deserialize)]
struct KubeletConfiguration {
    #[serde(rename = "cpuManagerPolicy")]
    policy: Option<String>,
}

/// As much of RKE2's `config.yaml` as is read.
#[derive(Default, Deserialize)]
struct Distribution {
    #[serde(rename = "kubelet-arg", alias = "kubelet-arg+")]
    arguments: Option<OneOrMany>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// The kubelet's CPU Manager policy: by its state file, which is what is in force; before there is one, by the flags
/// of the kubelet that runs, by its configuration files, then by what RKE2 or k3s is told to start it with. `None`
/// where none of them says anything: the kubelet's own default is `none`.
///
/// # Errors
/// Where one of the files is there and cannot be read or understood.
pub fn kubelet_cpu_manager(root: &Root) -> Result<Option<CpuManager>, DiscoverError> {
    if let Some(state) = kubelet_cpu_policy(root)? {
        return Ok(Some(CpuManager { policy: state.policy, source: root.full(STATE).display().to_string() }));
    }
    let flags = flags(root);
    if let Some(policy) = flag(&flags, FLAG) {
        return Ok(Some(CpuManager { policy, source: format!("the running kubelet's {FLAG}") }));
    }
    let inside = |path: String| path.trim_start_matches('/').to_owned();
    let config = flag(&flags, "--config").map_or_else(|| CONFIG.to_owned(), inside);
    let drop_ins = flag(&flags, "--config-dir").map_or_else(|| RKE2_DROP_INS.to_owned(), inside);
    match configured(root, config, &drop_ins)? {
        Some(found) => Ok(Some(found)),
        None => of_distribution(root),
    }
}

/// The command line of the kubelet that runs, if one does. What cannot be read of a process that has ended is nothing.
fn flags(root: &Root) -> Vec<String> {
    let read = |path: String| root.read(&path).ok().flatten();
    let pids = root.numbered("proc", "").ok().flatten().unwrap_or_default();
    let kubelet = pids.into_iter().find(|pid| read(format!("proc/{pid}/comm")).as_deref() == Some("kubelet"));
    let line = kubelet.and_then(|pid| read(format!("proc/{pid}/cmdline"))).unwrap_or_default();
    line.split('\0').map(str::to_owned).collect()
}

/// The value of a flag, in either form; the last one counts.
fn flag(flags: &[String], name: &str) -> Option<String> {
    let at = flags
        .iter()
        .rposition(|flag| flag == name || flag.strip_prefix(name).is_some_and(|v| v.starts_with('=')))?;
    match flags[at].split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None => flags.get(at + 1).cloned(),
    }
}

/// By the configuration file and the drop-ins beside it, of which the last that says something counts.
fn configured(root: &Root, config: String, drop_ins: &str) -> Result<Option<CpuManager>, DiscoverError> {
    let dropped = files(root, drop_ins, ".conf")?;
    for path in dropped.into_iter().rev().chain([config]) {
        let read: KubeletConfiguration = root.yaml(&path)?.unwrap_or_default();
        if let Some(policy) = read.policy.filter(|policy| !policy.is_empty()) {
            return Ok(Some(CpuManager { policy, source: root.full(&path).display().to_string() }));
        }
    }
    Ok(None)
}

/// By the arguments RKE2 or k3s is told to start its kubelet with.
fn of_distribution(root: &Root) -> Result<Option<CpuManager>, DiscoverError> {
    for dir in DISTRIBUTIONS {
        let dropped = files(root, &format!("{dir}/config.yaml.d"), ".yaml")?;
        for path in dropped.into_iter().rev().chain([format!("{dir}/config.yaml")]) {
            let read: Distribution = root.yaml(&path)?.unwrap_or_default();
            let arguments = match read.arguments {
                None => continue,
                Some(OneOrMany::One(argument)) => vec![argument],
                Some(OneOrMany::Many(arguments)) => arguments,
            };
            let dashed: Vec<String> =
                arguments.iter().map(|one| format!("--{}", one.trim_start_matches('-'))).collect();
            if let Some(policy) = flag(&dashed, FLAG) {
                return Ok(Some(CpuManager { policy, source: root.full(&path).display().to_string() }));
            }
        }
    }
    Ok(None)
}

/// The files of a directory with that ending, in order of their names.
fn files(root: &Root, dir: &str, ending: &str) -> Result<Vec<String>, DiscoverError> {
    let mut names = root.names(dir)?.unwrap_or_default();
    names.sort();
    Ok(names.into_iter().filter(|name| name.ends_with(ending)).map(|name| format!("{dir}/{name}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn found(files: &[(&str, &str)]) -> Option<(String, String)> {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sys")).unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = kubelet_cpu_manager(&Root::open(dir.path()).unwrap()).unwrap();
        let inside = |source: String| source.replace(&format!("{}/", dir.path().display()), "");
        found.map(|found| (found.policy, inside(found.source)))
    }

    fn says(policy: &str, source: &str) -> Option<(String, String)> {
        Some((policy.to_owned(), source.to_owned()))
    }

    const RUNNING: [(&str, &str); 2] = [
        ("proc/7/comm", "kubelet\n"),
        ("proc/7/cmdline", "kubelet\0--config=/etc/kubelet.yaml\0--config-dir\0/etc/kubelet.d\0"),
    ];

    #[test]
    fn the_state_in_force_goes_before_every_configuration() {
        let state = (STATE, r#"{"policyName":"none","defaultCpuSet":""}"#);
        assert_eq!(found(&[state, (CONFIG, "cpuManagerPolicy: static\n")]), says("none", STATE));
        assert_eq!(found(&[(CONFIG, "cpuManagerPolicy: static\nother: 1\n")]), says("static", CONFIG));
        assert_eq!(found(&[(CONFIG, "kind: KubeletConfiguration\n")]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn the_running_kubelet_names_its_files_and_its_flags_count_more() {
        let [comm, line] = RUNNING;
        let config = ("etc/kubelet.yaml", "cpuManagerPolicy: none\n");
        let drop_in = ("etc/kubelet.d/20-cpu.conf", "cpuManagerPolicy: static\n");
        assert_eq!(found(&[comm, line, config]), says("none", "etc/kubelet.yaml"));
        assert_eq!(found(&[comm, line, config, drop_in]), says("static", "etc/kubelet.d/20-cpu.conf"));
        let flagged =
            ("proc/7/cmdline", "kubelet\0--cpu-manager-policy=none\0--cpu-manager-policy\0static\0");
        let by_flag = says("static", "the running kubelet's --cpu-manager-policy");
        assert_eq!(found(&[comm, flagged, config]), by_flag);
    }

    #[test]
    fn rke2_is_asked_what_it_will_start_its_kubelet_with() {
        let (main, more) = ("etc/rancher/rke2/config.yaml", "etc/rancher/rke2/config.yaml.d/50-cpu.yaml");
        let one = (main, "kubelet-arg: cpu-manager-policy=static\n");
        let many = (more, "kubelet-arg+:\n  - \"reserved-cpus=0\"\n  - --cpu-manager-policy=none\n");
        assert_eq!(found(&[one]), says("static", main));
        assert_eq!(found(&[one, many]), says("none", more));
        assert_eq!(found(&[(main, "kubelet-arg:\n- max-pods=200\n")]), None);
        let drop_in = "var/lib/rancher/rke2/agent/etc/kubelet.conf.d/00-x.conf";
        assert_eq!(found(&[one, (drop_in, "cpuManagerPolicy: none")]), says("none", drop_in));
    }
}
