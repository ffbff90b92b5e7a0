//! One container decided about, with everybody else who decides shut out meanwhile: read the store, step the
//! reducer, write the allocation, change the container, then the others.

use super::books::{Books, Entries, told};
use super::edit::Change;
use super::facts::Party;
use super::fault::Step;
use super::neighbours::Neighbours;
use super::pages::{free_pages, hugepage_hints};
use super::surroundings::fail;
use super::{OciError, books, machine, namesake};
use crate::config::{Authority, Config};
use crate::decision::{
    self, CpusetUpdate, Delivery, Edit, Event, Features, GpuPlacement, Mode, Outcome, Reply, Settings, State,
    Verdict, hides_hugepages, names_gpus, wants_hugepages,
};
use crate::discover::{self, Root};
use crate::host::{Cgroups, KernelModes, launcher, mempolicy};
use crate::ledger::Record;
use crate::model::{ContainerFacts, ContainerId, ContainerKey, MemoryMode, Rejection};
use crate::store::{Allocation, By, Process, Store};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// What a hook or the wrapper decides with.
pub(super) struct Desk {
    pub config: Config,
    pub store: Store,
    pub root: Root,
    pub cgroups: Cgroups,
    pub by: By,
    /// What can still be changed where we stand.
    pub features: Features,
}

/// Where a container is, and who answers for it until its cgroup does.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub holder: Option<Process>,
    /// Its cgroup, or each one it may get.
    pub cgroups: Vec<String>,
    /// It has been made: its first process is in that cgroup.
    pub made: bool,
    /// Who calls us where it has been made: its runtime.
    pub caller: Option<u32>,
}

impl Place {
    /// Of one that `holder` is about to make.
    pub fn planned(holder: Option<Process>, cgroups: Vec<String>) -> Self {
        Self { holder, cgroups, made: false, caller: None }
    }

    /// Of one that our caller has made, by its first process.
    pub fn made(pid: i32, cgroup: String) -> Self {
        let holder = u32::try_from(pid).ok().and_then(|pid| books::process(Path::new("/"), pid));
        let caller = u32::try_from(nix::unistd::getppid().as_raw()).ok();
        Self { holder, cgroups: vec![cgroup], made: true, caller }
    }
}

