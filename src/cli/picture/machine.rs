//! The machine: packages, in them nodes, in them CPUs, memory and devices.

use super::canvas::{Block, NAME, PLAIN, SMALL, flow, rect, stack};
use super::cpus::Kinds;
use super::holders::Holders;
use super::{Books, Picture, devices, memory, width};
use crate::cli::output::count;
use crate::model::{CpuSet, NodeId, NodeKind, NodeSet, NumaNode, PackageId, Topology};
use std::collections::{BTreeMap, BTreeSet};

const PAD: f64 = 9.0;
const GAP: f64 = 10.0;
/// The narrowest node: two GPUs, or the words about its memory.
const NARROWEST: f64 = 178.0;

/// Draws it.
pub(super) fn draw(picture: &Picture<'_>, holders: &Holders) -> Block {
    let topology = picture.topology;
    let reserved = picture.books.as_ref().map(|books| books.reserved.clone()).unwrap_or_default();
    let sheet = Sheet { picture, holders, kinds: Kinds { topology, holders, reserved } };
    let groups = groups(topology);
    let room = room(topology, &groups);
    let packages = groups.iter().map(|(packages, nodes)| sheet.package(packages, nodes, room)).collect();
    stack([same_height(packages, width(topology), GAP), sheet.nowhere(room)], GAP)
}

/// Packages, and the nodes that are theirs.
type Groups<'a> = BTreeMap<BTreeSet<PackageId>, Vec<&'a NumaNode>>;

fn groups(topology: &Topology) -> Groups<'_> {
    let mut groups = Groups::new();
    for node in &topology.numa_nodes {
        groups.entry(packages(topology, node)).or_default().push(node);
    }
    groups
}

/// The packages whose CPUs a node has; of a node without, those of the node that it hangs on.
fn packages(topology: &Topology, node: &NumaNode) -> BTreeSet<PackageId> {
    let of = |node: &NumaNode| -> BTreeSet<PackageId> {
        let own = topology.packages.iter().filter(|package| !package.cpus.is_disjoint(&node.cpus));
        own.map(|package| package.id).collect()
    };
    match node.cpus.is_empty() {
        false => of(node),
        true => host(topology, node).and_then(|host| topology.node(host)).map(of).unwrap_or_default(),
    }
}

/// The node that a node without CPUs hangs on: its GPU's, or the only one that is nearest.
fn host(topology: &Topology, node: &NumaNode) -> Option<NodeId> {
    let own = topology.gpus.iter().find(|gpu| gpu.memory_node == Some(node.id));
    if let Some(near) = own.and_then(|gpu| gpu.numa_node).filter(|near| *near != node.id) {
        return Some(near);
    }
    let with_cpus = topology.numa_nodes.iter().filter(|other| !other.cpus.is_empty());
    let mut near: Vec<_> =
        with_cpus.filter_map(|other| Some((*node.distances.get(&other.id)?, other.id))).collect();
    near.sort_unstable();
    match near[..] {
        [(_, only)] => Some(only),
        [(first, nearest), (second, _), ..] if first < second => Some(nearest),
        _ => None,
    }
}

/// How wide the inside of a node is, so that they stand in rows that are neither too long nor too short.
fn room(topology: &Topology, groups: &Groups<'_>) -> f64 {
    let with_cpus = || topology.numa_nodes.iter().filter(|node| !node.cpus.is_empty());
    let nodes = with_cpus().count();
    let most = with_cpus().map(|node| node.cpus.len()).max().unwrap_or(1);
    let beside = match nodes {
        0..=3 => nodes.max(1),
        4 if most > 32 => 2,
        4..=16 => 4,
        _ if most > 64 => 4,
        _ => 8,
    };
    // So many packages stand in one row, and each is a frame.
    let largest =
        groups.values().map(|nodes| nodes.iter().filter(|node| !node.cpus.is_empty()).count()).max();
    let frames = (beside / largest.unwrap_or(1).max(1)).clamp(1, groups.len().max(1)) as f64;
    let spent = frames * 2.0 * PAD + (beside as f64 - 1.0) * GAP;
    let share = (width(topology) - spent) / beside as f64;
    // A laptop does not fill the page.
    let natural = (most as f64 * 21.0).max(360.0);
    (share - 2.0 * PAD).floor().clamp(NARROWEST, natural)
}

