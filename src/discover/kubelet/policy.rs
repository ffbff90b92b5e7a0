//! Who hands out CPUs on this node: the kubelet's CPU Manager policy, and the file that says so.

use super::distribution::Distribution;
use super::settings::KubeletSettings;
use super::state::{STATE, kubelet_cpu_policy};
use crate::discover::{DiscoverError, Root};

/// The kubelet's CPU Manager policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuManager {
    /// `none`, `static`, or a word of the future.
    pub policy: String,
    /// The file that says so, or the flags of the kubelet that runs.
    pub source: String,
}

/// The kubelet's CPU Manager policy: by its state file, which is what is in force; before there is one, by the flags
/// of the kubelet that runs or those that RKE2 or k3s is told to start it with, then by its configuration files. `None`
/// where none of them says anything: the kubelet's own default is `none`.
///
/// # Errors
/// Where one of the files is there and cannot be read or understood, and no other one says it.
pub fn kubelet_cpu_manager(root: &Root) -> Result<Option<CpuManager>, DiscoverError> {
    if let Some(state) = kubelet_cpu_policy(root)? {
        return Ok(Some(CpuManager { policy: state.policy, source: root.full(STATE).display().to_string() }));
    }
    let distribution = Distribution::find(root);
    let settings = KubeletSettings::read(root, distribution.as_ref());
    if let Some(said) = settings.word("cpuManagerPolicy") {
        return Ok(Some(CpuManager { policy: said.value, source: said.place.to_string() }));
    }
    let unread =
        settings.unread.into_iter().chain(distribution.into_iter().flat_map(|found| found.unread)).next();
    unread.map_or(Ok(None), Err)
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
        let inside = |source: String| source.replace(&dir.path().display().to_string(), "");
        found.map(|found| (found.policy, inside(found.source)))
    }

    fn says(policy: &str, source: &str) -> Option<(String, String)> {
        Some((policy.to_owned(), source.to_owned()))
    }

    const CONFIG: &str = "var/lib/kubelet/config.yaml";
    const RUNNING: [(&str, &str); 2] = [
        ("proc/7/comm", "kubelet\n"),
        ("proc/7/cmdline", "kubelet\0--config=/etc/kubelet.yaml\0--config-dir\0/etc/kubelet.d\0"),
    ];

    #[test]
    fn the_state_in_force_goes_before_every_configuration() {
        let state = (STATE, r#"{"policyName":"none","defaultCpuSet":""}"#);
        let by_config = says("static", "/var/lib/kubelet/config.yaml:1");
        assert_eq!(
            found(&[state, (CONFIG, "cpuManagerPolicy: static\n")]),
            says("none", "/var/lib/kubelet/cpu_manager_state")
        );
        assert_eq!(found(&[(CONFIG, "cpuManagerPolicy: static\nother: 1\n")]), by_config);
        assert_eq!(found(&[(CONFIG, "kind: KubeletConfiguration\n")]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn the_running_kubelet_names_its_files_and_its_flags_count_more() {
        let [comm, line] = RUNNING;
        let config = ("etc/kubelet.yaml", "cpuManagerPolicy: none\n");
        let drop_in = ("etc/kubelet.d/20-cpu.conf", "cpuManagerPolicy: static\n");
        assert_eq!(found(&[comm, line, config]), says("none", "/etc/kubelet.yaml:1"));
        assert_eq!(found(&[comm, line, config, drop_in]), says("static", "/etc/kubelet.d/20-cpu.conf:1"));
        let flagged =
            ("proc/7/cmdline", "kubelet\0--cpu-manager-policy=none\0--cpu-manager-policy\0static\0");
        assert_eq!(found(&[comm, flagged, config]), says("static", super::super::RUNNING));
    }

    #[test]
    fn a_tenants_process_of_that_name_tells_nothing() {
        let [comm, _] = RUNNING;
        let forged = ("proc/7/cmdline", "kubelet\0--cpu-manager-policy=static\0");
        assert_eq!(found(&[comm, forged]), says("static", super::super::RUNNING));
        let inside =
            ("proc/7/cgroup", "0::/kubepods.slice/kubepods-besteffort.slice/cri-containerd-1.scope\n");
        assert_eq!(found(&[comm, forged, inside]), None);
        assert_eq!(found(&[comm, forged, ("proc/7/status", "Uid:\t1000\t1000\t1000\t1000\n")]), None);
    }

    #[test]
    fn rke2_is_asked_what_it_will_start_its_kubelet_with() {
        let (main, more) = ("etc/rancher/rke2/config.yaml", "etc/rancher/rke2/config.yaml.d/50-cpu.yaml");
        let one = (main, "kubelet-arg: cpu-manager-policy=static\n");
        let many = (more, "kubelet-arg+:\n  - \"reserved-cpus=0\"\n  - --cpu-manager-policy=none\n");
        assert_eq!(found(&[one]), says("static", "/etc/rancher/rke2/config.yaml:1"));
        assert_eq!(found(&[one, many]), says("none", "/etc/rancher/rke2/config.yaml.d/50-cpu.yaml:3"));
        let replacing = (more, "kubelet-arg: max-pods=200\n");
        assert_eq!(found(&[one, replacing]), None, "without a + a later file replaces the whole list");
        assert_eq!(found(&[(main, "kubelet-arg:\n- max-pods=200\n")]), None);
        let drop_in = "var/lib/rancher/rke2/agent/etc/kubelet.conf.d/00-x.conf";
        let by_file = says("none", "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/00-x.conf:1");
        assert_eq!(found(&[(drop_in, "cpuManagerPolicy: none")]), by_file);
        let by_flag = says("static", "/etc/rancher/rke2/config.yaml:1");
        assert_eq!(found(&[one, (drop_in, "cpuManagerPolicy: none")]), by_flag, "a flag counts more");
    }
}
