//! What the daemon decides with: the machine, the configuration, and who picks the CPUs.

use super::super::CliError;
use super::super::devices::Machine;
use crate::config::{Authority, Config};
use crate::decision::{CpuAuthority, Features, GpuPlacement, Mode, Settings, State};
use crate::discover::{self, Root};
use crate::host::{self, KernelModes};
use crate::nri::{self, BoxError, Setup};
use std::sync::Arc;

/// What decisions are made from: read once, and again (without NVML, which may take seconds) at every
/// registration.
pub(super) struct Node {
    root: Root,
    pub config: Config,
    pub machine: Arc<Machine>,
    kernel: KernelModes,
    /// Where a runtime's update of a container can rewrite its device rules: under cgroup v1.
    rewrites_devices: bool,
    /// Where the launcher lies on this host.
    pub launcher: Option<String>,
}

impl Node {
    pub fn new(root: Root, config: Config, rewrites_devices: bool) -> Result<Self, CliError> {
        let machine = Arc::new(Machine::new(root.clone(), &config.gpu.driver_root)?);
        let kernel = host::mempolicy::kernel_modes();
        Ok(Self { root, config, machine, kernel, rewrites_devices, launcher: None })
    }

    pub fn prepare(&mut self, host: &nri::Host) -> Result<Setup, BoxError> {
        // Only the runtime that launched us passes one on, and only the first time.
        if !host.config.trim().is_empty() {
            self.config = Config::parse(&host.config, "the configuration the runtime passes on")?;
        }
        let config = self.config.clone();
        let state =
            State::new(Arc::new(self.machine.now()?), &config.reserve(), &config.gpu.annotation_pool)?;
        state.ledger().machine().check_options(&config.policy.cpu)?;
        let mut settings =
            config.settings(state.ledger().machine().reserved().clone(), self.kernel_features());
        settings.launcher = self.launcher.clone();
        settings.authority = self.authority(config.authority);
        if settings.mode == Mode::Enforce {
            can_swap(&settings, host)?;
        }
        Ok(Setup { state, settings })
    }

    /// What the kernel can do; the runtime's part is filled in where the registration is.
    fn kernel_features(&self) -> Features {
        let KernelModes { preferred_many, weighted_interleave } = self.kernel;
        let rewrites_devices = self.rewrites_devices;
        Features { preferred_many, weighted_interleave, rewrites_devices, ..Features::default() }
    }

    /// Two managers must not hand out the same CPUs: where the kubelet's static policy does, it is followed.
    fn authority(&self, authority: Authority) -> CpuAuthority {
        let found = discover::kubelet_cpu_manager(&self.root).unwrap_or_else(|error| {
            tracing::warn!(%error, "the kubelet's CPU Manager policy cannot be read: taken as not static");
            None
        });
        let is_static = found.as_ref().is_some_and(|manager| manager.policy == "static");
        let (policy, source) = found.map_or_else(
            || ("none".to_owned(), "no file or flag says otherwise".to_owned()),
            |manager| (manager.policy, manager.source),
        );
        let decided = match (authority, is_static) {
            (Authority::Auto, true) | (Authority::Kubelet, _) => CpuAuthority::Kubelet,
            (Authority::Auto, false) | (Authority::Maitred, _) => CpuAuthority::Maitred,
        };
        let name = match decided {
            CpuAuthority::Kubelet => "kubelet",
            CpuAuthority::Maitred => "maitred",
        };
        tracing::info!(authority = name, kubelet_policy = policy, source, "who picks exclusive CPUs");
        match (authority, is_static) {
            (Authority::Maitred, true) => tracing::warn!(
                source,
                "the kubelet's CPU Manager policy is static: it hands out CPUs too; set it to none, or authority to auto"
            ),
            (Authority::Kubelet, false) => tracing::warn!(
                source,
                "the kubelet's CPU Manager policy is not static: nobody gives out exclusive CPUs; set authority to auto"
            ),
            _ => {}
        }
        decided
    }
}

