//! The reducer: one event of a runtime in, one outcome out. NRI, hooks, `plan`, conformance and churn
//! all come through [`step`]; nothing here reads a file or a clock.

mod event;
mod outcome;
mod settings;

pub use event::{Event, Observed};
pub use outcome::{CpusetUpdate, Decision, Edit, Outcome, Reply, Verdict};
pub use settings::{AnnotationPool, Exempt, FailurePolicy, Features, Ineligible, Mode, Settings};
