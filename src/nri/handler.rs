//! The production handler: the reducer's state, the off switch, the cgroups and the log around it.

use super::Host;
use super::allotted::{Allotments, Allotted};
use super::chores::{Chores, Overtakes};
use super::decider::{Fallback, Handler, Poster, Rest};
use super::devices::{Devices, Refresher};
use super::ended::Found;
use super::hints::{Hints, Remembered};
use super::pages;
use super::proofs::{Due, Proofs};
use super::verdicts::VerdictLog;
use super::witness::Witness;
use crate::decision::{
    self, CpusetUpdate, Event, Features, Mode, Observed, Outcome, Pages, Reply, Seen, Settings, State,
};
use crate::model::{ContainerFacts, ContainerId, ContainerState, HugepageHints, MountFacts, Placement};
use std::any::Any;
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// An error of whatever the daemon was put together with.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Containers' cgroups, as much of them as the daemon needs.
pub trait Cgroups: Send + Sync {
    /// What a container has; `None` where its cgroup is not there (any more).
    ///
    /// # Errors
    /// It is there and cannot be read.
    fn observe(&self, cgroups_path: &str) -> Result<Option<Observed>, BoxError>;

    /// Whether a container's or a sandbox's cgroup is there.
    ///
    /// # Errors
    /// The path names none, or it cannot be looked for.
    fn is_there(&self, cgroups_path: &str) -> Result<bool, BoxError>;

    /// Whether a pod's own cgroup is there.
    ///
    /// # Errors
    /// As [`Cgroups::is_there`].
    fn is_pod_there(&self, cgroup_parent: &str) -> Result<bool, BoxError>;

    /// Sets a container's cpuset; `false` where its cgroup is not there any more.
    ///
    /// # Errors
    /// It is there and does not have what was written.
    fn write(&self, update: &CpusetUpdate) -> Result<bool, BoxError>;

    /// The machine's huge pages, and what these containers use of them.
    ///
    /// # Errors
    /// The free ones could not be read.
    fn hugepages(&self, holders: &[(ContainerId, String)]) -> Result<Pages, BoxError>;

    /// What tells of a container's huge pages where its limits do not.
    ///
    /// # Errors
    /// There are traces, and they cannot be read.
    fn hugepage_hints(&self, cgroup_parent: &str, mounts: &[MountFacts]) -> Result<HugepageHints, BoxError>;

    /// What a container has, with its huge pages of the sizes that its placement promises; `None` where its cgroup is
    /// not there (any more).
    ///
    /// # Errors
    /// It is there and cannot be read.
    fn effective(&self, cgroups_path: &str, placement: &Placement) -> Result<Option<Seen>, BoxError>;

    /// Takes the CFS quota off a pod's own cgroup; `false` where there was none.
    ///
    /// # Errors
    /// It could not be read or written.
    fn drop_pod_quota(&self, cgroup_parent: &str) -> Result<bool, BoxError>;
}

/// What decisions are made from.
pub struct Setup {
    /// An empty ledger over the machine; Synchronize fills it.
    pub state: State,
    /// What the owner decided. The runtime's features are filled in here, but for what the kernel knows.
    pub settings: Settings,
}

type Prepare = Box<dyn FnMut(&Host) -> Result<Setup, BoxError> + Send>;
type Switch = Arc<dyn Fn() -> bool + Send + Sync>;

/// What is read and written around decisions.
pub struct Around {
    /// Containers' cgroups.
    pub cgroups: Arc<dyn Cgroups>,
    /// What outlives the daemon.
    pub hints: Arc<dyn Hints>,
    /// The kubelet's exact requests.
    pub allotments: Arc<dyn Allotments>,
    /// Devices that come and go.
    pub devices: Arc<dyn Devices>,
    /// Who watches.
    pub witness: Arc<dyn Witness>,
}

/// Seats containers: [`decision::step`] with its surroundings.
pub struct Seating {
    prepare: Prepare,
    cgroups: Arc<dyn Cgroups>,
    hints: Arc<dyn Hints>,
    remembered: Remembered,
    allotments: Arc<dyn Allotments>,
    allotted: Allotted,
    devices: Refresher,
    witness: Arc<dyn Witness>,
    /// The generation of the ledger that was last shown to whoever watches.
    shown: Option<u64>,
    found: Found,
    off: Switch,
    current: Option<Current>,
    spare: Arc<Spare>,
    log: VerdictLog,
    chores: Option<Chores>,
    proofs: Option<Proofs>,
    /// Containers that have just started and have a placement to be held against.
    started: Vec<Due>,
    /// The runtime carries out what it was told: the cgroups are worth a look.
    sweep: bool,
}

struct Current {
    state: State,
    enforced: Settings,
    /// The same with [`Mode::Off`].
    off: Settings,
}

