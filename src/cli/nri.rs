//! `maitred nri`: the daemon.

use super::{CliError, Exit};
use crate::config::{Authority, Config};
use crate::decision::{CpusetUpdate, Mode, Observed, Pages, PagesByNode, State};
use crate::discover::{self, DiscoverError, NvmlLibrary, Root};
use crate::host::{self, privileges};
use crate::ledger::Record;
use crate::log;
use crate::model::{ContainerId, ContainerKey, Gpu, Topology};
use crate::nri::{self, BoxError, Options, Seating, Setup, Transport};
use crate::store::{Loaded, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Run as NRI plugin of containerd
///
/// Connects to containerd's NRI socket, or takes the connection over when containerd started it from its plugin
/// directory; then it is called NN-maitred there and takes no arguments.
///
/// Needs root, gives up every capability at its start, and reads the GPUs then: where a driver is loaded later,
/// start it again.
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
    let cgroups = Files { cgroups: host::Cgroups::find(Path::new("/"))?, root: root.clone() };
    let mut node = Node::new(root, config)?;
    let inherited = std::env::var("NRI_PLUGIN_SOCKET").ok();
    let options = Options {
        name: args.name.clone(),
        index: args.index.clone(),
        transport: Transport::new(inherited.as_deref(), &args.socket)?,
        deadline: node.config.failure.deadline,
    };
    let hints = Arc::new(Remembering(store.clone()));
    let prepare = move |host: &nri::Host| node.prepare(host);
    let seating = Seating::new(prepare, Arc::new(cgroups), hints, move || is_off(store.as_ref()));
    nri::run(&options, seating)?;
    drop(lock);
    Ok(Exit::Fine)
}

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
    gpus: Vec<Gpu>,
}

/// A runtime waits five seconds for a plugin it launched; a sick driver can take longer than that to answer.
const NVML_PATIENCE: Duration = Duration::from_secs(3);

impl Node {
    fn new(root: Root, config: Config) -> Result<Self, CliError> {
        let gpus = gpus(&root, &config)?;
        Ok(Self { root, config, gpus })
    }

    fn prepare(&mut self, host: &nri::Host) -> Result<Setup, BoxError> {
        // Only the runtime that launched us passes one on, and only the first time.
        if !host.config.trim().is_empty() {
            self.config = Config::parse(&host.config, "the configuration the runtime passes on")?;
        }
        let config = self.config.clone();
        let topology = Topology { gpus: self.gpus.clone(), ..read(&self.root, NvmlLibrary::Off)? };
        let state = State::new(Arc::new(topology), &config.reserve(), &config.gpu.annotation_pool)?;
        state.ledger().machine().check_options(&config.policy.cpu)?;
        let mut settings = config.settings(state.ledger().machine().reserved().clone(), host.features());
        if settings.mode == Mode::Enforce && self.kubelet_decides(config.authority) {
            settings.mode = Mode::Audit;
        }
        Ok(Setup { state, settings })
    }

    /// Two managers must not hand out the same CPUs. What the kubelet's static policy decides is not ours to
    /// change, and this version cannot follow it either.
    fn kubelet_decides(&self, authority: Authority) -> bool {
        let state = discover::kubelet_cpu_policy(&self.root).unwrap_or_else(|error| {
            tracing::warn!(%error, "the kubelet's CPU Manager state cannot be read: taken as not static");
            None
        });
        let is_static = state.is_some_and(|state| state.policy == "static");
        match (is_static, authority) {
            (false, _) => {}
            (true, Authority::Auto) => tracing::error!(
                "the kubelet's CPU Manager policy is static (cpu_manager_state): only auditing; set it to none, \
                 or authority = \"maitred\" to enforce all the same"
            ),
            (true, Authority::Maitred) => tracing::warn!(
                "the kubelet's CPU Manager policy is static (cpu_manager_state): it hands out CPUs too; set it to none"
            ),
        }
        is_static && authority == Authority::Auto
    }
}

fn read(root: &Root, nvml: NvmlLibrary) -> Result<Topology, DiscoverError> {
    let mut options = discover::Options::for_root(root, None);
    options.nvml = nvml;
    discover::topology(root, &options)
}