struct Sheet<'a> {
    picture: &'a Picture<'a>,
    holders: &'a Holders,
    kinds: Kinds<'a>,
}

impl Sheet<'_> {
    fn package(&self, packages: &BTreeSet<PackageId>, nodes: &[&NumaNode], room: f64) -> Frame {
        let (empty, nodes): (Vec<&NumaNode>, Vec<&NumaNode>) = nodes.iter().partition(|node| is_empty(node));
        let (full, bare): (Vec<&NumaNode>, Vec<&NumaNode>) =
            nodes.into_iter().partition(|node| !node.cpus.is_empty());
        let boxes: Vec<Frame> = full.into_iter().map(|node| self.node(node, room)).collect();
        let beside = width(self.picture.topology) - 2.0 * PAD;
        let small = (room + 2.0 * PAD - GAP) / 2.0 - 2.0 * PAD;
        let bare: Vec<Frame> = bare.into_iter().map(|node| self.node(node, small.max(NARROWEST))).collect();
        let around = (boxes.len().max(1) as f64 * (room + 2.0 * PAD + GAP)).min(beside);
        let empty: NodeSet = empty.iter().map(|node| node.id).collect();
        let empty_line = (!empty.is_empty()).then(|| {
            let mut line = Block::new(room, 14.0);
            line.add(PLAIN.line(0.0, 11.0, room, &format!("{} without memory", empty.words())));
            line
        });
        let inside = [same_height(boxes, beside, GAP), same_height(bare, around, GAP)];
        let title = match packages.len() {
            0 => "of no known package".to_owned(),
            1 => format!("package {}", join(packages)),
            _ => format!("packages {}", join(packages)),
        };
        Frame {
            class: "package",
            title,
            words: String::new(),
            tip: String::new(),
            inside: stack(inside.into_iter().chain(empty_line), GAP),
        }
    }

    fn node(&self, node: &NumaNode, room: f64) -> Frame {
        let topology = self.picture.topology;
        let gpus = topology.gpus.iter().filter(|gpu| gpu.numa_node == Some(node.id));
        let nics = topology.nics.iter().filter(|nic| nic.numa_node == Some(node.id));
        let mut blank = Block::new(room, 0.0);
        if node.kind() == NodeKind::Cpu {
            blank = Block::new(room, 12.0);
            blank.add(SMALL.line(0.0, 9.5, room, "no memory"));
        }
        let parts = [
            self.kinds.draw(&node.cpus, room),
            blank,
            memory::draw(self.picture, self.holders, node, room),
            devices::gpus(gpus, self.holders, room),
            devices::nics(nics, self.holders, room),
        ];
        let mut inside = stack(parts, 8.0);
        inside.width = inside.width.max(room);
        Frame {
            class: "node",
            title: format!("node {}", node.id),
            words: self.words(node),
            tip: distances(node),
            inside,
        }
    }

    fn words(&self, node: &NumaNode) -> String {
        if node.cpus.is_empty() {
            let own = self.picture.topology.gpus.iter().filter(|gpu| gpu.memory_node == Some(node.id));
            let own: Vec<String> = own.map(|gpu| format!("GPU {}", gpu.index)).collect();
            return if own.is_empty() {
                "memory only".into()
            } else {
                format!("memory of {}", own.join(", "))
            };
        }
        let cpus = count(node.cpus.len(), "CPU");
        match &self.picture.books {
            Some(books) => format!("{} of {cpus} free", self.free(books, &node.cpus)),
            None => cpus,
        }
    }

    fn free(&self, books: &Books, cpus: &CpuSet) -> usize {
        let topology = self.picture.topology;
        let open = topology.pods_cpus.as_ref().map_or_else(|| cpus.clone(), |open| cpus.intersection(open));
        let held: CpuSet = self.holders.cpus.keys().copied().collect();
        open.difference(&books.reserved).difference(&held).len()
    }

    /// What is on no node that is known.
    fn nowhere(&self, room: f64) -> Block {
        let topology = self.picture.topology;
        let known = topology.numa_nodes.iter().fold(CpuSet::new(), |all, node| all.union(&node.cpus));
        let nowhere = |near: Option<NodeId>| near.is_none_or(|near| topology.node(near).is_none());
        let parts = [
            self.kinds.draw(&topology.cpus.difference(&known), room),
            devices::gpus(topology.gpus.iter().filter(|gpu| nowhere(gpu.numa_node)), self.holders, room),
            devices::nics(topology.nics.iter().filter(|nic| nowhere(nic.numa_node)), self.holders, room),
        ];
        let inside = stack(parts, 8.0);
        if inside.height == 0.0 {
            return inside;
        }
        let title = "of unknown locality".to_owned();
        Frame { class: "odd", title, words: String::new(), tip: String::new(), inside }.draw(0.0)
    }
}

