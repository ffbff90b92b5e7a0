//! The stages of an OCI hook. What a stage can still change differs: `precreate` the whole configuration,
//! `prestart` and `createRuntime` the cgroup alone, `poststop` gives back.

use super::bundle::{self, Bundle};
use super::desk::{Changing, Desk, Place, Seated};
use super::error::io;
use super::facts::Party;
use super::surroundings::Surroundings;
use super::{OciError, books, journal, place, settle, unheard};
use crate::decision::{Edit, Features};
use crate::host::Cgroups;
use crate::model::Rejection;
use crate::store::By;
use oci_spec::runtime::State;
use std::io::Write;
use std::path::Path;

/// What a container is called of which nobody told the id.
const UNNAMED: &str = "unnamed";

/// A stage of a container's life at which a hook of ours may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before the runtime knows of it: its configuration on standard input, the edited one on standard output.
    Precreate,
    /// The older name of [`Self::CreateRuntime`].
    Prestart,
    /// It has its namespaces and its cgroup, and nothing of it runs yet.
    CreateRuntime,
    /// As [`Self::CreateRuntime`], of a container on the shared CPUs whose configuration we have edited.
    Settle,
    /// It has ended.
    Poststop,
}

/// What a hook came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The runtime goes on.
    Fine,
    /// The container must not start: the text its user should see.
    Refused(String),
}

/// Runs a stage.
///
/// # Errors
/// What came on standard input is wrong, or the system failed after nothing could be refused any more.
pub fn run(stage: Stage, surroundings: &Surroundings) -> Result<Ruling, OciError> {
    let input = bundle::whole(std::io::stdin().lock(), Path::new("standard input"))?;
    match stage {
        Stage::Precreate => precreate(&input, surroundings),
        Stage::Prestart | Stage::CreateRuntime => create_runtime(&input, surroundings),
        Stage::Settle => {
            settle::run(&input, surroundings);
            Ok(Ruling::Fine)
        }
        Stage::Poststop => poststop(&input, surroundings),
    }
}

fn precreate(input: &[u8], surroundings: &Surroundings) -> Result<Ruling, OciError> {
    if surroundings.is_off() {
        return as_it_came(input);
    }
    let path = Path::new("the configuration on standard input");
    let mut bundle = match Bundle::parse(input, path) {
        Ok(bundle) => bundle,
        Err(error) => {
            surroundings.unknown(surroundings.config(), error)?;
            return hand_on(input);
        }
    };
    let cgroups_path = bundle.cgroups_path().map(str::to_owned);
    let id = cgroups_path.as_deref().and_then(place::id_of);
    let party = bundle.party(id.unwrap_or(UNNAMED));
    if party.is_sandbox {
        return hand_on(input);
    }
    let trouble = bundle.take_trouble();
    let place = |desk: &Desk| {
        let id = id.ok_or_else(|| OciError::NoId { path: path.into() })?;
        // podman spells it so for systemd alone.
        let systemd = cgroups_path.as_deref().is_some_and(|path| path.contains(':'));
        let all = place::candidates(cgroups_path.as_deref(), id, systemd, None);
        let cgroups = place::to_be_had(all, id, &desk.cgroups)?;
        Ok(Place::planned(books::caller(Path::new("/")), cgroups))
    };
    let (desk, place) = match Desk::open_for(surroundings, surroundings.config(), By::Hook, trouble, place) {
        Ok(opened) => opened,
        Err(unready) => {
            return match ruling(unready.answer(&party, place), &party) {
                Ruling::Fine => hand_back(bundle, input),
                refused => Ok(refused),
            };
        }
    };
    let desk = Desk { features: in_time(&desk, &party), ..desk };
    let (hook, mut is_changed) = (settle::hook(surroundings), false);
    let ruling = seat(&desk, &party, place, &mut |change| {
        bundle.change(change, hook.as_deref())?;
        is_changed = true;
        Ok(())
    });
    match ruling {
        Ruling::Fine if is_changed => hand_on(bundle.text().as_bytes()),
        Ruling::Fine => hand_back(bundle, input),
        refused => Ok(refused),
    }
}

/// Nothing is decided about it: without an earlier edit of ours where there is one, else byte for byte.
fn as_it_came(input: &[u8]) -> Result<Ruling, OciError> {
    match Bundle::parse(input, Path::new("the configuration on standard input")) {
        Ok(bundle) => hand_back(bundle, input),
        Err(_) => hand_on(input),
    }
}

fn hand_back(mut bundle: Bundle, input: &[u8]) -> Result<Ruling, OciError> {
    match bundle.take_back() {
        true => hand_on(bundle.text().as_bytes()),
        false => hand_on(input),
    }
}

fn hand_on(configuration: &[u8]) -> Result<Ruling, OciError> {
    let stdout = Path::new("standard output");
    std::io::stdout().write_all(configuration).map_err(io("write", stdout))?;
    Ok(Ruling::Fine)
}

/// What can be changed while there is only the configuration. The runtime comes later, as a child of whoever has
/// started us: it inherits nothing of ours, and which one it is nobody says.
fn in_time(desk: &Desk, party: &Party) -> Features {
    let modes = desk.kernel_modes(party);
    Features {
        memory_policy: false,
        preferred_many: modes.preferred_many,
        weighted_interleave: modes.weighted_interleave,
        inherits_policy: false,
        args: true,
        add_cdi: false,
        remove_devices: true,
        ..Features::default()
    }
}

