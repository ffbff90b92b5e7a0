//! The ways in without NRI: OCI hooks and the runtime wrapper.
//!
//! A container's way through: `hook` or `runtime` is called, `bundle` reads its `config.json` (`outline` what is
//! read of it, `names` who it is, `facts` what it asks for, `undo` what of it is our own of an earlier run), `desk`
//! decides with everybody else shut out (`books` is the shared store, `namesake` finds a container in it, `neighbours`
//! who shares its cgroup, `stand` is for those that are there already, `cpus` gives others theirs, `machine` the topology
//! that the store keeps, `pages` the huge pages there are), `edit` puts the answer into the `document`, and `handover`
//! makes the process the runtime. `settle` is the hook with which a shared container comes back once it is made.

mod arguments;
mod books;
mod bundle;
mod cpus;
mod desk;
mod document;
mod edit;
mod error;
mod facts;
mod fault;
mod find;
mod handover;
pub mod hook;
mod journal;
mod machine;
mod names;
mod namesake;
mod neighbours;
mod outline;
mod pages;
mod place;
mod pruned;
pub mod runtime;
mod settle;
mod stand;
mod surroundings;
mod undo;
mod unheard;

pub use books::{Books, Entries, daemon, process, raw, record};
pub use bundle::Bundle;
pub use error::OciError;
pub use facts::Party;
pub use journal::DEFAULT_LOG;
pub use pages::{free_pages, hugepage_hints};
pub use surroundings::Surroundings;
