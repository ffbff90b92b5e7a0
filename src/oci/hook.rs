//! The stages of an OCI hook. What a stage can still change differs: `precreate` the whole configuration,
//! `prestart` and `createRuntime` the cgroup alone, `poststop` gives back.

use super::bundle::Bundle;
use super::desk::{Desk, Place, Seated};
use super::error::io;
use super::facts::Party;
use super::surroundings::{Surroundings, Unready};
use super::{OciError, books, journal, place};
use crate::decision::{Edit, Features};
use crate::model::Rejection;
use crate::store::By;
use oci_spec::runtime::State;
use std::io::{Read, Write};
use std::path::Path;

/// A stage of a container's life at which a hook of ours may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before the runtime knows of it: its configuration on standard input, the edited one on standard output.
    Precreate,
    /// The older name of [`Self::CreateRuntime`].
    Prestart,
    /// It has its namespaces and its cgroup, and nothing of it runs yet.
    CreateRuntime,
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
    let mut input = String::new();
    let stdin = Path::new("standard input");
    std::io::stdin().read_to_string(&mut input).map_err(io("read", stdin))?;
    match stage {
        Stage::Precreate => precreate(input, surroundings),
        Stage::Prestart | Stage::CreateRuntime => create_runtime(&input, surroundings),
        Stage::Poststop => poststop(&input, surroundings),
    }
}

fn precreate(input: String, surroundings: &Surroundings) -> Result<Ruling, OciError> {
    let path = Path::new("the configuration on standard input");
    let mut bundle = Bundle::parse(input, path)?;
    if !surroundings.is_off() {
        let cgroups_path = bundle.cgroups_path().map(str::to_owned);
        let id = cgroups_path.as_deref().and_then(place::id_of).map(str::to_owned);
        let id = id.ok_or_else(|| OciError::NoId { path: path.to_owned() })?;
        let party = bundle.party(&id);
        let caller = u32::try_from(nix::unistd::getppid().as_raw()).unwrap_or_default();
        let place = Place {
            holder: books::process(Path::new("/"), caller),
            cgroups: place::candidates(cgroups_path.as_deref(), &id, false, None),
        };
        let opened = open(surroundings).map(|desk| Desk { features: in_time(&desk, &party), ..desk });
        let ruling = seat(opened, &party, place, |edit| bundle.edit(edit));
        if ruling != Ruling::Fine {
            return Ok(ruling);
        }
    }
    let stdout = Path::new("standard output");
    std::io::stdout().write_all(bundle.text().as_bytes()).map_err(io("write", stdout))?;
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

fn open(surroundings: &Surroundings) -> Result<Desk, Box<Unready>> {
    Desk::open(surroundings, surroundings.config(), By::Hook)
}

fn create_runtime(input: &str, surroundings: &Surroundings) -> Result<Ruling, OciError> {
    let state: State = serde_json::from_str(input).map_err(OciError::NoState)?;
    let pid = state.pid().filter(|pid| *pid > 0).ok_or(OciError::State { what: "pid" })?;
    if state.id().is_empty() {
        return Err(OciError::State { what: "id" });
    }
    if surroundings.is_off() {
        return Ok(Ruling::Fine);
    }
    let bundle = Bundle::read(&state.bundle().join("config.json"))?;
    let mut party = bundle.party(state.id());
    let desk = match open(surroundings) {
        Ok(desk) => desk,
        Err(unready) => return Ok(ruling(unready.answer(&party), &party)),
    };
    // Wherever the runtime has put it, and however its configuration spells that.
    let cgroup = desk.cgroups.of_process(Path::new("/"), &pid.to_string())?.ok_or(OciError::Gone { pid })?;
    party.container.cgroups_path.clone_from(&cgroup);
    let place = Place {
        holder: u32::try_from(pid).ok().and_then(|pid| books::process(Path::new("/"), pid)),
        cgroups: vec![cgroup.clone()],
    };
    let cgroups = desk.cgroups.clone();
    let change = |edit: &Edit| in_cgroup(&cgroups, &cgroup, edit);
    Ok(seat(Ok(desk), &party, place, change))
}

/// All that can be changed of a container that has been made.
fn in_cgroup(cgroups: &crate::host::Cgroups, cgroup: &str, edit: &Edit) -> Result<(), OciError> {
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

fn poststop(input: &str, surroundings: &Surroundings) -> Result<Ruling, OciError> {
    let state: State = serde_json::from_str(input).map_err(OciError::NoState)?;
    if state.id().is_empty() {
        return Err(OciError::State { what: "id" });
    }
    if !surroundings.is_off() {
        let desk = open(surroundings).map_err(|unready| unready.into_error())?;
        desk.tidy(Some(&state.id().as_str().into()))?;
    }
    Ok(Ruling::Fine)
}

fn seat(
    opened: Result<Desk, Box<Unready>>,
    party: &Party,
    place: Place,
    change: impl FnOnce(&Edit) -> Result<(), OciError>,
) -> Ruling {
    if party.is_sandbox {
        return Ruling::Fine;
    }
    match opened {
        Err(unready) => ruling(unready.answer(party), party),
        Ok(desk) => match desk.seat(party, place, change) {
            Seated::Fine => Ruling::Fine,
            Seated::Refused(rejection) => ruling(Err(rejection), party),
        },
    }
}

fn ruling(answer: Result<(), Box<Rejection>>, party: &Party) -> Ruling {
    match answer {
        Ok(()) => Ruling::Fine,
        Err(rejection) => Ruling::Refused(journal::refusal(&rejection, party.in_kubernetes)),
    }
}