/// The GPUs through NVML, or as the kernel shows them where the driver does not answer in time.
fn gpus(root: &Root, config: &Config) -> Result<Vec<Gpu>, CliError> {
    let options = discover::Options::for_root(root, Some(&config.gpu.driver_root));
    let (send, receive) = mpsc::channel();
    let theirs = root.clone();
    std::thread::spawn(move || send.send(discover::topology(&theirs, &options)));
    let read = match receive.recv_timeout(NVML_PATIENCE) {
        Ok(read) => read,
        Err(_) => {
            tracing::error!(
                patience_s = NVML_PATIENCE.as_secs(),
                "NVML does not answer: GPUs as the kernel shows them"
            );
            read(root, NvmlLibrary::Off)
        }
    };
    read.map(|topology| topology.gpus).map_err(CliError::Discover)
}

/// The store behind what the daemon remembers.
struct Remembering(Option<Store>);

impl nri::Hints for Remembering {
    fn load(&self) -> Vec<Record> {
        let Some(store) = &self.0 else { return Vec::new() };
        let loaded = store.load().unwrap_or_else(|error| {
            tracing::warn!(%error, "what is remembered of stopped containers cannot be read");
            Loaded::default()
        });
        for skipped in &loaded.skipped {
            tracing::warn!("{skipped}");
        }
        let mut records = Vec::new();
        for (key, json) in loaded.records {
            match Record::parse(&json) {
                Ok(record) if record.key == key => records.push(record),
                Ok(record) => {
                    tracing::warn!(%key, found = %record.key, "an allocation file speaks of another container")
                }
                Err(error) => tracing::warn!(%key, %error, "an allocation file cannot be understood"),
            }
        }
        records
    }

    fn keep(&self, key: &ContainerKey, record: Option<&Record>) {
        let Some(store) = &self.0 else { return };
        let kept = match record {
            Some(record) => store.put(key, &record.to_json()),
            None => store.remove(key).map(|_| ()),
        };
        if let Err(error) = kept {
            tracing::warn!(%key, %error, "a container's seat is not remembered: it may lose it if maitred restarts while it is stopped");
        }
    }
}

/// Real cgroups and nodes behind what the daemon asks of them.
struct Files {
    cgroups: host::Cgroups,
    root: Root,
}

impl nri::Cgroups for Files {
    fn observe(&self, cgroups_path: &str) -> Result<Option<Observed>, BoxError> {
        Ok(self.cgroups.observe(cgroups_path)?)
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

    fn drop_pod_quota(&self, cgroup_parent: &str) -> Result<bool, BoxError> {
        Ok(self.cgroups.drop_pod_quota(cgroup_parent)?.is_some())
    }

    fn write(&self, update: &CpusetUpdate) -> Result<bool, BoxError> {
        match self.cgroups.write_cpuset(&update.cgroups_path, &update.cpus, update.mems.as_ref()) {
            Ok(()) => Ok(true),
            Err(error) if error.is_gone() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Placement;
    use crate::nri::{Hints, Host};

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
    fn beside_a_static_kubelet_it_only_audits_unless_told_otherwise() {
        for (kubelet, config, mode) in [
            ("none", "", Mode::Enforce),
            ("static", "", Mode::Audit),
            ("static", "authority = \"maitred\"", Mode::Enforce),
            ("none", "mode = \"audit\"", Mode::Audit),
        ] {
            let (_dir, mut node) = node(kubelet, config);
            assert_eq!(node.prepare(&host("")).unwrap().settings.mode, mode, "{kubelet}, {config}");
        }
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

    #[test]
    fn only_records_of_their_own_containers_are_remembered() {
        let run = tempfile::tempdir().unwrap();
        let store = Store::open(&run.path().join("maitred")).unwrap();
        let key = |name: &str| ContainerKey::new("uid".into(), name.into());
        let record = Record::new(&key("a"), &"id".into(), &Placement::default());
        let memory = Remembering(Some(store.clone()));
        memory.keep(&key("a"), Some(&record));
        store.put(&key("b"), &record.to_json()).unwrap();
        store.put(&key("c"), "{}").unwrap();

        assert_eq!(memory.load(), [record]);
        memory.keep(&key("a"), None);
        assert_eq!(memory.load(), []);
        assert_eq!(Remembering(None).load(), [], "without a store nothing is remembered and nothing fails");
    }
}
