//! A verdict as the journal keeps it.

use super::verdict::placement;
use crate::decision::{ResourceHolder, State, Verdict};
use crate::model::{Candidate, ContainerId, ContainerName, Rejection, Shortage};
use crate::store::{
    AmountTold, CandidateTold, Evidence, HolderTold, LargestTold, ShortTold, Told, WeakerTold,
};
use std::time::Duration;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// How many holders of one resource are named; those with the most first.
const HOLDERS: usize = 8;
/// How many node sets are told of a refusal on a very large machine.
const CANDIDATES: usize = 64;

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

fn evidence(rejection: &Rejection, state: Option<&State>) -> Evidence {
    let weaker = rejection
        .weaker
        .as_ref()
        .map(|(policy, nodes)| WeakerTold { policy: policy.to_string(), nodes: nodes.to_string() });
    let largest = rejection.largest.as_ref().map(|largest| LargestTold {
        nodes: largest.nodes.to_string(),
        amounts: largest
            .amounts
            .iter()
            .map(|(resource, amount)| AmountTold { resource: resource.name(), amount: *amount })
            .collect(),
    });
    let candidates = rejection.candidates.iter().take(CANDIDATES);
    Evidence {
        reason: rejection.reason.to_string(),
        candidates: candidates.map(|candidate| self::candidate(candidate, state)).collect(),
        weaker,
        largest,
    }
}

fn candidate(candidate: &Candidate, state: Option<&State>) -> CandidateTold {
    let short = |shortage: &Shortage| ShortTold {
        resource: shortage.resource.name(),
        needed: shortage.needed,
        available: shortage.available,
        holders: state
            .map(|state| state.holders(&candidate.nodes, &shortage.resource))
            .unwrap_or_default()
            .into_iter()
            .take(HOLDERS)
            .map(holder)
            .collect(),
    };
    CandidateTold { nodes: candidate.nodes.to_string(), short: candidate.short.iter().map(short).collect() }
}

fn holder(holder: ResourceHolder) -> HolderTold {
    HolderTold {
        pod: holder.pod.unwrap_or_else(|| holder.key.pod.to_string()),
        container: holder.key.container.to_string(),
        amount: holder.amount,
        stopped: holder.stopped,
    }
}
