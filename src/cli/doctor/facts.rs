//! What the checks look at, read once.

use super::daemon::Daemon;
use super::kernel::Kernel;
use super::runtime::Runtime;
use crate::cli::driver::{self, Silent};
use crate::config::{Authority, Config};
use crate::discover::containerd::Containerd;
use crate::discover::kubelet::{Distribution, KubeletSettings, kubelet_cpu_state, kubelet_memory_policy};
use crate::discover::{
    self, KubeletCpuState, Machine, Place, PluginFile, Process, Root, Said, Sockets, kubelet_devices,
    nri_plugins, processes,
};
use crate::model::{Allotment, ContainerName, CpuSet, PodUid};
use crate::nri::Version;
use crate::store::Off;
use std::collections::BTreeMap;

/// Where plugins lie unless containerd's configuration says otherwise.
const PLUGINS: &str = "/opt/nri/plugins";
/// Where the configuration lies.
const CONFIG: &str = "etc/maitred/config.toml";
/// Where the switch lies.
const OFF: &str = "run/maitred/off";

/// Something that was read, or why it could not be.
pub type Known<T> = Result<T, String>;

/// Devices the kubelet gave, by pod and container.
pub type Devices = BTreeMap<PodUid, BTreeMap<ContainerName, Allotment>>;

/// A node, as far as it was gathered.
pub struct Facts {
    /// Its files.
    pub root: Root,
    /// RKE2 or k3s.
    pub distribution: Option<Distribution>,
    /// The unit to restart for the kubelet.
    pub unit: String,
    /// What the kubelet is told.
    pub kubelet: KubeletSettings,
    /// Its CPU manager's state; `None` is no file.
    pub cpu_state: Known<Option<KubeletCpuState>>,
    /// The policy of its memory manager's state; `None` is no file.
    pub memory_state: Known<Option<String>>,
    /// The devices it gave; `None` is no file.
    pub devices: Known<Option<Devices>>,
    /// CPUs, nodes, devices.
    pub machine: Known<Machine>,
    /// NVIDIA's driver, where it does not answer: GPUs are as the kernel tells then.
    pub silent: Option<Silent>,
    /// containerd's configuration.
    pub containerd: Containerd,
    /// Which containerd and runc these are.
    pub runtime: Runtime,
    /// Every process.
    pub processes: Option<Vec<Process>>,
    /// Unix sockets; `None` is no file.
    pub sockets: Known<Option<Sockets>>,
    /// The directory of NRI plugins.
    pub plugin_dir: String,
    /// What is in it; `None` is no directory.
    pub plugins: Known<Option<Vec<PluginFile>>>,
    /// maitred's configuration, defaults where there is no file.
    pub config: Known<Config>,
    /// The file of it.
    pub config_file: Place,
    /// Whether that is there.
    pub configured: bool,
    /// The switch.
    pub off: Known<Option<Off>>,
    /// maitred's daemon.
    pub daemon: Daemon,
    /// What the kernel tells of itself.
    pub kernel: Kernel,
}

impl Facts {
    /// Reads them. `config` is the text of another configuration than the node's own, with its name.
    #[must_use]
    pub fn read(root: Root, config: Option<(String, String)>) -> Self {
        let distribution = Distribution::find(&root);
        let kubelet = KubeletSettings::read(&root, distribution.as_ref());
        let runtime = Runtime::read(&root, distribution.as_ref());
        let old = |written: u32| runtime.version().map_or(written < 3, |version| version.major < 2);
        let containerd = Containerd::read(&root, distribution.as_ref(), old);
        let said = containerd.text(discover::containerd::NRI, &["plugin_path"]);
        let plugin_dir = said.map_or_else(|| PLUGINS.to_owned(), |said| said.value);
        let (config, config_file, configured) = configuration(&root, config);
        let all = processes(&root);
        let sockets = known(Sockets::read(&root));
        let driver_root = config.as_ref().ok().map(|config| config.gpu.driver_root.as_path());
        let (options, silent) = driver::options(&root, driver_root);
        Self {
            unit: distribution.as_ref().map_or_else(|| "kubelet".to_owned(), |found| found.unit(&root)),
            cpu_state: known(kubelet_cpu_state(&root, &kubelet.state_dir())),
            memory_state: known(kubelet_memory_policy(&root, &kubelet.state_dir())),
            devices: known(kubelet_devices(&root)),
            machine: known(discover::machine(&root, &options)),
            silent,
            plugins: known(nri_plugins(&root, plugin_dir.trim_start_matches('/'))),
            off: off(&root),
            daemon: Daemon::find(&root, all.as_deref(), sockets.as_ref().ok().and_then(Option::as_ref)),
            kernel: Kernel::read(&root),
            processes: all,
            sockets,
            plugin_dir,
            containerd,
            runtime,
            kubelet,
            distribution,
            config,
            config_file,
            configured,
            root,
        }
    }

    /// Whether there is any sign of a kubelet.
    #[must_use]
    pub fn has_kubelet(&self) -> bool {
        let told = self.kubelet.running || self.distribution.is_some();
        told || !self.kubelet.unread.is_empty()
            || matches!(self.root.text(&self.kubelet.config), Ok(Some(_)))
            || matches!(self.cpu_state, Ok(Some(_)) | Err(_))
    }

