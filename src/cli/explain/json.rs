//! The story as JSON; the README describes it.

use super::now::Now;
use super::{Part, Story, advice};
use crate::store::Told;
use serde::Serialize;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    pod: &'a str,
    pod_uid: &'a str,
    parts: Vec<PartJson<'a>>,
}

#[derive(Serialize)]
struct PartJson<'a> {
    /// `null` is the pod as a whole.
    container: Option<&'a str>,
    /// `null` holds nothing now.
    holds: Option<HoldsJson<'a>>,
    /// Oldest first, as the journal has them.
    verdicts: &'a [Told],
    /// What of the last refusal's shortages is free now.
    now: Vec<FreeJson<'a>>,
    what_to_do: Vec<String>,
}

#[derive(Serialize)]
struct HoldsJson<'a> {
    placement: &'a str,
    running: bool,
    by: &'a str,
    id: &'a str,
}

#[derive(Serialize)]
struct FreeJson<'a> {
    nodes: &'a str,
    resource: &'a str,
    needed: u64,
    available: u64,
}

pub(super) fn print(story: &Story, now: &Now<'_>) -> String {
    let document = Document {
        version: 1,
        pod: &story.pod,
        pod_uid: &story.pod_uid,
        parts: story.parts.iter().map(|part| self::part(part, now)).collect(),
    };
    // Strings, numbers and lists of them: there is nothing in it that JSON could not say.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn part<'a>(part: &'a Part, now: &Now<'_>) -> PartJson<'a> {
    let evidence = part.last().and_then(|told| told.evidence.as_ref());
    let mut free = Vec::new();
    for candidate in evidence.iter().flat_map(|evidence| &evidence.candidates) {
        free.extend(candidate.short.iter().filter_map(|short| {
            let available = now.free(&candidate.nodes, &short.resource)?;
            let (nodes, resource) = (candidate.nodes.as_str(), short.resource.as_str());
            Some(FreeJson { nodes, resource, needed: short.needed, available })
        }));
    }
    PartJson {
        container: part.container.as_deref(),
        holds: part.holds.as_ref().map(|holds| HoldsJson {
            placement: &holds.text,
            running: holds.running,
            by: holds.by,
            id: &holds.id,
        }),
        verdicts: &part.told,
        now: free,
        what_to_do: advice::steps(part),
    }
}