/// The state of a container that has been made, and its first process.
pub(super) fn made(input: &[u8]) -> Result<(State, i32), OciError> {
    let state: State = serde_json::from_slice(input).map_err(OciError::NoState)?;
    let pid = state.pid().filter(|pid| *pid > 0).ok_or(OciError::State { what: "pid" })?;
    Ok((state, pid))
}

fn create_runtime(input: &[u8], surroundings: &Surroundings) -> Result<Ruling, OciError> {
    let (state, pid) = made(input)?;
    if state.id().is_empty() {
        return Err(OciError::State { what: "id" });
    }
    if surroundings.is_off() {
        return Ok(Ruling::Fine);
    }
    let mut bundle = match Bundle::read(&state.bundle().join("config.json")) {
        Ok(bundle) => bundle,
        Err(error) => {
            return surroundings.unknown(surroundings.config(), error).map(|()| Ruling::Fine);
        }
    };
    let mut party = bundle.party(state.id());
    if party.is_sandbox {
        return Ok(Ruling::Fine);
    }
    let trouble = bundle.take_trouble();
    let place = |desk: &Desk| {
        let cgroup = cgroup_of(&desk.cgroups, pid, state.id(), bundle.cgroups_path())?;
        Ok(Place::made(pid, cgroup))
    };
    let (desk, place) = match Desk::open_for(surroundings, surroundings.config(), By::Hook, trouble, place) {
        Ok(opened) => opened,
        Err(unready) => return Ok(ruling(unready.answer(&party, place), &party)),
    };
    let cgroup = place.cgroups.first().cloned().unwrap_or_default();
    party.container.cgroups_path.clone_from(&cgroup);
    Ok(seat(&desk, &party, place, &mut |change| in_cgroup(&desk.cgroups, &cgroup, change.edit)))
}

/// Wherever the runtime has put it, and however its configuration spells that: but never where others are, too.
fn cgroup_of(there: &Cgroups, pid: i32, id: &str, cgroups_path: Option<&str>) -> Result<String, OciError> {
    let (cgroup, shared) = put_into(there, pid)?;
    match shared && !place::is_of(&cgroup, id, cgroups_path, there) {
        true => Err(OciError::Shared { cgroup }),
        false => Ok(cgroup),
    }
}

/// The cgroup of a container's first process, and whether it is ours as well: a runtime that makes no cgroup leaves its
/// container in that of its caller, where others are, too.
pub(super) fn put_into(there: &Cgroups, pid: i32) -> Result<(String, bool), OciError> {
    let of = |pid: &str| there.of_process(Path::new("/"), pid);
    let cgroup = of(&pid.to_string())?.ok_or(OciError::Gone { pid })?;
    let shared = of("self")?.as_ref() == Some(&cgroup);
    Ok((cgroup, shared))
}

/// All that can be changed of a container that has been made.
pub(super) fn in_cgroup(cgroups: &Cgroups, cgroup: &str, edit: &Edit) -> Result<(), OciError> {
    let too_late = |what| Err(OciError::TooLate { what, stage: "createRuntime" });
    if !edit.env.is_empty() {
        return too_late("the environment that names its GPUs");
    }
    if !edit.mounts.is_empty() || !edit.devices.is_empty() || !edit.remove_devices.is_empty() {
        return too_late("its devices and mounts");
    }
    if edit.cpus.is_some() || edit.mems.is_some() {
        let there = cgroups.observe(cgroup)?.unwrap_or_default();
        let same = edit.cpus.as_ref().is_none_or(|cpus| there.cpus.as_ref() == Some(cpus))
            && edit.mems.as_ref().is_none_or(|mems| there.mems.as_ref() == Some(mems));
        if !same {
            let cpus = edit.cpus.clone().or(there.cpus).unwrap_or_default();
            cgroups.write_cpuset(cgroup, &cpus, edit.mems.as_ref())?;
        }
    }
    // Where the cpu hierarchy (v1) knows no such cgroup, nothing throttles the container there.
    if edit.drop_quota
        && let Err(error) = cgroups.drop_quota(cgroup)
        && !error.is_gone()
    {
        return Err(error.into());
    }
    Ok(())
}

fn poststop(input: &[u8], surroundings: &Surroundings) -> Result<Ruling, OciError> {
    let state: State = serde_json::from_slice(input).map_err(OciError::NoState)?;
    if state.id().is_empty() {
        return Err(OciError::State { what: "id" });
    }
    if !surroundings.is_off() {
        let desk = Desk::open(surroundings, surroundings.config(), By::Hook);
        let desk = desk.map_err(|unready| unready.into_error())?;
        desk.tidy(Some(&state.id().as_str().into()))?;
    }
    Ok(Ruling::Fine)
}

fn seat(desk: &Desk, party: &Party, place: Place, change: Changing<'_>) -> Ruling {
    unheard::warn(party);
    match desk.seat(party, place, change) {
        Seated::Fine => Ruling::Fine,
        Seated::Refused(rejection) => ruling(Err(rejection), party),
    }
}

fn ruling(answer: Result<(), Box<Rejection>>, party: &Party) -> Ruling {
    match answer {
        Ok(()) => Ruling::Fine,
        Err(rejection) => Ruling::Refused(journal::refusal(&rejection, party.in_kubernetes)),
    }
}
