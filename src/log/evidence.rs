//! Why something did not fit, as the journal keeps it and as a log line tells it.

use crate::decision::{ResourceHolder, State};
use crate::model::{Candidate, Rejection, Shortage};
use crate::store::{AmountTold, CandidateTold, Evidence, HolderTold, LargestTold, ShortTold, WeakerTold};

/// How many holders of one resource are named; those with the most first.
const HOLDERS: usize = 8;
/// How many node sets are told of a refusal on a very large machine.
const CANDIDATES: usize = 64;
/// Bytes of it in a log line: journald keeps lines of 48 KiB whole.
const LOGGED: usize = 8 << 10;
/// So many node sets with so many holders each are in a log line: the first of these that is short enough.
const SHAPES: [(usize, usize); 6] =
    [(CANDIDATES, HOLDERS), (CANDIDATES, 3), (16, 1), (CANDIDATES, 0), (16, 0), (0, 0)];

/// Evidence as the field of a log line.
pub(super) struct Logged {
    /// JSON, at most [`LOGGED`] bytes of it.
    pub text: String,
    /// Holders or node sets are left out.
    pub is_cut: bool,
}

/// As much of it as a log line has room for.
pub(super) fn logged(whole: &Evidence) -> Logged {
    let text = |told: &Evidence| serde_json::to_string(told).unwrap_or_default();
    let mut shapes = SHAPES.iter().map(|(candidates, holders)| {
        let told = cut(whole, *candidates, *holders);
        (text(&told), told == *whole)
    });
    let fitting = shapes.find(|(text, _)| text.len() <= LOGGED);
    let (text, is_whole) = fitting.unwrap_or_default();
    Logged { text, is_cut: !is_whole }
}

fn cut(whole: &Evidence, candidates: usize, holders: usize) -> Evidence {
    let mut told = whole.clone();
    told.candidates.truncate(candidates);
    let short = told.candidates.iter_mut().flat_map(|candidate| &mut candidate.short);
    short.for_each(|short| short.holders.truncate(holders));
    told
}

/// Of a refusal; `state` is what it was decided from, of which the holders of what was short are told.
pub(super) fn evidence(rejection: &Rejection, state: Option<&State>) -> Evidence {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many nodes, each with so many holders of long names.
    fn of(nodes: usize, holders: usize) -> Evidence {
        let holder =
            |at| HolderTold { pod: format!("{at}/{}", "x".repeat(60)), amount: 1, ..HolderTold::default() };
        let candidate = |at: usize| CandidateTold {
            nodes: at.to_string(),
            short: vec![ShortTold {
                resource: "cpu".into(),
                needed: 2,
                available: 1,
                holders: (0..holders).map(holder).collect(),
            }],
        };
        Evidence {
            reason: "TopologyAffinityError".into(),
            candidates: (0..nodes).map(candidate).collect(),
            ..Evidence::default()
        }
    }

    #[test]
    fn a_log_line_has_all_of_it_where_there_is_room() {
        let whole = of(4, 8);
        let logged = logged(&whole);
        assert!(!logged.is_cut);
        assert_eq!(serde_json::from_str::<Evidence>(&logged.text).unwrap(), whole);
    }

    #[test]
    fn what_a_log_line_has_no_room_for_goes_holders_first() {
        let read = |whole: &Evidence| {
            let logged = logged(whole);
            assert!(logged.text.len() <= LOGGED && logged.is_cut, "{}", logged.text.len());
            serde_json::from_str::<Evidence>(&logged.text).unwrap()
        };
        let some = read(&of(16, 8));
        assert_eq!((some.candidates.len(), some.candidates[0].short[0].holders.len()), (16, 3));
        let none = read(&of(64, 8));
        assert!(none.candidates.len() >= 16 && none.reason == "TopologyAffinityError");
        // Names no pod can have.
        let mut odd = of(2, 1);
        odd.candidates.iter_mut().for_each(|candidate| candidate.nodes = "9".repeat(LOGGED));
        assert_eq!(read(&odd).candidates, []);
    }
}
