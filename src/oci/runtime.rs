//! The runtime wrapper: `create` and `run` have their bundle's container seated first; then, as with every other
//! verb at once, the runtime itself takes this process over.

use super::arguments::{Call, Making, Verb};
use super::books;
use super::bundle::Bundle;
use super::desk::{Desk, Place, Seated};
use super::facts::Party;
use super::surroundings::Surroundings;
use super::{OciError, find, handover, journal, place};
use crate::config::{Config, ConfigError};
use crate::decision::{Delivery, Edit, Features};
use crate::host::{RuntimeFeatures, mempolicy};
use crate::store::{By, DEFAULT_DIR};
use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The name of a link to this program that makes it the wrapper.
pub const LINK: &str = "maitred-runtime";

/// What the wrapper can still change: everything but what CDI names stand for, which its caller has expanded. Memory
/// policies the runtime sets itself where it can; else it inherits ours.
fn features(runtime: Option<&Path>, desk: &Desk, party: &Party) -> Features {
    let wanted = desk.config.memory.mode.is_some() || party.asks_for_policy();
    // Asking a runtime costs a process, the first time: only where the answer is of use.
    let runtime = runtime.filter(|_| wanted && desk.config.memory.delivery != Some(Delivery::Cpuset));
    let runtime = runtime.and_then(|runtime| RuntimeFeatures::of(runtime, desk.store.dir()).ok());
    let runtime = runtime.unwrap_or_default();
    let kernel = desk.kernel_modes(party);
    let modes = runtime.narrow(kernel);
    Features {
        memory_policy: runtime.sets_policies(),
        preferred_many: modes.preferred_many,
        weighted_interleave: modes.weighted_interleave,
        inherits_policy: desk.root.is_host(),
        args: true,
        add_cdi: false,
        remove_devices: true,
        ..Features::default()
    }
}

/// Plays the runtime with these arguments (after the program's name). Returns the exit status only where the
/// container must not start, or where there is no runtime.
#[must_use]
pub fn run(arguments: &[OsString]) -> u8 {
    let surroundings = Surroundings::of_process();
    let call = Call::parse(arguments);
    let loaded = (call.verb != Verb::Other && !surroundings.is_off()).then(|| surroundings.config());
    let named = match &loaded {
        Some(Ok(config)) => config.runtime.clone(),
        _ => Config::runtime_path(surroundings.config.as_deref()),
    };
    let runtime = find::runtime(named.as_deref());
    let stopped = match (&call.verb, loaded) {
        (Verb::Make(making), Some(loaded)) => {
            make(&surroundings, loaded, &call, making, runtime.as_deref()).err()
        }
        (Verb::Delete, Some(loaded)) => {
            tidy(&surroundings, loaded);
            None
        }
        _ => None,
    };
    if let Some(text) = stopped {
        return fail(&call, &text);
    }
    let Some(runtime) = runtime else {
        return fail(
            &call,
            "no runtime found: expected runc, crun or youki on PATH, or [runtime] path in the configuration",
        );
    };
    match handover::exec(&runtime, arguments) {
        Ok(never) => match never {},
        Err(error) => fail(&call, &error.to_string()),
    }
}

impl Surroundings {
    /// Of the wrapper: its arguments are the runtime's, so only the environment can say anything.
    #[must_use]
    pub fn of_process() -> Self {
        let path = |name: &str| env::var_os(name).map(PathBuf::from);
        let or = |name: &str, default: &str| path(name).unwrap_or_else(|| default.into());
        Self {
            config: path("MAITRED_CONFIG"),
            store: or("MAITRED_STORE", DEFAULT_DIR),
            sysroot: or("MAITRED_SYSROOT", "/"),
            log: or("MAITRED_HOOK_LOG", journal::DEFAULT_LOG),
        }
    }
}

/// Where both a person and containerd, which reads the runtime's log, find it.
fn fail(call: &Call, text: &str) -> u8 {
    let text = format!("maitred: {text}");
    if let Some(log) = &call.log {
        journal::in_runtime_log(log, call.json_log, &text);
    }
    // Nobody is left to tell when standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
    1
}

/// Seats the container; an error is why it must not start.
fn make(
    surroundings: &Surroundings,
    loaded: Result<Config, ConfigError>,
    call: &Call,
    making: &Making,
    runtime: Option<&Path>,
) -> Result<(), String> {
    let id = making.id.to_string_lossy();
    let path = making.config.clone().unwrap_or_else(|| making.bundle.join("config.json"));
    let mut bundle = match Bundle::read(&path) {
        Ok(bundle) => bundle,
        // The runtime says so in its own words.
        Err(OciError::Io { .. }) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let mut party = bundle.party(&id);
    if party.is_sandbox {
        return Ok(());
    }
    let mut opened = Desk::open(surroundings, loaded, By::Runtime);
    if let Ok(desk) = &mut opened {
        desk.features = features(runtime, desk, &party);
    }
    let chosen = opened.as_ref().is_ok_and(|desk| desk.config.memory.delivery.is_some());
    let own =
        opened.as_ref().ok().and_then(|desk| desk.cgroups.of_process(Path::new("/"), "self").ok().flatten());
    let cgroups = place::candidates(bundle.cgroups_path(), &id, call.systemd, own.as_deref());
    party.container.cgroups_path = cgroups.first().cloned().unwrap_or_default();
    let place = Place { holder: books::process(Path::new("/"), std::process::id()), cgroups };
    let change = |edit: &Edit| {
        // Set here, inherited by the runtime this process becomes, and by what that starts.
        if let (Some(policy), Some(Delivery::Inherited)) = (&edit.memory_policy, edit.delivery) {
            match mempolicy::set_own(policy) {
                // Nobody asked for this way, and cpuset.mems is the limit without it.
                Err(error) if !chosen => {
                    tracing::warn!(%error, "cpuset.mems alone says where memory is from")
                }
                set => set?,
            }
        }
        let before = bundle.text().to_owned();
        bundle.edit(edit)?;
        if bundle.text() == before { Ok(()) } else { bundle.write() }
    };
    match opened.map(|desk| desk.seat(&party, place, change)) {
        Ok(Seated::Fine) => Ok(()),
        Ok(Seated::Refused(rejection)) => Err(journal::refusal(&rejection, party.in_kubernetes)),
        Err(unready) => {
            unready.answer(&party).map_err(|rejection| journal::refusal(&rejection, party.in_kubernetes))
        }
    }
}

/// What has ended meanwhile goes back to the others. The container that is deleted has, if the deletion can succeed.
fn tidy(surroundings: &Surroundings, loaded: Result<Config, ConfigError>) {
    if let Ok(desk) = Desk::open(surroundings, loaded, By::Runtime)
        && let Err(error) = desk.tidy(None)
    {
        tracing::warn!(%error, "what has ended is released by the next step");
    }
}
