//! Who is who, and what the other looks of things mean.

use super::canvas::{Block, GREY, PLAIN, centred, rect, rows, stack, title};
use super::holders::{Holder, Holders};
use super::{Picture, cpus, memory};
use crate::model::CpuSet;

const ROW: f64 = 20.0;
const SWATCH: f64 = 30.0;

/// Draws it, no wider than `room`.
pub(super) fn draw(picture: &Picture<'_>, holders: &Holders, room: f64) -> Block {
    let columns = if room > 700.0 && holders.all.len() > 1 { 2.0 } else { 1.0 };
    let column = (room - (columns - 1.0) * 16.0) / columns;
    let who = holders.all.iter().map(|holder| entry(holder, column)).collect();
    let others = match holders.others.len() {
        0 => Block::new(0.0, 0.0),
        _ => PLAIN.paragraph(
            room,
            &format!("In the shared pool, with nothing of their own: {}", holders.others.join(", ")),
        ),
    };
    stack([rows(states(picture, holders), room, (18.0, 4.0)), rows(who, room, (16.0, 3.0)), others], 8.0)
}

fn entry(holder: &Holder, width: f64) -> Block {
    let mut block = Block::new(width, ROW - 2.0);
    block.add(title(&format!("{}: {}", holder.name, holder.words)));
    block.add(rect(0.0, 0.0, SWATCH, 17.0, "box").set("style", format!("fill:{}", holder.fill())));
    block.add(centred(SWATCH / 2.0, 12.0, "k", &holder.key));
    // What it has is short or told elsewhere too; the name gets what that leaves, and two fifths in any case.
    let (x, room) = (SWATCH + 6.0, width - SWATCH - 6.0);
    let for_name = (room - GREY.width(&holder.words) - 8.0).max(room * 0.4);
    let name = PLAIN.clip(&holder.name, for_name);
    block.add(PLAIN.line(x, 12.5, for_name, &holder.name));
    let behind = PLAIN.width(&name) + 8.0;
    block.add(GREY.line(x + behind, 12.5, room - behind, &holder.words));
    block
}

/// The states that there are in this picture.
fn states(picture: &Picture<'_>, holders: &Holders) -> Vec<Block> {
    let topology = picture.topology;
    let bars = memory::states(picture, holders);
    let mut states = Vec::new();
    if let Some(books) = &picture.books {
        states.push(state("free", false, "free"));
        if !books.reserved.is_empty() {
            states.push(state("kept", false, "kept for the system"));
        }
    }
    if topology.pods_cpus.as_ref().is_some_and(|pods| !topology.cpus.is_subset(pods)) {
        states.push(state("closed", false, "not for pods"));
    }
    if !topology.isolated.is_empty() {
        states.push(state("free", true, "isolated (isolcpus)"));
    }
    if bars.contains("pages") {
        states.push(state("pages", false, "memory in huge pages"));
    }
    if bars.contains("used") {
        states.push(state("used", false, "huge pages in use"));
    }
    if bars.contains("beside") {
        states.push(state("used", false, "in use beside the promises"));
    }
    let offline = topology
        .possible
        .as_ref()
        .map(|all| all.difference(&topology.cpus))
        .filter(|cpus: &CpuSet| !cpus.is_empty());
    if let Some(offline) = offline {
        states.push(words(&format!("offline, or not there: CPUs {offline}")));
    }
    if topology.cores.iter().any(|core| core.cpus.len() > 1) {
        states.push(words("cells that touch are threads of one core"));
    }
    states
}

fn state(class: &str, isolated: bool, text: &str) -> Block {
    let mut block = words(text);
    let mut all = Block::new(0.0, 0.0);
    all.put(0.0, 0.0, cpus::sample(class, isolated));
    block.height = 17.0;
    all.put(23.0, 0.0, block);
    all
}

fn words(text: &str) -> Block {
    let width = PLAIN.width(text).min(560.0);
    let mut block = Block::new(width, 17.0);
    block.add(PLAIN.line(0.0, 12.5, width, text));
    block
}
