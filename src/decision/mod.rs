//! The reducer: one event of a runtime in, one outcome out; nothing here reads a file or a clock.
//!
//! Whatever a runtime sends comes through [`step`]. `maitred plan` knows whole pods and seats them by the
//! engine, but it has its machine, the pods' annotations and the owner's exemptions understood here.

mod allotted;
mod annotated;
mod annotations;
mod cpu_options;
mod create;
mod delivery;
mod devices;
mod elsewhere;
mod encoded;
mod event;
mod hidden_pages;
mod holders;
mod hugepages;
mod ineligible;
mod kubelet;
mod machine;
mod outcome;
mod proof;
mod running;
mod sandbox;
mod seat;
mod settings;
mod state;
mod step;
mod swap;
mod synchronize;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod understand;
mod words;

pub use annotated::{POOLED_GPU, Understood, annotated};
pub use delivery::{LAUNCHER, memory_policy, undeliverable};
pub use devices::{CDI_ANNOTATION, PCI, VISIBLE, names_gpus};
pub use elsewhere::Known;
pub use encoded::qos;
pub use event::{Event, Observed};
pub use holders::ResourceHolder;
pub use hugepages::{Pages, PagesByNode, hides_hugepages, wants_hugepages};
pub use ineligible::check_eligible;
pub use machine::machine;
pub use outcome::{CpusetUpdate, Decision, Delivery, Edit, Mount, Outcome, Reply, Verdict};
pub use proof::{Drift, Seen, SeenProcess, drifts};
pub use settings::{
    AnnotationPool, CpuAuthority, Exempt, FailurePolicy, Features, GpuPlacement, Ineligible, Mode, Settings,
    Unrequested,
};
pub use state::State;
pub use step::{failure, step};