    /// Whether what the kubelet is told could be seen at all: a plain kubelet may be told everything by flags.
    #[must_use]
    pub fn sees_settings(&self) -> bool {
        self.kubelet.running
            || self.distribution.is_some()
            || matches!(self.root.text(&self.kubelet.config), Ok(Some(_)))
    }

    /// The kubelet's CPU Manager policy, as it is told; its own default is `none`.
    #[must_use]
    pub fn cpu_policy(&self) -> Said<String> {
        let told = self.kubelet.word("cpuManagerPolicy");
        told.unwrap_or_else(|| Said {
            value: "none".to_owned(),
            place: Place::words("the kubelet's default"),
        })
    }

    /// Whether the kubelet hands out CPUs: by its state file, which is what is in force, else by what it is told.
    #[must_use]
    pub fn kubelet_is_static(&self) -> bool {
        match &self.cpu_state {
            Ok(Some(state)) => state.policy == "static",
            _ => self.cpu_policy().value == "static",
        }
    }

    /// Whether maitred leaves the CPUs to the kubelet.
    #[must_use]
    pub fn kubelet_decides(&self) -> bool {
        match self.config.as_ref().map_or(Authority::Auto, |config| config.authority) {
            Authority::Auto => self.kubelet_is_static(),
            Authority::Kubelet => true,
            Authority::Maitred => false,
        }
    }

    /// The CPUs the kubelet keeps for the system; the inner error is the text that is no list.
    #[must_use]
    pub fn kubelet_reserved(&self) -> Option<Said<Known<CpuSet>>> {
        let said = self.kubelet.word("reservedSystemCPUs")?;
        Some(said.map(|text| text.parse().map_err(|error| format!("{text}: {error}"))))
    }

    /// How to tell the kubelet something, by its flag and by its configuration's line.
    #[must_use]
    pub fn tell_kubelet(&self, flag: &str, line: &str) -> String {
        match &self.distribution {
            Some(found) => format!(
                "in /{}, in the list kubelet-arg:\n  - \"{flag}\"\nthen: systemctl restart {}",
                found.config, self.unit
            ),
            None => format!("in /{}:\n  {line}\nthen: systemctl restart {}", self.kubelet.config, self.unit),
        }
    }

    /// How to tell containerd something.
    #[must_use]
    pub fn tell_containerd(&self, lines: &str) -> String {
        let Some(found) = &self.distribution else {
            let main = &self.containerd.main;
            return format!("in /{main}:\n{lines}\nthen: systemctl restart containerd");
        };
        let restart = format!("then: systemctl restart {}", self.unit);
        let dir = format!("/{}/agent/etc/containerd", found.data_dir);
        let dropped =
            self.containerd.imports.iter().filter_map(|import| import.value.strip_suffix("/*.toml"));
        if let Some(drop_ins) = dropped.into_iter().next_back() {
            return format!("in {drop_ins}/90-maitred.toml:\n{lines}\n{restart}");
        }
        let template = if self.containerd.version >= 3 { "config-v3.toml.tmpl" } else { "config.toml.tmpl" };
        format!(
            "in {dir}/{template} (a new one begins with the line {{{{ template \"base\" . }}}}; a table that is there \
             already gets the line, it must not stand twice):\n{lines}\n{restart}"
        )
    }

    /// The CRI's table as this configuration calls it.
    #[must_use]
    pub fn cri_table(&self) -> &'static str {
        let old = self.runtime.version().is_some_and(|version| version.major < 2);
        match old || (self.containerd.is_there && self.containerd.version < 3) {
            true => "[plugins.\"io.containerd.grpc.v1.cri\"]",
            false => "[plugins.\"io.containerd.cri.v1.runtime\"]",
        }
    }

    /// Whether containerd is at least that version; `None` where its version is not known.
    #[must_use]
    pub fn containerd_is(&self, major: u32, minor: u32) -> Option<bool> {
        let Version { major: is, minor: and, .. } = self.runtime.version()?;
        Some((is, and) >= (major, minor))
    }
}

/// The file and not the value, for places: what was tried is in the error's text.
pub(super) fn known<T, E: std::fmt::Display>(read: Result<T, E>) -> Known<T> {
    read.map_err(|error| error.to_string())
}

fn configuration(root: &Root, given: Option<(String, String)>) -> (Known<Config>, Place, bool) {
    if let Some((text, name)) = given {
        return (known(Config::parse(&text, &name)), Place::words(&name), true);
    }
    let place = Place::file(CONFIG);
    match root.text(CONFIG) {
        Ok(Some(text)) => (known(Config::parse(&text, &place.file)), place, true),
        Ok(None) => (Ok(Config::default()), place, false),
        Err(error) => (Err(error.to_string()), place, true),
    }
}

fn off(root: &Root) -> Known<Option<Off>> {
    match root.place(OFF) {
        Ok(None) => Ok(None),
        Ok(Some(path)) => known(Off::read(&path)),
        Err(error) => Err(error.to_string()),
    }
}
