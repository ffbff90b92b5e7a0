//! The ways in without NRI: OCI hooks and the runtime wrapper.
//!
//! A container's way through: `hook` or `runtime` is called, `bundle` reads its `config.json` (`outline` what is
//! read of it, `names` who it is, `facts` what it asks for), `desk` decides with everybody else shut out (`books`
//! is the shared store, `machine` the topology that it keeps, `pages` the huge pages there are), `edit` puts the answer into the `document`, and
//! `handover` makes the process the runtime.

mod arguments;
mod books;
mod bundle;
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
mod outline;
mod pages;
mod place;
mod pruned;
pub mod runtime;
mod surroundings;
mod unheard;

pub use books::{Books, Entries, daemon, process, raw, record};
pub use bundle::Bundle;
pub use error::OciError;
pub use facts::Party;
pub use journal::DEFAULT_LOG;
pub use pages::{free_pages, hugepage_hints};
pub use surroundings::Surroundings;
