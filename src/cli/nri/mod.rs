//! `maitred nri`: the daemon.

mod files;
mod node;

use super::shared::Shared;
use super::watching::Watching;
use super::{CliError, Exit};
use crate::config::Config;
use crate::discover::{Kubelet, Root};
use crate::host::{self, privileges};
use crate::log;
use crate::nri::{self, Around, Options, Seating, Transport};
use crate::store::Store;
use files::Files;
use node::Node;
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
    let mut log = log::start_aside(config.log)?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        mode = ?config.mode,
        policy = %config.policy.topology,
        scope = %config.policy.scope,
        "starting"
    );
    let store = open_store(&args.store)?;
    let inherited = std::env::var("NRI_PLUGIN_SOCKET").ok();
    // The one that containerd launches stays: containerd 1.7 does not start where a plugin of its own ends at once.
    let take = |store: &Store| match inherited {
        Some(_) => store.take_over_daemon(nri::MAKE_ROOM),
        None => store.lock_daemon(),
    };
    let lock = store.as_ref().map(take).transpose()?;
    // Before the first thread: capabilities belong to threads.
    privileges::keep_only(privileges::DAEMON)?;
    let start = |source| nri::NriError::Start { what: "the log's thread", source };
    log.begin(std::io::stderr()).map_err(start)?;
    let root = match args.sysroot == Path::new("/") {
        true => Root::host(),
        false => Root::open(&args.sysroot).map_err(CliError::Sysroot)?,
    };
    let host_cgroups = host::Cgroups::find(Path::new("/"))?;
    let hints = Arc::new(Shared::new(store.clone(), host_cgroups.clone(), config.failure.deadline));
    let cgroups = Files::new(host_cgroups.clone(), root.clone(), Arc::clone(&hints))?;
    let kubelet = Kubelet::new(root.clone(), podresources_budget(config.failure.deadline));
    let witness = Watching::start(&config, store.as_ref())
        .map_err(|source| nri::NriError::Start { what: "the journal's thread", source })?;
    let mut node = Node::new(root, config, !host_cgroups.is_v2())?;
    node.launcher = launcher(&args.store);
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
    let ending = nri::run(&options, seating)?;
    // Kept until the process has ended: whoever waits for the lock wants the port of the metrics, too.
    std::mem::forget(lock);
    Ok(match ending {
        nri::Ending::Stopped => Exit::Fine,
        nri::Ending::MadeRoom => Exit::MadeRoom,
    })
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
