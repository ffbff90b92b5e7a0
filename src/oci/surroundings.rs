//! What a hook or the wrapper needs before it can decide, and the answer where that is not to be had.

use super::desk::{Desk, Place, Seated, say};
use super::facts::Party;
use super::{OciError, journal};
use crate::config::{self, Config, ConfigError, LogLevel};
use crate::decision::{self, Event, FailurePolicy, Features, Mode, Reply};
use crate::discover::Root;
use crate::host::Cgroups;
use crate::model::{CpuSet, Rejection};
use crate::store::{By, Links, Store, open_regular};
use std::io::{ErrorKind, Read};
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
        let text = self.config_text()?;
        let origin = self.config_path().display().to_string();
        text.map_or_else(|| Ok(Config::default()), |text| Config::parse(&text, &origin))
    }

    /// Its text; `None` is no file at the usual place.
    pub(super) fn config_text(&self) -> Result<Option<String>, ConfigError> {
        let path = self.config_path();
        // Nobody may be kept waiting here, by whatever else stands there.
        let read = || {
            let mut text = String::new();
            open_regular(path, Links::Followed)?.read_to_string(&mut text)?;
            std::io::Result::Ok(text)
        };
        match read() {
            Ok(text) => Ok(Some(text)),
            Err(error) if self.config.is_none() && error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
        }
    }

    fn config_path(&self) -> &Path {
        self.config.as_deref().unwrap_or(Path::new(config::DEFAULT_PATH))
    }

    /// The answer where not even the container is known, so that nobody can say that it is exempt: an error is why
    /// it must not start.
    pub(super) fn unknown(
        &self,
        loaded: Result<Config, ConfigError>,
        error: OciError,
    ) -> Result<(), OciError> {
        journal::start(&self.log, loaded.as_ref().map_or(LogLevel::Info, |config| config.log.level));
        let config = loaded.unwrap_or_default();
        match config.mode == Mode::Enforce && config.failure.policy == FailurePolicy::Reject {
            true => {
                tracing::error!(%error, "maitred could not decide: refused");
                Err(error)
            }
            false => {
                tracing::warn!(%error, "maitred could not decide: let through unpinned");
                Ok(())
            }
        }
    }

    fn root(&self) -> Result<Root, OciError> {
        match self.sysroot == Path::new("/") {
            true => Ok(Root::host()),
            false => Ok(Root::open(&self.sysroot)?),
        }
    }
}

/// A desk that could not be opened, with what is needed to answer all the same.
pub(super) struct Unready {
    config: Config,
    by: By,
    error: OciError,
    /// What could be opened.
    desk: Option<Desk>,
}

impl Unready {
    /// Whether a container may start although nothing can be decided about it. One that may is kept in the books, where
    /// those could be opened and it can be told where it is.
    pub fn answer(
        &self,
        party: &Party,
        place: impl FnOnce(&Desk) -> Result<Place, OciError>,
    ) -> Result<(), Box<Rejection>> {
        if let Seated::Refused(rejection) = fail(&self.config, self.by, party, &self.error) {
            return Err(rejection);
        }
        if let Some(desk) = &self.desk
            && let Ok(place) = place(desk)
        {
            desk.let_through(party, place, &mut |_| Ok(()));
        }
        Ok(())
    }

    /// Why.
    pub fn into_error(self: Box<Self>) -> OciError {
        self.error
    }
}

impl Desk {
    /// Opens it for one container, and finds out where that is or will be. `trouble` is what else keeps anybody from
    /// deciding about it.
    pub fn open_for(
        surroundings: &Surroundings,
        loaded: Result<Config, ConfigError>,
        by: By,
        trouble: Option<OciError>,
        place: impl FnOnce(&Self) -> Result<Place, OciError>,
    ) -> Result<(Self, Place), Box<Unready>> {
        let desk = Self::open(surroundings, loaded, by)?;
        match trouble.map_or_else(|| place(&desk), Err) {
            Ok(place) => Ok((desk, place)),
            Err(error) => Err(Box::new(Unready { config: desk.config.clone(), by, error, desk: Some(desk) })),
        }
    }

    /// Starts the log and opens what a decision needs. A configuration that cannot be used leaves the defaults to say
    /// who is exempt.
    pub fn open(
        surroundings: &Surroundings,
        loaded: Result<Config, ConfigError>,
        by: By,
    ) -> Result<Self, Box<Unready>> {
        let level = loaded.as_ref().map_or(LogLevel::Info, |config| config.log.level);
        journal::start(&surroundings.log, level);
        let config = loaded.map_err(|error| {
            Box::new(Unready { config: Config::default(), by, error: error.into(), desk: None })
        })?;
        let open = || {
            let dir = &surroundings.store;
            if dir.is_relative() {
                return Err(OciError::RelativeStore { dir: dir.clone() });
            }
            let store = Store::open(&surroundings.store)?;
            let (root, cgroups) = (surroundings.root()?, Cgroups::find(Path::new("/"))?);
            Ok((store, root, cgroups))
        };
        match open() {
            Ok((store, root, cgroups)) => {
                Ok(Self { config, store, root, cgroups, by, features: Features::default() })
            }
            Err(error) => Err(Box::new(Unready { config, by, error, desk: None })),
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
