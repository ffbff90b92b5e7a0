//! `maitred nri`: the daemon.

use super::devices::Machine;
use super::shared::Shared;
use super::watching::Watching;
use super::{CliError, Exit};
use crate::config::{Authority, Config};
use crate::decision::{
    CpuAuthority, CpusetUpdate, Features, GpuPlacement, Mode, Observed, Pages, PagesByNode, Seen, Settings,
    State,
};
use crate::discover::{self, Kubelet, Root};
use crate::host::{self, KernelModes, privileges};
use crate::log;
use crate::model::{ContainerId, HugepageHints, HugepageSize, MountFacts, Placement};
use crate::nri::{self, Around, BoxError, Options, Seating, Setup, Transport};
use crate::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Run as NRI plugin of containerd
///
/// Connects to containerd's NRI socket, or takes the connection over when containerd started it from its plugin
/// directory; then it is called NN-maitred there and takes no arguments.
///
/// Needs root and gives up every capability but CAP_SYS_PTRACE at its start. Reads the GPUs then, and again after the
/// next event where a driver is loaded later.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The configuration [default: /etc/maitred/config.toml, if there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// containerd's NRI socket
    #[arg(long, value_name = "PATH", default_value = nri::DEFAULT_SOCKET)]
    pub socket: PathBuf,
    /// The name to register with
    #[arg(long, value_name = "NAME", env = "NRI_PLUGIN_NAME", default_value = nri::DEFAULT_NAME, value_parser = nri::plugin_name)]
    pub name: String,
    /// The place among the plugins, two digits
    #[arg(long, value_name = "NN", env = "NRI_PLUGIN_IDX", default_value = nri::DEFAULT_INDEX, value_parser = nri::plugin_index)]
    pub index: String,
    /// Read the machine from DIR/sys and DIR/proc
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub sysroot: PathBuf,
    /// Where allocations and the switch are kept
    #[arg(long, value_name = "DIR", default_value = crate::store::DEFAULT_DIR, hide = true)]
    pub store: PathBuf,
}

/// Runs the daemon until it is told to stop.
///
/// # Errors
/// The configuration is wrong, or the system failed.
pub fn run(args: &Args) -> Result<Exit, CliError> {
    let config = Config::load(args.config.as_deref())?;
    log::start(config.log)?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        mode = ?config.mode,
        policy = %config.policy.topology,
        scope = %config.policy.scope,
        "starting"
    );
    let store = open_store(&args.store)?;
    let lock = store.as_ref().map(Store::lock_daemon).transpose()?;
    // Before the first thread: capabilities belong to threads.
    privileges::keep_only(privileges::DAEMON)?;
    let root = match args.sysroot == Path::new("/") {
        true => Root::host(),
        false => Root::open(&args.sysroot).map_err(CliError::Sysroot)?,
    };
    let host_cgroups = host::Cgroups::find(Path::new("/"))?;
    let hints = Arc::new(Shared::new(store.clone(), host_cgroups.clone(), config.failure.deadline));
    let cgroups = Files::new(host_cgroups, root.clone(), Arc::clone(&hints))?;
    let kubelet = Kubelet::new(root.clone(), podresources_budget(config.failure.deadline));
    let witness = Watching::start(&config, store.as_ref())
        .map_err(|source| nri::NriError::Start { what: "the journal's thread", source })?;
    let mut node = Node::new(root, config)?;
    node.launcher = launcher(&args.store);
    let inherited = std::env::var("NRI_PLUGIN_SOCKET").ok();
    let options = Options {
        name: args.name.clone(),
        index: args.index.clone(),
        transport: Transport::new(inherited.as_deref(), &args.socket)?,
        deadline: node.config.failure.deadline,
    };
    let around = Around {
        cgroups: Arc::new(cgroups),
        hints,
        allotments: Arc::new(kubelet),
        devices: Arc::clone(&node.machine) as _,
        witness: Arc::new(witness),
    };
    let prepare = move |host: &nri::Host| node.prepare(host);
    let seating = Seating::new(prepare, around, move || is_off(store.as_ref()));
    nri::run(&options, seating)?;
    drop(lock);
    Ok(Exit::Fine)
}

/// How long a decision waits for the kubelet's podresources: a fraction of a millisecond is usual. Where the deadline
/// is short the decision needs most of it.
fn podresources_budget(deadline: Duration) -> Duration {
    PODRESOURCES_BUDGET.min(deadline / 4)
}

const PODRESOURCES_BUDGET: Duration = Duration::from_millis(100);