/// Other GPUs than the device plugin's are given whole or not at all, so the runtime must be able to take a device
/// away again, and every CPU must be ours to fit around them.
fn can_swap(settings: &Settings, host: &nri::Host) -> Result<(), BoxError> {
    let Features { remove_devices, add_cdi, .. } = host.features();
    let word = match settings.gpu_placement {
        GpuPlacement::Keep => return Ok(()),
        GpuPlacement::Repair => "repair",
        GpuPlacement::Choose => "choose",
    };
    if !(remove_devices && add_cdi) {
        return Err(format!(
            "gpu.placement = \"{word}\" takes devices away from containers, which needs NRI 0.10 or later (containerd \
             2.2): this is {host}; use \"keep\""
        )
        .into());
    }
    if settings.authority == CpuAuthority::Kubelet {
        return Err(format!(
            "gpu.placement = \"{word}\" cannot be had while the kubelet's CPU Manager gives out the CPUs: use \"keep\", \
             or set its policy to none"
        )
        .into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nri::{Host, Version};

    /// A machine of one CPU whose kubelet has that CPU Manager policy, and the node it is under `config`.
    fn node(kubelet: &str, config: &str) -> (tempfile::TempDir, Node) {
        let dir = tempfile::tempdir().unwrap();
        let state = format!(r#"{{"policyName":"{kubelet}","defaultCpuSet":"","checksum":1}}"#);
        for (path, text) in [
            ("sys/devices/system/cpu/online", "0"),
            ("sys/devices/system/cpu/cpu0/topology/physical_package_id", "0"),
            ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0"),
            ("proc/meminfo", "MemTotal: 1024 kB"),
            ("var/lib/kubelet/cpu_manager_state", &state),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let config = Config::parse(&format!("version = 1\n{config}"), "a test").unwrap();
        let node = Node::new(Root::open(dir.path()).unwrap(), config, false).unwrap();
        (dir, node)
    }

    fn host(config: &str) -> Host {
        Host {
            runtime: "containerd".into(),
            runtime_version: "2.1.9".into(),
            nri: None,
            request_timeout: None,
            config: config.into(),
        }
    }

    #[test]
    fn a_static_kubelet_is_followed_unless_told_otherwise() {
        for (kubelet, config, authority) in [
            ("none", "", CpuAuthority::Maitred),
            ("static", "", CpuAuthority::Kubelet),
            ("static", "authority = \"maitred\"", CpuAuthority::Maitred),
            ("none", "authority = \"kubelet\"", CpuAuthority::Kubelet),
        ] {
            let (_dir, mut node) = node(kubelet, config);
            let settings = node.prepare(&host("")).unwrap().settings;
            assert_eq!(
                (settings.authority, settings.mode),
                (authority, Mode::Enforce),
                "{kubelet}, {config}"
            );
        }
    }

    #[test]
    fn gpus_are_not_swapped_where_the_runtime_cannot_take_one_away() {
        let refused = |kubelet: &str, runtime_version: &str, config: &str| {
            let (_dir, mut node) = node(kubelet, config);
            let host =
                Host { runtime_version: runtime_version.into(), nri: Version::parse("0.8.0"), ..host("") };
            let host = match runtime_version {
                "2.2.0" => Host { nri: Version::parse("0.10.0"), ..host },
                _ => host,
            };
            node.prepare(&host).err().map(|error| error.to_string())
        };
        let swaps = "[gpu]\nplacement = \"repair\"";
        let error = refused("none", "2.1.9", swaps).unwrap();
        assert!(
            error.contains("needs NRI 0.10 or later (containerd 2.2): this is containerd 2.1.9"),
            "{error}"
        );
        assert_eq!(refused("none", "2.2.0", swaps), None);
        assert_eq!(refused("none", "2.1.9", "mode = \"audit\"\n[gpu]\nplacement = \"choose\""), None);
        assert_eq!(refused("none", "2.1.9", ""), None);
        assert!(refused("static", "2.2.0", swaps).unwrap().contains("CPU Manager gives out the CPUs"));
    }

    #[test]
    fn the_runtimes_configuration_goes_before_the_files() {
        let (_dir, mut node) = node("none", "");
        let passed = node.prepare(&host("version = 1\nmode = \"audit\"")).unwrap();
        assert_eq!(passed.settings.mode, Mode::Audit);
        let error = node.prepare(&host("mood = 1")).err().unwrap().to_string();
        assert!(
            error.starts_with("the configuration the runtime passes on:1: unknown field `mood`"),
            "{error}"
        );
    }
}
