//! Devices that come and go while the daemon runs: a driver that is loaded late, MIG, new CDI specs.

use super::decider::Poster;
use super::handler::BoxError;
use crate::decision::Event;
use crate::model::Topology;
use std::sync::{Arc, Mutex, PoisonError};

/// The machine's devices.
pub trait Devices: Send + Sync {
    /// Whether they may have changed since the last look, or since they were first read. A cheap look, taken at
    /// events only: nothing is polled on an idle node.
    fn changed(&self) -> bool;

    /// Reads the machine again, through NVML. May take seconds.
    ///
    /// # Errors
    /// It cannot be read: what was known counts on.
    fn read(&self) -> Result<Topology, BoxError>;
}

/// Reads devices again on a thread of its own, one reading after the other.
pub(super) struct Refresher {
    devices: Arc<dyn Devices>,
    turn: Arc<Mutex<()>>,
    poster: Option<Poster>,
}

impl Refresher {
    pub fn new(devices: Arc<dyn Devices>) -> Self {
        Self { devices, turn: Arc::default(), poster: None }
    }

    /// Where to send what was read.
    pub fn attach(&mut self, poster: Poster) {
        self.poster = Some(poster);
    }

    /// After an answer: has the devices read again if there is a sign that they have changed.
    pub fn look(&self) {
        let Some(poster) = self.poster.clone().filter(|_| self.devices.changed()) else { return };
        let (devices, turn) = (Arc::clone(&self.devices), Arc::clone(&self.turn));
        let read = move || {
            // What is posted last was read last.
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            match devices.read() {
                Ok(topology) => poster.post(Event::Devices(Box::new(topology))),
                Err(error) => {
                    tracing::warn!(%error, "changed devices cannot be read: what was known counts on")
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("devices".into()).spawn(read) {
            tracing::warn!(%error, "changed devices were not read");
        }
    }
}
