//! `maitred nri` against a runtime that behaves as containerd does.

mod deadline;
mod events;
mod handshake;
mod life;
mod load;
mod measure;
mod process;
mod reconnect;
mod swaps;

use crate::fake_runtime::{Daemon, FakeRuntime, Place, Scripted, Seen};
use std::future::Future;
use std::time::Duration;

/// A deadline no test means to miss.
const RELAXED: Duration = Duration::from_secs(1);

/// Runs the runtime's side of a test on a reactor of its own, and not for ever.
fn runtime_side<T>(test: impl Future<Output = T>) -> T {
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    reactor.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test hangs")
    })
}

/// A daemon with that handler, registered, configured and synchronized.
async fn plugged_in(handler: Scripted, deadline: Duration) -> (FakeRuntime, Daemon, Seen, Place) {
    let place = Place::new();
    let listener = place.listen();
    let seen = handler.seen.clone();
    let daemon = Daemon::start(&place.path, deadline, handler);
    let runtime = FakeRuntime::welcome(listener.accept().await.unwrap().0).await;
    (runtime, daemon, seen, place)
}
