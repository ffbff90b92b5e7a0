//! containerd: mux, ttrpc, event loop.
//!
//! A container's way through: a frame arrives in [`mux`], ttrpc makes a call of it, `plugin` turns the
//! call's message into facts and an event, `decider` has the event decided in time, and `answer` makes a
//! message of the outcome. `session` is one registration, `daemon` one after the other.

mod allotted;
mod answer;
mod chores;
mod connect;
mod daemon;
mod decider;
mod devices;
mod ended;
pub mod facts;
mod fault;
mod handler;
mod hints;
mod inherited;
mod memory;
pub mod mux;
mod notify;
mod pages;
mod plugin;
mod proofs;
pub mod proto;
mod session;
mod verdicts;
mod version;
mod watchdog;
mod witness;

pub use allotted::Allotments;
pub use daemon::{
    DEFAULT_INDEX, DEFAULT_NAME, DEFAULT_SOCKET, Ending, MAKE_ROOM, NriError, Options, Transport,
    plugin_index, plugin_name, run, serve,
};
pub use decider::{Fallback, Handler, Poster, Rest};
pub use devices::Devices;
pub use handler::{Around, BoxError, Cgroups, Seating, Setup};
pub use hints::{Hints, Kept};
pub use session::SessionError;
pub use version::{Host, Version};
pub use witness::Witness;
