//! A verdict as the journal keeps it.

use super::evidence::evidence;
use super::verdict::placement;
use crate::decision::{State, Verdict};
use crate::model::{ContainerId, ContainerName};
use crate::store::Told;
use std::time::Duration;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// Now, as the log writes it (RFC 3339, UTC).
#[must_use]
pub fn now() -> String {
    let mut time = String::new();
    // A clock before 1970 has no text; the rest is good without.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time
}

/// What the journal keeps of a verdict: `source` is who decided, `times` how often it was given since it was last
/// told, `state` what it was decided from, of which the holders of what was short are told.
#[must_use]
pub fn told(
    verdict: &Verdict,
    source: &str,
    took: Option<Duration>,
    times: u64,
    state: Option<&State>,
) -> Told {
    let time = now();
    Told {
        first: time.clone(),
        time,
        times,
        pod: verdict.pod.clone(),
        namespace: verdict.namespace.clone(),
        pod_uid: verdict.pod_uid.to_string(),
        container: verdict.container.as_ref().map(ContainerName::to_string),
        container_id: verdict.container_id.as_ref().map(ContainerId::to_string),
        source: source.to_owned(),
        decision: verdict.decision.to_string(),
        simulated: verdict.simulated,
        warn: verdict.warn,
        reason: verdict.reason.clone(),
        request: verdict.request.clone(),
        placement: verdict.placement.as_ref().map(placement),
        memory_policy: verdict.memory_policy.clone(),
        duration_us: took.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
        evidence: verdict.rejection.as_deref().map(|rejection| evidence(rejection, state)),
    }
}
