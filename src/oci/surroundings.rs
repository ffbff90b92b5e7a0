//! What a hook or the wrapper needs before it can decide, and the answer where that is not to be had.

use super::desk::{Desk, Seated, say};
use super::facts::Party;
use super::{OciError, journal};
use crate::config::{Config, ConfigError, LogLevel};
use crate::decision::{self, Event, Features, Reply};
use crate::discover::Root;
use crate::host::Cgroups;
use crate::model::{CpuSet, Rejection};
use crate::store::{By, Store};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where things are, for a hook by its arguments, for the wrapper by its environment.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The configuration; `None` is the usual place, where it may be absent.
    pub config: Option<PathBuf>,
    /// The directory of the shared store.
    pub store: PathBuf,
    /// Where the machine is read.
    pub sysroot: PathBuf,
    /// Where the log is written.
    pub log: PathBuf,
}

impl Surroundings {
    /// Whether the owner has switched maitred off. Looked at before anything else is opened.
    pub(super) fn is_off(&self) -> bool {
        Store::is_off_in(&self.store).is_ok_and(|off| off.is_some())
    }

    /// Reads the configuration.
    pub(super) fn config(&self) -> Result<Config, ConfigError> {
        Config::load(self.config.as_deref())
    }

    fn root(&self) -> Result<Root, OciError> {
        match self.sysroot == Path::new("/") {
            true => Ok(Root::host()),
            false => Ok(Root::open(&self.sysroot)?),
        }
    }
}

/// A desk that could not be opened, with what is needed to answer all the same.
#[derive(Debug)]
pub(super) struct Unready {
    config: Config,
    by: By,
    error: OciError,
}

impl Unready {
    /// Whether a container may start although nothing can be decided about it.
    pub fn answer(&self, party: &Party) -> Result<(), Box<Rejection>> {
        match fail(&self.config, self.by, party, &self.error) {
            Seated::Fine => Ok(()),
            Seated::Refused(rejection) => Err(rejection),
        }
    }

    /// Why.
    pub fn into_error(self: Box<Self>) -> OciError {
        self.error
    }
}

impl Desk {
    /// Starts the log and opens what a decision needs. A configuration that cannot be used leaves the defaults to say
    /// who is exempt.
    pub fn open(
        surroundings: &Surroundings,
        loaded: Result<Config, ConfigError>,
        by: By,
    ) -> Result<Self, Box<Unready>> {
        let level = loaded.as_ref().map_or(LogLevel::Info, |config| config.log.level);
        journal::start(&surroundings.log, level);
        let config = loaded
            .map_err(|error| Box::new(Unready { config: Config::default(), by, error: error.into() }))?;
        let open = || {
            let store = Store::open(&surroundings.store)?;
            let (root, cgroups) = (surroundings.root()?, Cgroups::find(Path::new("/"))?);
            Ok((store, root, cgroups))
        };
        match open() {
            Ok((store, root, cgroups)) => {
                Ok(Self { config, store, root, cgroups, by, features: Features::default() })
            }
            Err(error) => Err(Box::new(Unready { config, by, error })),
        }
    }
}

/// The answer where nothing could be decided, as the owner wants it.
pub(super) fn fail(config: &Config, by: By, party: &Party, error: &OciError) -> Seated {
    let settings = config.settings(CpuSet::new(), Features::default());
    let event = Event::Create(party.pod.clone(), party.container.clone());
    let outcome = decision::failure(&event, None, &settings, &error.to_string());
    say(by, &outcome.verdicts, Instant::now(), None);
    match outcome.reply {
        Reply::Refuse(rejection) => Seated::Refused(rejection),
        Reply::Nothing | Reply::Adjust(_) => Seated::Fine,
    }
}
