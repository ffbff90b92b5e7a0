//! The runtime wrapper: `create` and `run` have their bundle's container seated first; then, as with every other
//! verb at once, the runtime itself takes this process over.

use super::arguments::{Call, Making, Verb};
use super::books;
use super::bundle::Bundle;
use super::desk::{Desk, Place, Seated};
use super::edit::Change;
use super::facts::Party;
use super::surroundings::Surroundings;
use super::{OciError, find, handover, journal, place, settle, unheard};
use crate::config::{Config, ConfigError};
use crate::decision::{Delivery, Features};
use crate::host::{Cgroups, RuntimeFeatures, mempolicy};
use crate::model::one_line;
use crate::store::{By, DEFAULT_DIR};
use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The name of a link to this program that makes it the wrapper.
pub const LINK: &str = "maitred-runtime";

/// What the wrapper can still change: everything but what CDI names stand for, which its caller has expanded. Memory
/// policies the runtime sets itself where it can; else it inherits ours.
fn features(runtime: &Path, desk: &Desk, party: &Party) -> Features {
    let wanted = desk.config.memory.mode.is_some() || party.asks_for_policy();
    // Asking a runtime costs a process, the first time: only where the answer is of use.
    let wanted = wanted && desk.config.memory.delivery != Some(Delivery::Cpuset);
    let runtime = wanted.then(|| RuntimeFeatures::of(runtime, desk.store.dir()).ok()).flatten();
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
        _ => surroundings.config_text().ok().flatten().and_then(|text| Config::runtime_path(&text)),
    };
    let runtime = match find::runtime(named.as_deref()) {
        Ok(runtime) => runtime,
        Err(error) => return fail(&call, &error.to_string()),
    };
    let stopped = match (&call.verb, loaded) {
        (Verb::Make(making), Some(loaded)) => make(&surroundings, loaded, &call, making, &runtime).err(),
        (Verb::Make(making), None) => {
            take_back(making);
            None
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
    let text = format!("maitred: {}", one_line(text));
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
    runtime: &Path,
) -> Result<(), String> {
    let id = making.id.to_string_lossy();
    let mut bundle = match Bundle::read(&making.config) {
        Ok(bundle) => bundle,
        // It may be there for the runtime, which reads its arguments itself.
        Err(error) => return surroundings.unknown(loaded, error).map_err(|error| error.to_string()),
    };
    let mut party = bundle.party(&id);
    if party.is_sandbox {
        return Ok(());
    }
    let trouble = bundle.take_trouble();
    let place = |desk: &Desk| {
        let cgroups = cgroups(&desk.cgroups, &bundle, &id, call.systemd)?;
        Ok(Place::planned(books::process(Path::new("/"), std::process::id()), cgroups))
    };
    let (desk, place) = match Desk::open_for(surroundings, loaded, By::Runtime, trouble, place) {
        Ok(opened) => opened,
        Err(unready) => {
            let answer = unready.answer(&party, place);
            if answer.is_ok() {
                write_back(bundle);
            }
            return answer.map_err(|rejection| journal::refusal(&rejection, party.in_kubernetes));
        }
    };
    let desk = Desk { features: features(runtime, &desk, &party), ..desk };
    let chosen = desk.config.memory.delivery.is_some();
    party.container.cgroups_path = place.cgroups.first().cloned().unwrap_or_default();
    let (hook, read) = (settle::hook(surroundings), bundle.text());
    let mut is_changed = false;
    let mut change = |change: &Change<'_>| {
        let edit = change.edit;
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
        bundle.change(change, hook.as_deref())?;
        if bundle.text() != read {
            bundle.write()?;
        }
        is_changed = true;
        Ok(())
    };
    unheard::warn(&party);
    match desk.seat(&party, place, &mut change) {
        Seated::Fine if is_changed => Ok(()),
        Seated::Fine => {
            write_back(bundle);
            Ok(())
        }
        Seated::Refused(rejection) => Err(journal::refusal(&rejection, party.in_kubernetes)),
    }
}

/// The container starts as it came: so it does where an earlier run of its bundle was placed. What cannot be read the
/// runtime names.
fn take_back(making: &Making) {
    if let Ok(bundle) = Bundle::read(&making.config) {
        write_back(bundle);
    }
}

fn write_back(mut bundle: Bundle) {
    if bundle.take_back()
        && let Err(error) = bundle.write()
    {
        tracing::warn!(%error, "an earlier placement stays in the configuration");
    }
}

/// The cgroups that the container can get.
fn cgroups(there: &Cgroups, bundle: &Bundle, id: &str, systemd: bool) -> Result<Vec<String>, OciError> {
    let own = there.of_process(Path::new("/"), "self")?;
    place::to_be_had(place::candidates(bundle.cgroups_path(), id, systemd, own.as_deref()), id, there)
}

/// What has ended meanwhile goes back to the others. The container that is deleted has, if the deletion can succeed.
fn tidy(surroundings: &Surroundings, loaded: Result<Config, ConfigError>) {
    if let Ok(desk) = Desk::open(surroundings, loaded, By::Runtime)
        && let Err(error) = desk.tidy(None)
    {
        tracing::warn!(%error, "what has ended is released by the next step");
    }
}
