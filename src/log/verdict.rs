//! A verdict as a log line: one span a container, one line a verdict.

use super::evidence::{evidence, logged};
use crate::decision::{State, Verdict};
use crate::model::{ContainerId, ContainerName, DeviceId, Placement};
use std::fmt::Write as _;
use std::time::Duration;

/// Says a verdict: `source` is who decided (nri, hook, runtime), `repeated` how often the same was left unsaid, `state`
/// what it was decided from, of which the holders of what was short are told.
pub fn verdict(
    verdict: &Verdict,
    source: &str,
    took: Option<Duration>,
    repeated: u64,
    state: Option<&State>,
) {
    let evidence = verdict.rejection.as_deref().map(|rejection| logged(&evidence(rejection, state)));
    let span = tracing::info_span!(
        "container",
        pod = verdict.pod,
        namespace = verdict.namespace,
        pod_uid = verdict.pod_uid.as_str(),
        container = verdict.container.as_ref().map(ContainerName::as_str),
        container_id = verdict.container_id.as_ref().map(ContainerId::as_str),
        source,
    );
    let _inside = span.enter();
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                decision = %verdict.decision,
                reason = verdict.reason,
                request = verdict.request,
                placement = verdict.placement.as_ref().map(self::placement),
                memory_policy = verdict.memory_policy,
                duration_us = took.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
                simulated = verdict.simulated.then_some(true),
                repeated = (repeated > 0).then_some(repeated),
                evidence = evidence.as_ref().map(|evidence| evidence.text.as_str()),
                evidence_cut = evidence.as_ref().and_then(|evidence| evidence.is_cut.then_some(true)),
                "verdict"
            )
        };
    }
    if verdict.warn { line!(warn) } else { line!(info) }
}

/// A placement in one line: `cpus 4-7, mems 1, nvidia.com/gpu GPU-a`.
#[must_use]
pub fn placement(placement: &Placement) -> String {
    let cpus = if placement.cpus.is_empty() { "shared".into() } else { placement.cpus.to_string() };
    let mut text = format!("cpus {cpus}");
    if !placement.mems.is_empty() {
        let _ = write!(text, ", mems {}", placement.mems);
    }
    for (resource, devices) in &placement.devices {
        let ids: Vec<&str> = devices.iter().map(DeviceId::as_str).collect();
        let _ = write!(text, ", {resource} {}", ids.join(" "));
    }
    for block in &placement.memory {
        let _ = write!(text, ", {} {} on {}", block.kind, block.bytes, block.nodes);
    }
    text
}
