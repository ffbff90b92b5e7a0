//! The reducer: one event of a runtime in, one outcome out. NRI, hooks, `plan`, conformance and churn
//! all come through [`step`]; nothing here reads a file or a clock.

mod annotations;
mod create;
mod devices;
mod event;
mod hugepages;
mod outcome;
mod sandbox;
mod settings;
mod state;
mod step;
mod synchronize;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod understand;

pub use devices::PCI;
pub use event::{Event, Observed};
pub use hugepages::{Pages, PagesByNode};
pub use outcome::{CpusetUpdate, Decision, Edit, Outcome, Reply, Verdict};
pub use settings::{AnnotationPool, Exempt, FailurePolicy, Features, Ineligible, Mode, Settings};
pub use state::State;
pub use step::{failure, step};