/// Carries out what was decided about the container itself.
pub(super) type Changing<'a> = &'a mut dyn FnMut(&Change<'_>) -> Result<(), OciError>;

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seated {
    /// It may go on, changed or not.
    Fine,
    /// It must not.
    Refused(Box<Rejection>),
}

impl Desk {
    /// Seats a container, and has `change` carry out what that means for it. A failure is answered as the owner
    /// wants failures answered.
    pub fn seat(&self, party: &Party, place: Place, change: Changing<'_>) -> Seated {
        let begin = Instant::now();
        self.try_to_seat(party, place.clone(), change, begin).unwrap_or_else(|error| {
            let seated = fail(&self.config, self.by, party, &error);
            if seated == Seated::Fine {
                self.let_through(party, place, change);
            }
            seated
        })
    }

    fn try_to_seat(
        &self,
        party: &Party,
        place: Place,
        change: Changing<'_>,
        begin: Instant,
    ) -> Result<Seated, OciError> {
        let _turn = self.store.turn(self.config.failure.deadline)?;
        Step::Locked.strike();
        let mut entries = self.books().read()?;
        if let Some(at) = namesake::itself(&self.books(), &entries.living, &party.container.id, &place) {
            match self.is_begun_anew(&entries.living[at].0, &place) {
                true => entries.dead.push(entries.living.swap_remove(at).0.key),
                false => return self.stand(entries, at, place, change),
            }
        }
        let party = &*namesake::apart(party, &entries.living);
        if party.carries.is_some() && party.in_kubernetes {
            return Err(OciError::Forged { id: party.container.id.clone() });
        }
        if let Some(problem) = entries.unclear.first() {
            return Err(OciError::Unclear { problem: problem.clone() });
        }
        let mut state = self.state()?;
        let settings = self.settings(party, &state);
        self.check_swaps(party, &state, &settings)?;
        let neighbours = Neighbours::of(&entries.living);
        let before = self.take_in(&mut state, entries, &settings)?;
        let container = self.with_pages(party, &mut state, &settings)?;
        let event = Event::Create(party.pod.clone(), container);
        let Outcome { reply, mut writes, verdicts, .. } = decision::step(&mut state, event, &settings);
        let shares = has_no_cpus(&state, party);
        if settings.mode == Mode::Enforce && !matches!(reply, Reply::Refuse(_)) {
            neighbours.keep_apart(&party.container.id, &place, shares, &self.cgroups)?;
        }
        self.say(&verdicts, begin, &state);
        Step::Decided.strike();
        let mut edit = match answer_or_edit(reply) {
            Err(rejection) => {
                self.write(&before);
                return Ok(Seated::Refused(rejection));
            }
            Ok(edit) => edit,
        };
        if settings.mode == Mode::Enforce {
            let allocation = self.allocation(party, place, &state, &edit);
            match shares {
                true => edit.cpus = self.room(&allocation.cgroups, edit.cpus),
                false => self.must_fit(&allocation.cgroups, edit.cpus.as_ref())?,
            }
            self.store.keep(&allocation)?;
            Step::Recorded.strike();
            if let Err(error) = change(&Change { edit: &edit, shares, stands: false }) {
                self.store.remove(&allocation.key)?;
                return Err(error);
            }
            Step::Changed.strike();
            writes.splice(0..0, before);
            self.write(&writes);
        }
        Step::Done.strike();
        Ok(Seated::Fine)
    }

    /// A container has ended, or may have: what is free now goes back to the others.
    pub fn tidy(&self, ended: Option<&ContainerId>) -> Result<(), OciError> {
        let begin = Instant::now();
        let _turn = self.store.turn(self.config.failure.deadline)?;
        let mut entries = self.books().read()?;
        if self.config.mode != Mode::Enforce {
            return Ok(());
        }
        let stopped = entries.living.iter().any(|(_, known)| !known.runs);
        let (living, ended) = self.end(entries.living, ended)?;
        entries.living = living;
        let ends = stopped || ended > 0;
        // Nobody has ended: nothing has become free. Nobody is left: it is free for nobody.
        if !ends && entries.dead.is_empty() {
            return Ok(());
        }
        if entries.living.is_empty() {
            return self.forget(&entries.dead);
        }
        let mut state = self.state()?;
        let settings = self.config.settings(state.ledger().machine().reserved().clone(), self.features);
        let writes = self.take_in(&mut state, entries, &settings)?;
        self.write(&writes);
        tracing::debug!(took_us = begin.elapsed().as_micros() as u64, "the books are tidy");
        Ok(())
    }

    /// The newer memory policies of this kernel. Asking costs a thread: only where one of them may be wanted.
    pub fn kernel_modes(&self, party: &Party) -> KernelModes {
        use MemoryMode::{Preferred, PreferredMany, WeightedInterleave};
        let newer = matches!(self.config.memory.mode, Some(Preferred | PreferredMany | WeightedInterleave));
        match newer || party.asks_for_policy() {
            true => mempolicy::kernel_modes(),
            false => KernelModes::default(),
        }
    }

    pub(super) fn books(&self) -> Books<'_> {
        Books { store: &self.store, cgroups: &self.cgroups, root: Path::new("/") }
    }

    pub(super) fn state(&self) -> Result<State, OciError> {
        let topology = machine::topology(&self.root, &self.store, &self.config.gpu.driver_root)?;
        Ok(State::new(Arc::new(topology), &self.config.reserve(), &self.config.gpu.annotation_pool)?)
    }

    fn settings(&self, party: &Party, state: &State) -> Settings {
        let mut settings = self.config.settings(state.ledger().machine().reserved().clone(), self.features);
        if self.features.args && may_launch(&self.config, self.features) {
            settings.launcher = self.launcher();
        }
        if party.in_kubernetes && settings.mode == Mode::Enforce && self.kubelet_decides() {
            settings.mode = Mode::Audit;
        }
        settings
    }

    /// Where the launcher lies; without one a policy is delivered in another way, or the owner is told.
    fn launcher(&self) -> Option<String> {
        let directories = [self.store.dir(), Path::new(launcher::FALLBACK_DIR)];
        let installed = launcher::install(Path::new(launcher::PACKAGED), &directories);
        installed
            .map(|path| path.display().to_string())
            .inspect_err(|error| tracing::warn!(%error, "no launcher"))
            .ok()
    }

    /// Two managers must not hand out the same CPUs.
    pub(super) fn kubelet_decides(&self) -> bool {
        if self.config.authority == Authority::Maitred {
            return false;
        }
        let state = discover::kubelet_cpu_policy(&self.root).unwrap_or_else(|error| {
            tracing::warn!(%error, "the kubelet's CPU Manager state cannot be read: taken as not static");
            None
        });
        let is_static = state.is_some_and(|state| state.policy == "static");
        if is_static {
            tracing::error!("the kubelet's CPU Manager policy is static: only auditing pods of Kubernetes");
        }
        is_static
    }

    /// The reducer learns what everybody holds; the dead are forgotten. What that changes for others is returned.
    pub(super) fn take_in(
        &self,
        state: &mut State,
        entries: Entries,
        settings: &Settings,
    ) -> Result<Vec<CpusetUpdate>, OciError> {
        if settings.mode == Mode::Enforce {
            self.forget(&entries.dead)?;
        }
        let known = entries.living.into_iter().map(|(_, known)| known).collect();
        let outcome = decision::step(state, Event::Elsewhere(known), settings);
        self.say(&outcome.verdicts, Instant::now(), state);
        Ok(outcome.writes)
    }

    /// Into the log, and into the journal that `maitred explain` reads.
    fn say(&self, verdicts: &[Verdict], begin: Instant, state: &State) {
        say(self.by, verdicts, begin, Some(state));
        for verdict in verdicts {
            let told = crate::log::told(verdict, source(self.by), Some(begin.elapsed()), 1, Some(state));
            if let Err(error) = self.store.tell(&told) {
                tracing::warn!(%error, "a verdict is not in the journal");
            }
        }
    }

    /// Only the daemon can put another GPU in the place of one that was given; who wants that must be told.
    fn check_swaps(&self, party: &Party, state: &State, settings: &Settings) -> Result<(), OciError> {
        let word = match settings.gpu_placement {
            GpuPlacement::Keep => return Ok(()),
            GpuPlacement::Repair => "repair",
            GpuPlacement::Choose => "choose",
        };
        match settings.mode == Mode::Enforce && names_gpus(&party.container, state.topology()) {
            true => Err(OciError::Swaps { word }),
            false => Ok(()),
        }
    }

    fn forget(&self, dead: &[ContainerKey]) -> Result<(), OciError> {
        for key in dead {
            tracing::info!(%key, "its container has ended: released");
            self.store.remove(key)?;
        }
        Ok(())
    }

    /// The container with what its limits do not tell of huge pages; where it is to get some, those that are really
    /// free are read.
    fn with_pages(
        &self,
        party: &Party,
        state: &mut State,
        settings: &Settings,
    ) -> Result<ContainerFacts, OciError> {
        let mut container = party.container.clone();
        if party.in_kubernetes && hides_hugepages(&container) {
            let pools = state.topology().numa_nodes.iter().flat_map(|node| node.hugepages.keys().copied());
            let parent = &party.pod.cgroup_parent;
            container.hugepages = hugepage_hints(&self.cgroups, &pools.collect(), parent, &container.mounts)?;
        }
        if wants_hugepages(&party.pod, &container) {
            let pages = free_pages(&self.root, &self.cgroups, state.hugepage_holders())?;
            decision::step(state, Event::Pages(pages), settings);
        }
        Ok(container)
    }

    fn allocation(&self, party: &Party, place: Place, state: &State, edit: &Edit) -> Allocation {
        let key = party.key();
        let id = &party.container.id;
        let held = state.ledger().get(&key).filter(|holding| holding.id.as_ref() == Some(id));
        let placement = held.map(|holding| holding.placement.clone()).unwrap_or_default();
        let claims = state.claims_of(&key, &party.container);
        let record = Record::new(&key, id, &placement);
        Allocation {
            told: Some(told(&placement, edit.cpus.as_ref(), &state.topology().cpus)),
            ..self.entry(party, place, &record, claims)
        }
    }

    /// A precreate hook is given a configuration that nobody has edited: whatever was decided about an earlier attempt
    /// that has ended is not in it.
    fn is_begun_anew(&self, allocation: &Allocation, place: &Place) -> bool {
        let hooks = self.by == By::Hook && allocation.by == By::Hook;
        hooks && !place.made && !self.books().populated(allocation)
    }
}

/// Whether a container has no CPUs of its own.
fn has_no_cpus(state: &State, party: &Party) -> bool {
    state.ledger().get(&party.key()).is_none_or(|held| held.placement.cpus.is_empty())
}

/// Whether a policy may be delivered by the launcher: where a better way is sure to work it need not lie on the host.
fn may_launch(config: &Config, features: Features) -> bool {
    let better = features.memory_policy || features.inherits_policy;
    match config.memory.delivery {
        Some(way) => way == Delivery::Launcher,
        None => !better || config.memory.prove_hugepages,
    }
}

pub(super) fn say(by: By, verdicts: &[Verdict], begin: Instant, state: Option<&State>) {
    for verdict in verdicts {
        crate::log::verdict(verdict, source(by), Some(begin.elapsed()), 0, state);
    }
}

fn source(by: By) -> &'static str {
    if by == By::Runtime { "runtime" } else { "hook" }
}

fn answer_or_edit(reply: Reply) -> Result<Edit, Box<Rejection>> {
    match reply {
        Reply::Nothing => Ok(Edit::default()),
        Reply::Adjust(edit) => Ok(*edit),
        Reply::Refuse(rejection) => Err(rejection),
    }
}