/// Neither CPUs nor memory: the nodes that a GPU could have memory on, and has not.
fn is_empty(node: &NumaNode) -> bool {
    node.cpus.is_empty() && node.memory_bytes == 0
}

fn distances(node: &NumaNode) -> String {
    let to = |(node, distance): (&NodeId, &u32)| format!("{distance} to node {node}");
    let all: Vec<String> = node.distances.iter().map(to).collect();
    if all.is_empty() { String::new() } else { format!("node {}: distance {}", node.id, all.join(", ")) }
}

fn join(packages: &BTreeSet<PackageId>) -> String {
    packages.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A box with a title.
struct Frame {
    class: &'static str,
    title: String,
    words: String,
    tip: String,
    inside: Block,
}

impl Frame {
    fn width(&self) -> f64 {
        self.inside.width.max(NAME.width(&self.title)) + 2.0 * PAD
    }

    fn height(&self) -> f64 {
        self.inside.height + 2.0 * PAD + 18.0
    }

    /// No lower than its neighbours.
    fn draw(self, height: f64) -> Block {
        let (width, height) = (self.width(), self.height().max(height));
        let mut block = Block::new(width, height);
        if !self.tip.is_empty() {
            block.tell(&self.tip);
        }
        block.add(rect(0.0, 0.0, width, height, self.class).set("rx", 4));
        block.add(NAME.line(PAD, PAD + 10.0, width - 2.0 * PAD, &self.title));
        let room = width - 3.0 * PAD - NAME.width(&self.title);
        if room > 0.0 && !self.words.is_empty() {
            block.add(PLAIN.line_to(width - PAD, PAD + 10.0, room, &self.words));
        }
        block.put(PAD, PAD + 18.0, self.inside);
        block
    }
}

/// Boxes in rows, those of a row as high as its highest.
fn same_height(frames: Vec<Frame>, room: f64, gap: f64) -> Block {
    let mut rows: Vec<(f64, Vec<Frame>)> = Vec::new();
    for frame in frames {
        let width = frame.width();
        match rows.last_mut() {
            Some((used, row)) if *used + gap + width <= room => {
                *used += gap + width;
                row.push(frame);
            }
            _ => rows.push((width, vec![frame])),
        }
    }
    let row = |(_, frames): (f64, Vec<Frame>)| {
        let height = frames.iter().map(Frame::height).fold(0.0, f64::max);
        flow(frames.into_iter().map(|frame| frame.draw(height)).collect(), f64::INFINITY, gap)
    };
    stack(rows.into_iter().map(row), gap)
}