/// The store; without one the daemon goes on in memory where `/run` cannot be written.
fn open_store(dir: &Path) -> Result<Option<Store>, CliError> {
    match Store::open(dir) {
        Ok(store) => Ok(Some(store)),
        Err(error) if error.is_read_only() => {
            tracing::error!(%error, "going on in memory: maitred off will not be heard");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Where the launcher lies now; without one a policy is delivered in another way, or the owner is told.
fn launcher(store: &Path) -> Option<String> {
    let dirs = [store, Path::new(host::launcher::FALLBACK_DIR)];
    match host::launcher::install(Path::new(host::launcher::PACKAGED), &dirs) {
        Ok(path) => Some(path.display().to_string()),
        Err(error) => {
            tracing::warn!(%error, "the launcher is nowhere: no container can have it in front of its command");
            None
        }
    }
}

/// Whether the owner has switched maitred off. A switch that cannot be read switches nothing off.
fn is_off(store: Option<&Store>) -> bool {
    let Some(found) = store.map(Store::is_off) else { return false };
    found
        .unwrap_or_else(|error| {
            tracing::warn!(%error, "the switch of maitred off cannot be read");
            None
        })
        .is_some()
}

/// What decisions are made from: read once, and again (without NVML, which may take seconds) at every
/// registration.
struct Node {
    root: Root,
    config: Config,
    machine: Arc<Machine>,
    kernel: KernelModes,
    /// Where the launcher lies on this host.
    launcher: Option<String>,
}

impl Node {
    fn new(root: Root, config: Config) -> Result<Self, CliError> {
        let machine = Arc::new(Machine::new(root.clone(), &config.gpu.driver_root)?);
        Ok(Self { root, config, machine, kernel: host::mempolicy::kernel_modes(), launcher: None })
    }

    fn prepare(&mut self, host: &nri::Host) -> Result<Setup, BoxError> {
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
        Features { preferred_many, weighted_interleave, ..Features::default() }
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

/// Real cgroups and nodes behind what the daemon asks of them.
struct Files {
    cgroups: host::Cgroups,
    root: Root,
    shared: Arc<Shared>,
    /// The sizes of huge pages there are; booted with, and not changed after.
    page_sizes: BTreeSet<HugepageSize>,
}

impl Files {
    fn new(cgroups: host::Cgroups, root: Root, shared: Arc<Shared>) -> Result<Self, CliError> {
        let free = discover::free_hugepages(&root).map_err(CliError::Discover)?;
        let page_sizes = free.into_keys().map(|(_, size)| size).collect();
        Ok(Self { cgroups, root, shared, page_sizes })
    }
}

impl nri::Cgroups for Files {
    fn observe(&self, cgroups_path: &str) -> Result<Option<Observed>, BoxError> {
        Ok(self.cgroups.observe(cgroups_path)?)
    }

    fn is_there(&self, cgroups_path: &str) -> Result<bool, BoxError> {
        Ok(self.cgroups.look_for(cgroups_path)?)
    }

    fn is_pod_there(&self, cgroup_parent: &str) -> Result<bool, BoxError> {
        Ok(self.cgroups.look_for_pod(cgroup_parent)?)
    }

    fn hugepages(&self, holders: &[(ContainerId, String)]) -> Result<Pages, BoxError> {
        let free = discover::free_hugepages(&self.root)?;
        let sizes: BTreeSet<_> = free.keys().map(|(_, size)| *size).collect();
        let mut in_use = BTreeMap::new();
        for (id, path) in holders {
            let used: &mut PagesByNode = in_use.entry(id.clone()).or_default();
            for size in &sizes {
                match self.cgroups.hugepages_in_use(path, *size) {
                    Ok(by_node) => {
                        let by_node = by_node.unwrap_or_default().into_iter();
                        used.extend(by_node.map(|(node, bytes)| ((node, *size), bytes)));
                    }
                    // It has ended since; nothing of it can be read.
                    Err(error) if error.is_gone() => {}
                    Err(error) => {
                        tracing::warn!(container_id = %id, %error, "its use of huge pages cannot be read")
                    }
                }
            }
        }
        Ok(Pages { free, in_use })
    }

    fn hugepage_hints(&self, cgroup_parent: &str, mounts: &[MountFacts]) -> Result<HugepageHints, BoxError> {
        let mut hints = HugepageHints::default();
        for size in &self.page_sizes {
            match self.cgroups.pod_hugepage_limit(cgroup_parent, *size) {
                Ok(limit) => hints.of_pod.extend(limit.map(|limit| (*size, limit))),
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Most pods have a limit of none, and their mounts are of no interest.
        if hints.of_pod.values().any(|limit| limit.0 > 0) {
            let sources = mounts.iter().map(|mount| Path::new(&mount.source));
            hints.mounted = host::hugetlbfs_page_sizes(Path::new("/"), sources)?;
        }
        Ok(hints)
    }

    fn effective(&self, cgroups_path: &str, placement: &Placement) -> Result<Option<Seen>, BoxError> {
        Ok(self.cgroups.effective(Path::new("/"), cgroups_path, placement.page_sizes())?)
    }

    fn drop_pod_quota(&self, cgroup_parent: &str) -> Result<bool, BoxError> {
        Ok(self.cgroups.drop_pod_quota(cgroup_parent)?.is_some())
    }

    fn write(&self, update: &CpusetUpdate) -> Result<bool, BoxError> {
        match self.cgroups.write_cpuset(&update.cgroups_path, &update.cpus, update.mems.as_ref()) {
            Ok(()) => {
                self.shared.note_told(update);
                Ok(true)
            }
            Err(error) if error.is_gone() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
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
        let node = Node::new(Root::open(dir.path()).unwrap(), config).unwrap();
        (dir, node)
    }

    fn host(config: &str) -> Host {
        Host {
            runtime: "containerd".into(),
            runtime_version: "2.1.9".into(),
            nri: None,
            request_timeout: Duration::from_secs(2),
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
