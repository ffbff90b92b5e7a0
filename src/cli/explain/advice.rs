//! What to do next: the first thing that helps comes first.

use super::Part;
use crate::store::{CandidateTold, Evidence, HolderTold, ShortTold, Told};
use std::collections::BTreeMap;

/// How many holders are named.
const MOST: usize = 3;

/// What would help a container that was refused; nothing for one that was not.
pub(super) fn steps(part: &Part) -> Vec<String> {
    let Some(told) = part.last() else { return Vec::new() };
    let Some(evidence) = &told.evidence else { return without_evidence(told) };
    if told.decision == "exempt" {
        return vec!["nothing: it is exempt and runs in the shared pool".into()];
    }
    let mut steps = Vec::new();
    if told.simulated {
        steps.push(
            "nothing yet: this was only simulated, and it runs unpinned; enforced, it would be refused"
                .into(),
        );
    }
    match evidence.reason.as_str() {
        "SMTAlignmentError" => {
            steps.push(
                "ask for a multiple of a core's threads, or take full-pcpus-only off (cpu.options)".into(),
            );
        }
        "InvalidRequestError" => steps.push("correct what the reason names, and create the pod anew".into()),
        "InternalError" => {
            steps.push("see the log around that time, and `maitred doctor`".into());
            steps.push(
                "failure.policy = \"admit\" would let it start unpinned; `maitred off` does so at once"
                    .into(),
            );
        }
        _ => steps.extend(of_amounts(evidence)),
    }
    if !told.simulated {
        steps.push("the kubelet tries again on this node; delete the pod to have it scheduled again".into());
    }
    steps
}

fn without_evidence(told: &Told) -> Vec<String> {
    match (told.decision.as_str(), told.warn) {
        ("rejected", _) => vec![
            "what each node lacked is in the reason; `maitred status` shows what is free now".into(),
            "the kubelet tries again on this node; delete the pod to have it scheduled again".into(),
        ],
        ("placed", true) if told.reason.contains("not pinned") => vec![
            "make the pod Guaranteed with whole CPUs to have it pinned (requests equal to limits in every container)"
                .into(),
        ],
        _ => Vec::new(),
    }
}

fn of_amounts(evidence: &Evidence) -> Vec<String> {
    let mut steps = Vec::new();
    for (holder, resources) in holders(evidence).into_iter().take(MOST) {
        let (pod, stopped) = holder;
        steps.push(match stopped {
            true => format!("delete pod {pod}: it has stopped and keeps {resources} while it lives"),
            false => format!("end or move pod {pod}, which has {resources}"),
        });
    }
    if let Some(largest) = &evidence.largest {
        let amounts: Vec<_> = largest
            .amounts
            .iter()
            .map(|one| super::now::resource(&one.resource).amount(one.amount))
            .collect();
        steps.push(format!(
            "ask for no more than {}, which would have fitted on {}",
            amounts.join(", "),
            nodes(&largest.nodes)
        ));
    }
    if let Some(weaker) = &evidence.weaker {
        steps.push(format!(
            "let it lie on {}: annotation policy.maitred.io: {} (its namespace must be in \
             annotations.trusted_namespaces), or policy.topology for all",
            nodes(&weaker.nodes),
            weaker.policy
        ));
    }
    steps
}

/// Who has what was short on the node that lacked the least kinds of things, the stopped first.
fn holders(evidence: &Evidence) -> Vec<((String, bool), String)> {
    let considered = evidence.candidates.iter().filter(|one| !one.short.is_empty());
    let Some(nearest) = considered.min_by_key(|one: &&CandidateTold| one.short.len()) else {
        return Vec::new();
    };
    let mut held: BTreeMap<(bool, String), Vec<String>> = BTreeMap::new();
    for short in &nearest.short {
        for HolderTold { pod, amount, stopped, .. } in &short.holders {
            held.entry((!stopped, pod.clone())).or_default().push(amount_of(short, *amount));
        }
    }
    let place = nodes(&nearest.nodes);
    let held = held.into_iter();
    held.map(|((running, pod), what)| ((pod, !running), format!("{} on {place}", what.join(", ")))).collect()
}

fn amount_of(short: &ShortTold, amount: u64) -> String {
    super::now::resource(&short.resource).amount(amount)
}

/// `node 0`, `nodes 0-1`.
pub(super) fn nodes(list: &str) -> String {
    list.parse::<crate::model::NodeSet>().map_or_else(|_| format!("nodes {list}"), |nodes| nodes.words())
}
