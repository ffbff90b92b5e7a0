//! Who watches: metrics, the journal, the daemon's notice. None of it may hold up an answer.

use crate::decision::{Settings, State, Verdict};
use std::time::Duration;

/// Is told what happens, after the answer; must return at once. What it does not care about it leaves.
pub trait Witness: Send + Sync {
    /// A verdict. `said` is how often the same was left unsaid in the log before, `None` that this one is too;
    /// `state` is what it was decided from, where that can be reached.
    fn verdict(
        &self,
        _verdict: &Verdict,
        _took: Option<Duration>,
        _said: Option<u64>,
        _state: Option<&State>,
    ) {
    }

    /// A decision was made in this time, from the request's arrival on.
    fn decided(&self, _took: Duration) {}

    /// A request was answered without a decision.
    fn undecided(&self) {}

    /// An answer was given in this time; `event` is `create`, `update`, `stop`, `run_pod` or `other`.
    fn replied(&self, _event: &'static str, _took: Duration) {}

    /// What is held has changed, or the machine has.
    fn holdings(&self, _state: &State, _settings: &Settings) {}

    /// A container was held against its placement a moment after its start.
    fn proved(&self, _drifted: bool) {}

    /// A runtime has presented itself, and these are the settings for it.
    fn configured(&self, _settings: &Settings) {}

    /// The connection to a runtime stands.
    fn registered(&self, _runtime: &str) {}

    /// It has ended.
    fn disconnected(&self) {}
}

/// Nobody watches.
impl Witness for () {}