impl Seating {
    /// `prepare` is called at every registration, within the runtime's request timeout: what takes long is
    /// better done before. `off` is asked at every event.
    pub fn new(
        prepare: impl FnMut(&Host) -> Result<Setup, BoxError> + Send + 'static,
        around: Around,
        off: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let off: Switch = Arc::new(off);
        let (settings, log, allotted) = (Mutex::default(), Mutex::default(), Allotted::default());
        let witness = Arc::clone(&around.witness);
        let spare = Spare { settings, allotted: allotted.clone(), log, off: Arc::clone(&off), witness };
        Self {
            prepare: Box::new(prepare),
            cgroups: around.cgroups,
            hints: around.hints,
            remembered: Remembered::default(),
            allotments: around.allotments,
            allotted,
            devices: Refresher::new(around.devices),
            witness: around.witness,
            shown: None,
            found: Found::default(),
            off,
            current: None,
            spare: Arc::new(spare),
            log: VerdictLog::default(),
            chores: None,
            proofs: None,
            started: Vec::new(),
            sweep: false,
        }
    }

    /// Shows what is held to whoever watches, where it has changed.
    fn show(&mut self) {
        let Some(current) = &self.current else { return };
        let generation = current.state.ledger().generation();
        if self.shown.replace(generation) != Some(generation) {
            self.witness.holdings(&current.state, &current.enforced);
        }
    }

    /// The cgroups of all containers that have one.
    fn observed(&self, containers: &[ContainerFacts]) -> BTreeMap<ContainerId, Observed> {
        let live = containers.iter().filter(|container| container.state != ContainerState::Stopped);
        let read = live.filter_map(|container| {
            let seen = observe(&*self.cgroups, &container.id, &container.cgroups_path)?;
            Some((container.id.clone(), seen))
        });
        read.collect()
    }
}

/// What a cgroup has; a warning and `None` where it cannot be read.
pub(super) fn observe(cgroups: &dyn Cgroups, id: &ContainerId, path: &str) -> Option<Observed> {
    cgroups.observe(path).unwrap_or_else(|error| {
        tracing::warn!(container_id = %id, %error, "a container's cgroup cannot be read");
        None
    })
}

impl Handler for Seating {
    fn attach(&mut self, poster: Poster) {
        let wake = poster.clone();
        // An event about nothing: what others have changed is read before any.
        self.hints.watch(Box::new(move || wake.post(Event::Observe(BTreeMap::new()))));
        match Proofs::start(Arc::clone(&self.cgroups), Arc::clone(&self.witness)) {
            Ok(proofs) => self.proofs = Some(proofs),
            Err(error) => tracing::error!(%error, "containers will not be held against their placement"),
        }
        self.devices.attach(poster.clone());
        match Chores::start(Arc::clone(&self.cgroups), Arc::clone(&self.hints), poster) {
            Ok(chores) => self.chores = Some(chores),
            Err(error) => tracing::error!(%error, "cgroups will not be checked after starts"),
        }
    }

    /// A configuration that has become unusable while we ran does not unplug us: the last good one stays.
    fn configure(&mut self, host: &Host) -> Result<(), BoxError> {
        let mut setup = match ((self.prepare)(host), &self.current) {
            (Ok(setup), _) => setup,
            (Err(error), None) => return Err(error),
            (Err(error), Some(current)) => {
                tracing::error!(%error, "the machine or the configuration cannot be read again: keeping what was");
                Setup { state: current.state.clone(), settings: current.enforced.clone() }
            }
        };
        // What the kernel knows of memory policies is not the runtime's to say.
        let Features { preferred_many, weighted_interleave, rewrites_devices, .. } = setup.settings.features;
        setup.settings.features =
            Features { preferred_many, weighted_interleave, rewrites_devices, ..host.features() };
        if let Some(error) = decision::undeliverable(&setup.settings) {
            tracing::error!("{error}: containers that are to have a memory policy are refused");
        }
        self.witness.configured(&setup.settings);
        self.shown = None;
        let off = Settings { mode: Mode::Off, ..setup.settings.clone() };
        *lock(&self.spare.settings) = Some(setup.settings.clone());
        self.current = Some(Current { state: setup.state, enforced: setup.settings, off });
        Ok(())
    }

