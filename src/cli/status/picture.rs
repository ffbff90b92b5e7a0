//! The node as a picture.

use super::read::{Holder, Status};
use super::text;
use crate::cli::node::Node;
use crate::cli::picture::{Books, Note, Party, Picture, Seat, draw};
use crate::cli::topology;
use std::collections::BTreeMap;

/// Draws the node: an SVG document.
pub(super) fn print(status: &Status, node: &Node) -> String {
    let (machine, topology) = (node.state.ledger().machine(), node.state.topology());
    draw(&Picture {
        topology,
        heading: "maitred status".into(),
        summary: format!("{}; {}", topology::headline(topology), text::rules(status)),
        parties: parties(status, node),
        books: Some(Books::occupied(machine, &node.state.occupancy())),
        notes: notes(status),
    })
}

/// Pods in the order of their first container.
fn parties(status: &Status, node: &Node) -> Vec<Party> {
    let mut parties: Vec<Party> = Vec::new();
    let mut places = BTreeMap::new();
    for holder in &status.holders {
        let place = *places.entry(&holder.pod_uid).or_insert_with(|| {
            parties.push(Party { name: text::pod(holder), seats: Vec::new() });
            parties.len() - 1
        });
        parties[place].seats.push(seat(holder, node));
    }
    parties
}

fn seat(holder: &Holder, node: &Node) -> Seat {
    let own = |id: &str, pod: &str, container: &str| {
        (id, pod, container) == (&*holder.container_id, &*holder.pod_uid, &*holder.container)
    };
    let kept = node
        .living
        .iter()
        .find(|(kept, _)| own(kept.id.as_str(), kept.key.pod.as_str(), kept.key.container.as_str()));
    let memory = kept.map(|(_, known)| known.record.placement().memory.clone());
    let state = [text::state(holder).to_owned()];
    let words = text::has(holder).into_iter().chain(state).filter(|words| !words.is_empty());
    Seat {
        name: holder.container.clone(),
        words: words.collect::<Vec<_>>().join(", "),
        cpus: holder.cpus.clone().unwrap_or_default(),
        memory: memory.unwrap_or_default(),
        gpus: holder.gpus.iter().map(|gpu| gpu.uuid.clone()).collect(),
        nics: holder.nics.clone(),
        passing: false,
    }
}

fn notes(status: &Status) -> Vec<Note> {
    let states = text::states(status).into_iter();
    let states =
        states.map(|state| Note { bad: !state.bad.is_empty(), text: state.bad.to_owned() + &state.rest });
    let rest = std::iter::once(text::pool(status)).chain(text::fits(status));
    let rest = rest.chain(status.notes.iter().map(|note| format!("note: {note}")));
    states.chain(rest.map(|text| Note { bad: false, text })).collect()
}
