//! A machine as a picture: its nodes as boxes, and who sits where. SVG 1.1 without scripts, links or fonts of its own.
//!
//! Colours alone tell nothing: whoever holds something has a key (`A`, `B2`) that stands in all of it and in the
//! legend, so a picture printed in grey says the same.

mod canvas;
mod cpus;
mod devices;
mod holders;
mod legend;
mod links;
mod machine;
mod memory;
mod palette;

use crate::engine::{Machine, Occupancy};
use crate::model::{Bytes, CpuSet, MemoryBlock, MemoryKind, NodeId, Topology};
use canvas::{BAD, Block, HEADING, PLAIN, stack};
use holders::Holders;
use std::collections::BTreeMap;
use svg::Document;
use svg::node::element::{Rectangle, Title};

/// What is drawn.
#[derive(Debug, Clone)]
pub struct Picture<'a> {
    /// The machine.
    pub topology: &'a Topology,
    /// The line above it.
    pub heading: String,
    /// What else is to be said at once, below that.
    pub summary: String,
    /// Who sits there.
    pub parties: Vec<Party>,
    /// What is held back; `None` where nobody is seated and nothing is free or taken.
    pub books: Option<Books>,
    /// What does not sit there, and what else there is to know, in the order it is shown.
    pub notes: Vec<Note>,
}

/// What a machine's containers can have at all.
#[derive(Debug, Clone, Default)]
pub struct Books {
    /// CPUs kept for the system.
    pub reserved: CpuSet,
    /// What may be promised of a node.
    pub allocatable: Amounts,
    /// No more than this is free of a node, whatever the promises leave: the rest is in use beside them.
    pub free: Amounts,
}

/// Bytes by node and kind.
pub type Amounts = BTreeMap<(NodeId, MemoryKind), Bytes>;

impl Books {
    /// Of a machine.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        Self {
            reserved: machine.reserved().clone(),
            allocatable: amounts(machine, |node, kind| machine.allocatable(node, kind)),
            free: Amounts::new(),
        }
    }

    /// Of a machine of which somebody has something already, whether the parties drawn do or not.
    #[must_use]
    pub fn occupied(machine: &Machine, occupancy: &Occupancy) -> Self {
        let free = amounts(machine, |node, kind| occupancy.free_memory(machine, node, kind));
        Self { free, ..Self::of(machine) }
    }
}

fn amounts(machine: &Machine, amount: impl Fn(NodeId, MemoryKind) -> Bytes) -> Amounts {
    let nodes = machine.nodes();
    let all = nodes.iter().flat_map(|node| machine.memory_kinds().map(move |kind| (node, kind)));
    all.map(|(node, kind)| ((node, kind), amount(node, kind))).collect()
}

/// A pod; its seats have one colour.
#[derive(Debug, Clone)]
pub struct Party {
    /// How people call it.
    pub name: String,
    /// Its containers.
    pub seats: Vec<Seat>,
}

/// A container and what it has.
#[derive(Debug, Clone, Default)]
pub struct Seat {
    /// How people call it.
    pub name: String,
    /// What it has, in words.
    pub words: String,
    /// Its exclusive CPUs.
    pub cpus: CpuSet,
    /// What it was promised.
    pub memory: Vec<MemoryBlock>,
    /// GPUs and MIG devices, by any of their names.
    pub gpus: Vec<String>,
    /// NICs, by name.
    pub nics: Vec<String>,
    /// An init container: those of its pod that come later have it all again.
    pub passing: bool,
}

/// A sentence.
#[derive(Debug, Clone)]
pub struct Note {
    /// Whether it is bad news.
    pub bad: bool,
    /// The sentence.
    pub text: String,
}

/// How wide a picture is, unless something in it takes more.
fn width(topology: &Topology) -> f64 {
    match topology.numa_nodes.iter().filter(|node| !node.cpus.is_empty()).count() {
        0..=16 => 1180.0,
        // Four times as high as wide is nothing to look at.
        _ => 1720.0,
    }
}

/// The white around it.
const MARGIN: f64 = 14.0;
/// Between its parts.
const GAP: f64 = 12.0;

/// Draws it: an SVG document, ending with a line break.
#[must_use]
pub fn draw(picture: &Picture<'_>) -> String {
    let holders = Holders::of(picture);
    let machine = machine::draw(picture, &holders);
    let links = links::draw(picture.topology, &holders);
    let most = width(picture.topology);
    let room = machine.width.max(links.width).clamp(most / 2.0, most);
    let parts =
        [head(picture, room), machine, links, legend::draw(picture, &holders, room), notes(picture, room)];
    let page = stack(parts, GAP);
    let (width, height) = (page.width + 2.0 * MARGIN, page.height + 2.0 * MARGIN);
    let background = Rectangle::new().set("width", width).set("height", height).set("fill", "#ffffff");
    let mut sheet = Block::new(width, height);
    sheet.put(MARGIN, MARGIN, page);
    let document = Document::new()
        .set("version", "1.1")
        .set("viewBox", (0.0, 0.0, width, height))
        .set("width", width)
        .set("height", height)
        .add(Title::new(format!("{}: {}", picture.heading, picture.summary)))
        .add(palette::style())
        .add(palette::patterns(holders.colours()))
        .add(background)
        .add(sheet.content());
    format!("{document}\n")
}

fn head(picture: &Picture<'_>, room: f64) -> Block {
    let mut block = Block::new(room, 20.0);
    block.add(HEADING.line(0.0, 16.0, room, &picture.heading));
    stack([block, PLAIN.paragraph(room, &picture.summary)], 4.0)
}

fn notes(picture: &Picture<'_>, room: f64) -> Block {
    let line = |note: &Note| if note.bad { BAD } else { PLAIN }.paragraph(room, &note.text);
    stack(picture.notes.iter().map(line), 4.0)
}
