//! The hook that a container on the shared CPUs is made with.
//!
//! Between the moment its CPUs are written into its configuration and the one its cgroup is there, others may take
//! some of them, and can write nothing: there is no cgroup yet, or its runtime is about to write it. Runtimes run
//! `createRuntime` hooks once they have written the cgroup, so this one, in its turn, gives it what it should have by
//! then, and whoever takes CPUs later finds the cgroup. It never keeps a container from starting.

use super::OciError;
use super::desk::{Desk, Place};
use super::edit::json;
use super::hook::{made, put_into};
use super::surroundings::Surroundings;
use crate::store::By;
use oci_spec::runtime::Hook;

const STAGE: &str = "settle";

/// Whether a hook of a configuration is this one.
pub(super) fn is_ours(hook: &str) -> bool {
    let hook: Option<Hook> = serde_json::from_str(hook).ok();
    let args = hook.and_then(|hook| hook.args().clone()).unwrap_or_default();
    matches!(args.as_slice(), [_, verb, stage, ..] if verb == "hook" && stage == STAGE)
}

/// The hook, as a configuration has it; `None` where this program cannot be named: one that is not found would keep
/// the container from starting.
pub(super) fn hook(surroundings: &Surroundings) -> Option<String> {
    let program = std::env::current_exe().ok().filter(|program| program.is_file())?;
    let mut args = vec!["maitred".to_owned(), "hook".to_owned(), STAGE.to_owned()];
    let places = [
        ("--config", surroundings.config.as_deref()),
        ("--store", Some(surroundings.store.as_path())),
        ("--log", Some(surroundings.log.as_path())),
        ("--sysroot", Some(surroundings.sysroot.as_path())),
    ];
    for (option, path) in places {
        let Some(path) = path else { continue };
        // It is run from another directory.
        args.extend([option.to_owned(), std::path::absolute(path).ok()?.to_str()?.to_owned()]);
    }
    let mut hook = Hook::default();
    hook.set_path(program).set_args(Some(args));
    Some(json(&hook))
}

/// Runs it.
pub(super) fn run(input: &[u8], surroundings: &Surroundings) {
    if surroundings.is_off() {
        return;
    }
    if let Err(error) = try_to_run(input, surroundings) {
        tracing::warn!(%error, "a shared container may be on CPUs that were given away meanwhile");
    }
}

fn try_to_run(input: &[u8], surroundings: &Surroundings) -> Result<(), OciError> {
    let (state, pid) = made(input)?;
    let desk = Desk::open(surroundings, surroundings.config(), By::Hook);
    let desk = desk.map_err(|unready| unready.into_error())?;
    match put_into(&desk.cgroups, pid)? {
        (_, true) => Ok(()),
        (cgroup, false) => desk.settle(&state.id().as_str().into(), Place::made(pid, cgroup)),
    }
}
