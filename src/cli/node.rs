//! This node as `status`, `explain` and `verify` find it: the daemon, the shared store, the cgroups, and the
//! reducer's state as whoever decides next would have it.

use super::names::Names;
use super::{CliError, driver};
use crate::config::Config;
use crate::decision::{Event, Known, Settings, State, step};
use crate::discover::{self, Root};
use crate::host::{self, Cgroups, FoundContainer};
use crate::model::ContainerKey;
use crate::oci::{self, Books, Bundle, Entries, Party, free_pages};
use crate::store::{Allocation, DEFAULT_DIR, Notice, Off, Store, Told};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the runtimes keep the `config.json` of what lives: before and after the container's id. containerd's state
/// directory, that of RKE2's and k3s's containerd, and CRI-O's.
const BUNDLES: [[&str; 2]; 3] = [
    ["run/containerd/io.containerd.runtime.v2.task/k8s.io", "config.json"],
    ["run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io", "config.json"],
    ["run/containers/storage/overlay-containers", "userdata/config.json"],
];

/// Where a node is: this one, or the files of another.
#[derive(Debug, Clone, clap::Args)]
pub struct Place {
    /// The configuration [default: /etc/maitred/config.toml, if there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Read the machine from DIR/sys, DIR/proc and DIR/run/maitred
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub sysroot: PathBuf,
    /// Where allocations are kept [default: run/maitred below the sysroot]
    #[arg(long, value_name = "DIR", hide = true)]
    pub store: Option<PathBuf>,
}

impl Place {
    /// The store's directory.
    pub(super) fn store_dir(&self) -> PathBuf {
        let below = || self.sysroot.join(DEFAULT_DIR.trim_start_matches('/'));
        self.store.clone().unwrap_or_else(below)
    }

    /// The machine's files.
    pub(super) fn root(&self) -> Result<Root, CliError> {
        match self.sysroot == Path::new("/") {
            true => Ok(Root::host()),
            false => Root::open(&self.sysroot).map_err(CliError::Sysroot),
        }
    }
}

/// This node, read once.
pub(super) struct Node {
    pub config: Config,
    pub root: Root,
    /// Where `proc` and `sys` are.
    pub sysroot: PathBuf,
    pub settings: Settings,
    /// What is held, as whoever decides next has it: from the allocations that live, and nobody's container yet.
    pub state: State,
    /// Those allocations, and how each is.
    pub living: Vec<(Allocation, Known)>,
    /// Allocations whose containers have ended with their pods.
    pub dead: Vec<ContainerKey>,
    /// `None`: this machine has no cpuset hierarchy, so nothing can run in one.
    pub cgroups: Option<Cgroups>,
    pub notice: Option<Notice>,
    /// The daemon's process, if it runs.
    pub daemon: Option<u32>,
    pub off: Option<Off>,
    pub journal: Vec<Told>,
    pub names: Names,
    /// What is not as it should be, in words.
    pub notes: Vec<String>,
}

impl Node {
    /// Reads it.
    ///
    /// # Errors
    /// The configuration, the machine or the store cannot be read.
    pub fn read(place: &Place) -> Result<Self, CliError> {
        let config = Config::load(place.config.as_deref())?;
        let root = place.root()?;
        let topology = discover::topology(&root, &driver::options_or_note(&root, &config.gpu.driver_root));
        let topology = Arc::new(topology.map_err(CliError::Discover)?);
        let machine = |source| CliError::Machine { origin: place.sysroot.display().to_string(), source };
        let state = State::new(topology, &config.reserve(), &config.gpu.annotation_pool).map_err(machine)?;
        let settings = config.settings(state.ledger().machine().reserved().clone(), Default::default());
        let mut node = Self {
            config,
            settings,
            state,
            living: Vec::new(),
            dead: Vec::new(),
            cgroups: Cgroups::find(&place.sysroot).ok(),
            notice: None,
            daemon: None,
            off: None,
            journal: Vec::new(),
            names: Names::default(),
            notes: Vec::new(),
            root,
            sysroot: place.sysroot.clone(),
        };
        if let Some(store) = Store::look(&place.store_dir())? {
            node.open(&store, &place.sysroot)?;
        }
        node.names = Names::read(&node.root, &node.journal);
        Ok(node)
    }

