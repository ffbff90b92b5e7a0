//! NVLink: the GPUs in a row, over them arcs for links to each other, below them the switches.

use super::canvas::{Block, NAME, centred, rect, round, title};
use super::devices::{self, GPU_WIDTH};
use super::holders::Holders;
use crate::model::{Gpu, Topology};
use svg::node::element::{Group, Path};

const STEP: f64 = GPU_WIDTH + 14.0;
const CHIP: f64 = 36.0;

/// Links between two GPUs, by their places in the row.
struct Arc {
    from: usize,
    to: usize,
    links: u32,
    /// How high it goes: no two that run over each other are equally high.
    lane: usize,
}

/// Draws the row, where any GPU has a link.
pub(super) fn draw(topology: &Topology, holders: &Holders) -> Block {
    let gpus = &topology.gpus;
    let mut arcs = arcs(gpus);
    let bar = switches(gpus).or_else(|| all_to_all(gpus, &mut arcs));
    if arcs.is_empty() && bar.is_none() {
        return Block::new(0.0, 0.0);
    }
    lanes(&mut arcs);
    let highest = arcs.iter().map(|arc| arc.lane).max();
    let top = 20.0 + highest.map_or(0.0, |highest| rise(highest) + 8.0);
    let width = gpus.len() as f64 * STEP - 14.0;
    let mut block = Block::new(width.max(120.0), top + CHIP);
    block.add(NAME.line(0.0, 12.0, width, "NVLink"));
    // No line runs over a label.
    let (lines, labels): (Vec<Group>, Vec<Group>) = arcs.iter().map(|arc| draw_arc(arc, gpus, top)).unzip();
    lines.into_iter().chain(labels).for_each(|group| block.add(group));
    for (place, gpu) in gpus.iter().enumerate() {
        let near = gpu.numa_node.map_or_else(|| "node unknown".into(), |node| format!("node {node}"));
        block.put(place as f64 * STEP, top, devices::gpu(gpu, GPU_WIDTH, &near, holders));
    }
    if let Some(bar) = bar {
        draw_bar(&mut block, gpus, &bar, top + CHIP);
    }
    block
}

/// Links that GPUs have to each other and not through switches.
fn arcs(gpus: &[Gpu]) -> Vec<Arc> {
    let mut arcs = Vec::new();
    for (from, gpu) in gpus.iter().enumerate() {
        for (to, other) in gpus.iter().enumerate().skip(from + 1) {
            let told =
                gpu.nvlinks.get(&other.index).or_else(|| other.nvlinks.get(&gpu.index)).copied().unwrap_or(0);
            let switched = if other.switch_links > 0 { gpu.switch_links } else { 0 };
            let links = told.saturating_sub(switched);
            if links > 0 {
                arcs.push(Arc { from, to, links, lane: 0 });
            }
        }
    }
    arcs
}

/// Puts the short ones below the long ones.
fn lanes(arcs: &mut [Arc]) {
    arcs.sort_by_key(|arc| (arc.to - arc.from, arc.from));
    for number in 0..arcs.len() {
        let (low, rest) = arcs.split_at_mut(number);
        let Some(arc) = rest.first_mut() else { return };
        let crosses =
            |lane| low.iter().any(|other| other.lane == lane && other.from < arc.to && arc.from < other.to);
        arc.lane = (0..).find(|lane| !crosses(*lane)).unwrap_or(0);
    }
}

/// How high an arc of a lane is.
fn rise(lane: usize) -> f64 {
    18.0 + 13.0 * lane as f64
}

/// The line and its label.
fn draw_arc(arc: &Arc, gpus: &[Gpu], y: f64) -> (Group, Group) {
    // Arcs of one GPU leave it side by side, the highest nearest to its middle.
    let lean = (30.0 - 3.5 * arc.lane as f64).max(2.0);
    let x1 = arc.from as f64 * STEP + GPU_WIDTH / 2.0 + lean;
    let x2 = arc.to as f64 * STEP + GPU_WIDTH / 2.0 - lean;
    let (middle, top) = (f64::midpoint(x1, x2), y - rise(arc.lane));
    let bow = 14.0_f64.min((x2 - x1) / 2.0);
    let (left, right) = (x1 + bow, x2 - bow);
    let path = format!("M{x1} {y}C{x1} {top} {x1} {top} {left} {top}H{right}C{x2} {top} {x2} {top} {x2} {y}");
    let path = Path::new().set("d", path).set("class", "link");
    let path = path.set("stroke-width", round((0.7 + 0.7 * f64::from(arc.links)).min(6.0)));
    let words = format!("GPU {} and GPU {}: NV{}", gpus[arc.from].index, gpus[arc.to].index, arc.links);
    let label = format!("NV{}", arc.links);
    let half = label.len() as f64 * 3.6 + 1.0;
    let halo = rect(middle - half, top - 5.5, 2.0 * half, 11.0, "halo");
    let line = Group::new().add(title(&words)).add(path);
    (line, Group::new().add(title(&words)).add(halo).add(centred(middle, top + 3.5, "k", &label)))
}

/// What connects many GPUs at once.
struct Bar {
    words: String,
    /// The links of each, by its place in the row.
    links: Vec<u32>,
}

/// The switches; `None` where no GPU has links to any.
fn switches(gpus: &[Gpu]) -> Option<Bar> {
    let links: Vec<u32> = gpus.iter().map(|gpu| gpu.switch_links).collect();
    links.iter().any(|links| *links > 0).then(|| Bar { words: "NVSwitch".into(), links })
}

/// As many links between any two: 28 equal arcs say less than a sentence. They may be those of switches that nobody
/// told of.
fn all_to_all(gpus: &[Gpu], arcs: &mut Vec<Arc>) -> Option<Bar> {
    let (pairs, first) = (gpus.len() * gpus.len().saturating_sub(1) / 2, arcs.first()?.links);
    if gpus.len() < 4 || arcs.len() < pairs || arcs.iter().any(|arc| arc.links != first) {
        return None;
    }
    arcs.clear();
    Some(Bar { words: "any two connected".into(), links: vec![first; gpus.len()] })
}

fn draw_bar(block: &mut Block, gpus: &[Gpu], bar: &Bar, y: f64) {
    let connected: Vec<(usize, u32)> =
        bar.links.iter().copied().enumerate().filter(|(_, links)| *links > 0).collect();
    let same = connected.windows(2).all(|pair| pair[0].1 == pair[1].1);
    for (place, links) in &connected {
        let x = *place as f64 * STEP + GPU_WIDTH / 2.0;
        let line = Path::new()
            .set("d", format!("M{x} {y}V{}", y + 16.0))
            .set("class", "link")
            .set("stroke-width", 4);
        let words = format!("GPU {}: NV{links}, {}", gpus[*place].index, bar.words);
        let group = Group::new().add(title(&words)).add(line);
        block.add(match same {
            true => group,
            false => group.add(centred(x + 18.0, y + 12.0, "k", &format!("NV{links}"))),
        });
    }
    let width = gpus.len() as f64 * STEP - 14.0;
    let each =
        connected.first().filter(|_| same).map(|(_, links)| format!(": NV{links}")).unwrap_or_default();
    let mut drawn = Block::new(width, 18.0);
    drawn.add(rect(0.0, 0.0, width, 18.0, "bar").set("rx", 3));
    drawn.add(centred(width / 2.0, 13.0, "w", &format!("{}{each}", bar.words)));
    block.put(0.0, y + 16.0, drawn);
}
