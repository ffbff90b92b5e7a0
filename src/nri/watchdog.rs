//! systemd's watchdog: told that the daemon lives while its decision thread answers, and no longer.
//!
//! A daemon whose decision thread is stuck still answers each request, with a refusal or with nothing; only a restart
//! helps it, and containers live on through one. That the runtime is away is no reason: the next registration is
//! waited for.

use super::decider::Decider;
use super::notify;
use std::time::Duration;

/// Signs of life within one interval of systemd's, so that one may be lost to a loaded machine.
const SIGNS: u32 = 3;

/// Sends signs of life for as long as systemd waits for them, and for ever nothing where it does not.
pub(super) async fn keep_alive(decider: &Decider) {
    let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()) else {
        return std::future::pending().await;
    };
    let pause = limit / SIGNS;
    loop {
        if sign(decider, pause).await {
            notify::alive();
        }
        tokio::time::sleep(pause).await;
    }
}

/// Whether the decision thread answered within `limit`; the log says when it did not.
async fn sign(decider: &Decider, limit: Duration) -> bool {
    let failure = match decider.probe(limit).await {
        Ok(()) => return true,
        Err(failure) => failure,
    };
    tracing::error!(reason = %failure, "no sign of life for systemd's watchdog");
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Event, Outcome};
    use crate::model::ContainerId;
    use crate::nri::decider::{Fallback, Handler, Rest};
    use std::error::Error;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};

    /// Handles nothing before it is told to go on.
    struct Slow(Receiver<()>);

    impl Handler for Slow {
        fn configure(&mut self, _host: &crate::nri::Host) -> Result<(), Box<dyn Error + Send + Sync>> {
            Ok(())
        }
        fn handle(&mut self, _event: Event) -> Outcome {
            let _ = self.0.recv();
            Outcome::default()
        }
        fn settle(&mut self, _rest: Rest) {}
        fn fallback(&self) -> Arc<dyn Fallback> {
            Arc::new(Silent)
        }
    }

    struct Silent;

    impl Fallback for Silent {
        fn on_failure(&self, _event: &Event, _why: &str) -> crate::decision::Reply {
            crate::decision::Reply::Nothing
        }
    }

    #[test]
    fn there_is_no_sign_of_life_while_a_decision_is_stuck() {
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        reactor.block_on(async {
            let (go_on, told) = channel();
            let decider = Decider::spawn(Slow(told), None).unwrap();
            assert!(sign(&decider, Duration::from_secs(20)).await);
            let abandoned = Event::Abandon(ContainerId::new("c1"));
            let limit = Duration::from_millis(10);
            decider.ask(abandoned, limit).await.unwrap_err();
            assert!(!sign(&decider, limit).await);
            go_on.send(()).unwrap();
            assert!(sign(&decider, Duration::from_secs(20)).await);
        });
    }
}