    fn open(&mut self, store: &Store, sysroot: &Path) -> Result<(), CliError> {
        self.notice = store.notice()?;
        self.off = store.is_off()?;
        self.journal = store.journal()?;
        self.daemon = self.running(store, sysroot);
        let Some(cgroups) = &self.cgroups else { return Ok(()) };
        let Entries { living, dead, unclear } = Books { store, cgroups, root: sysroot }.read()?;
        self.notes.extend(unclear);
        (self.living, self.dead) = (living, dead);
        self.take_in();
        Ok(())
    }

    /// The daemon's process: the one that left the notice, or (an older one leaves none) that of the lock file.
    fn running(&self, store: &Store, sysroot: &Path) -> Option<u32> {
        let noticed = self.notice.as_ref().and_then(|notice| notice.process);
        match noticed {
            Some(process) => {
                let same = host::start_time(sysroot, process.pid) == Some(process.start);
                same.then_some(process.pid)
            }
            None => oci::daemon(store, sysroot),
        }
    }

    /// Whoever decides next takes the allocations in like this.
    fn take_in(&mut self) {
        let known = self.living.iter().map(|(_, known)| known.clone()).collect();
        let outcome = step(&mut self.state, Event::Elsewhere(known), &self.settings);
        self.notes.extend(outcome.verdicts.into_iter().map(|verdict| {
            let container = verdict.container.map(|name| format!("/{name}")).unwrap_or_default();
            format!("{}{container}: {}", verdict.pod_uid, verdict.reason)
        }));
        let Some(cgroups) = &self.cgroups else { return };
        match free_pages(&self.root, cgroups, self.state.hugepage_holders()) {
            Ok(pages) => drop(step(&mut self.state, Event::Pages(pages), &self.settings)),
            Err(error) => self.notes.push(format!("free huge pages are by the books alone: {error}")),
        }
    }

    /// The running containers of the CRI, without sandboxes; `None` where cgroups cannot be listed.
    pub fn containers(&self) -> Option<Vec<FoundContainer>> {
        let all = self.cgroups.as_ref()?.containers().ok()?;
        Some(all.into_iter().filter(|one| self.is_running_app(one)).collect())
    }

    /// It runs something, and is not the one that only keeps a sandbox's namespaces.
    fn is_running_app(&self, one: &FoundContainer) -> bool {
        let Some(cgroups) = &self.cgroups else { return false };
        let Ok(pids) = cgroups.processes(&one.cgroups_path) else { return false };
        let name = pids.first().and_then(|pid| host::name(&self.sysroot, *pid));
        name.is_some_and(|name| !self.is_sandbox(one.id.as_str()).unwrap_or(name == "pause"))
    }

    /// By the configuration that the runtime keeps while a container lives; `None` where there is none to be read.
    fn is_sandbox(&self, id: &str) -> Option<bool> {
        Some(self.party(id)?.is_sandbox)
    }

    /// A container as the runtime's own configuration of it says; `None` where there is none to be read.
    pub fn party(&self, id: &str) -> Option<Party> {
        let paths = BUNDLES.map(|[before, after]| self.sysroot.join(format!("{before}/{id}/{after}")));
        let bundle = paths.iter().find_map(|path| Bundle::read(path).ok())?;
        Some(bundle.party(id))
    }

    /// Whether two spellings name the same cgroup.
    pub fn is_same_cgroup(&self, one: &str, other: &str) -> bool {
        self.cgroups.as_ref().is_some_and(|cgroups| cgroups.is_same(one, other))
    }
}