    fn handle(&mut self, mut event: Event) -> Outcome {
        if let Event::Synchronize { pods, containers, observed, hints } = &mut event {
            self.found.begin(pods, containers, &*self.cgroups);
            *observed = self.observed(containers);
            *hints = self.hints.load();
            self.remembered = Remembered::of(hints);
        }
        let Some(current) = &mut self.current else { return Outcome::default() };
        for news in self.allotted.before(&event, &*self.allotments) {
            decision::step(&mut current.state, news, &current.enforced);
        }
        let settings = if (self.off)() { &current.off } else { &current.enforced };
        let turn = match take_turn(&*self.hints, &event, settings) {
            Ok(turn) => turn,
            Err(failure) => return *failure,
        };
        let elsewhere = match self.hints.elsewhere(turn.is_some()) {
            Some(known) => decision::step(&mut current.state, Event::Elsewhere(known), settings),
            None => Outcome::default(),
        };
        if let Some(pages) = pages::read(&*self.cgroups, &mut event, &current.state) {
            decision::step(&mut current.state, Event::Pages(pages), &current.enforced);
        }
        // Of an update too: one that is answered too late is carried out as it came.
        // Of a create that is taken back: what its answer would have said of others may have been on its way to them.
        let changes = matches!(
            event,
            Event::Started(..) | Event::Update(..) | Event::Synchronize { .. } | Event::Abandon(_)
        );
        self.sweep |= changes && settings.mode == Mode::Enforce;
        let started = Due::of(&event).filter(|_| settings.mode == Mode::Enforce);
        let overtakes = Overtakes::of(&event);
        let may_release = matches!(event, Event::RunPod(_) | Event::Create(..));
        let outcome = self.found.step(&mut current.state, event, settings, &*self.cgroups);
        if may_release {
            self.allotted.retain(|pod| current.state.has_allotment_of(pod));
        }
        if let Some(chores) = &self.chores {
            chores.overtake(&overtakes, &outcome);
        }
        self.started.extend(started.and_then(|due| due.placed(&current.state)));
        if turn.is_some() {
            // Before the turn ends: who comes next must find it.
            for (key, kept) in self.remembered.catch_up(&current.state) {
                self.hints.keep(&key, kept.as_ref());
            }
        }
        drop(turn);
        outcome.after(elsewhere)
    }

    fn settle(&mut self, rest: Rest) {
        let now = Instant::now();
        let state = self.current.as_ref().map(|current| &current.state);
        for verdict in &rest.verdicts {
            let said = self.log.log(verdict, rest.took, now, state);
            self.witness.verdict(verdict, rest.took, said, state);
        }
        if let Some(took) = rest.took.filter(|_| !rest.verdicts.is_empty()) {
            self.witness.decided(took);
        }
        self.show();
        let started = std::mem::take(&mut self.started);
        if let Some(proofs) = &self.proofs {
            started.into_iter().for_each(|due| proofs.later(due));
        }
        self.devices.look();
        let Some(chores) = &self.chores else { return };
        if !rest.writes.is_empty() {
            chores.write(rest.writes);
        }
        if !rest.quotas.is_empty() {
            chores.drop_quotas(rest.quotas);
        }
        // A simulated seat is nothing to come back to.
        if let Some(current) = self.current.as_ref().filter(|current| current.enforced.mode == Mode::Enforce)
        {
            let changes = self.remembered.catch_up(&current.state);
            if !changes.is_empty() {
                chores.keep(changes);
            }
        }
        if let Some(current) = self.current.as_ref().filter(|_| std::mem::take(&mut self.sweep)) {
            let cgroups = current.state.cgroups();
            chores.sweep(cgroups.map(|(id, path)| (id.clone(), path.to_owned())).collect());
        }
    }

    fn witness(&self) -> Arc<dyn Witness> {
        Arc::clone(&self.witness)
    }

    fn fallback(&self) -> Arc<dyn Fallback> {
        Arc::clone(&self.spare) as _
    }
}

/// Whoever gives CPUs away does so alone: shuts out the others for such an event. A create that nobody may decide is
/// answered as a failure.
fn take_turn(
    hints: &dyn Hints,
    event: &Event,
    settings: &Settings,
) -> Result<Option<Box<dyn Any>>, Box<Outcome>> {
    let gives = matches!(event, Event::Create(..) | Event::Started(..) | Event::Synchronize { .. });
    if !gives || settings.mode != Mode::Enforce {
        return Ok(None);
    }
    match hints.turn() {
        Ok(turn) => Ok(Some(turn)),
        Err(error) if matches!(event, Event::Create(..)) => {
            Err(Box::new(decision::failure(event, None, settings, &error.to_string())))
        }
        Err(error) => {
            tracing::error!(%error, "deciding all the same");
            Ok(None)
        }
    }
}

/// Answers when the state cannot be reached: from the settings alone.
struct Spare {
    settings: Mutex<Option<Settings>>,
    /// The handler's own book.
    allotted: Allotted,
    log: Mutex<VerdictLog>,
    off: Switch,
    witness: Arc<dyn Witness>,
}

impl Fallback for Spare {
    fn on_failure(&self, event: &Event, why: &str) -> Reply {
        // Before any registration nothing is known of who is exempt, and they come first.
        let Some(mut settings) = lock(&self.settings).clone() else { return Reply::Nothing };
        if (self.off)() {
            settings.mode = Mode::Off;
        }
        let allotted = match event {
            Event::Create(pod, _) => self.allotted.of(&pod.uid),
            _ => None,
        };
        let Outcome { reply, verdicts, .. } = decision::failure(event, allotted.as_ref(), &settings, why);
        let now = Instant::now();
        for verdict in &verdicts {
            let said = lock(&self.log).log(verdict, None, now, None);
            self.witness.verdict(verdict, None, said, None);
        }
        reply
    }
}

/// The contents are replaced whole, so a panic elsewhere has not left them half done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
