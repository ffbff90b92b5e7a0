//! A plugin that registers as maitred does, hears what maitred hears and never does anything: what
//! any plugin costs.

use anyhow::Result;
use maitred::decision::{Event, Outcome, Reply};
use maitred::nri::{BoxError, Fallback, Handler, Host, Options, Rest, Transport, run};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub const NAME: &str = "idle";
const DEADLINE: Duration = Duration::from_secs(1);

struct Idle;

impl Handler for Idle {
    fn configure(&mut self, _: &Host) -> Result<(), BoxError> {
        Ok(())
    }

    fn handle(&mut self, _: Event) -> Outcome {
        Outcome::default()
    }

    fn settle(&mut self, _: Rest) {}

    fn fallback(&self) -> Arc<dyn Fallback> {
        Arc::new(Idle)
    }
}

impl Fallback for Idle {
    fn on_failure(&self, _: &Event, _: &str) -> Reply {
        Reply::Nothing
    }
}

/// Until it is killed.
pub fn serve(socket: &Path) -> Result<()> {
    let options = Options {
        name: NAME.to_owned(),
        index: "90".to_owned(),
        transport: Transport::Socket(socket.to_owned()),
        deadline: DEADLINE,
    };
    run(&options, Idle)?;
    Ok(())
}
