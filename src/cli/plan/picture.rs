//! The plan as a picture.

use super::fill::{fits, runs_out};
use super::pods::Pod;
use super::seat::{self, Fill, Room, Seated};
use super::text;
use crate::cli::picture::{Books, Note, Party, Picture, Seat, draw};
use crate::model::ContainerKind;

/// Draws the plan: an SVG document.
pub fn print(room: &Room<'_>, seated: &[Seated], fill: Option<(&Pod, &Fill)>) -> String {
    let copies = fill.iter().flat_map(|(_, fill)| &fill.seated);
    let all: Vec<&Seated> = seated.iter().chain(copies).collect();
    draw(&Picture {
        topology: room.topology,
        heading: "maitred plan".into(),
        summary: text::headline(room),
        parties: all.iter().filter_map(|seated| party(room, seated)).collect(),
        books: Some(Books::of(&room.machine)),
        notes: notes(&all, fill),
    })
}

fn party(room: &Room<'_>, seated: &Seated) -> Option<Party> {
    let seats = seated.verdict.as_ref().ok()?;
    let name = seated.pod.title();
    Some(Party { name, seats: seats.iter().map(|seat| self::seat(room, &seated.pod, seat)).collect() })
}

fn seat(room: &Room<'_>, pod: &Pod, seat: &seat::Seat) -> Seat {
    let own = pod.request.containers.iter().find(|container| container.name == seat.name);
    let words = text::has(room, seat).into_iter().filter(|words| !words.is_empty());
    Seat {
        name: text::called(pod, seat),
        words: words.collect::<Vec<_>>().join(", "),
        cpus: seat.placement.cpus.clone(),
        memory: seat.placement.memory.clone(),
        gpus: seat.gpus(room.topology),
        nics: seat.nics(),
        passing: own.is_some_and(|container| container.kind == ContainerKind::Init),
    }
}

/// Who was turned away, and how often the last one fits.
fn notes(all: &[&Seated], filled: Option<(&Pod, &Fill)>) -> Vec<Note> {
    let mut told: Vec<(Vec<String>, String)> = Vec::new();
    for seated in all {
        let Err(rejection) = &seated.verdict else { continue };
        text::collect(&mut told, seated.pod.title(), rejection.to_string());
    }
    let rejected = told.into_iter().map(|(titles, text)| {
        let text = format!("rejected: {}: {text}", text::some_of(&titles));
        Note { bad: true, text }
    });
    let fits = filled.map(|(pod, fill)| Note { bad: false, text: fits(pod, fill) + &runs_out(fill) });
    rejected.chain(fits).collect()
}
