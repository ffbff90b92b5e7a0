//! CPUs as cells: the threads of a core side by side, the cores that share a last-level cache in one frame.

use super::canvas::{Block, SMALL, centred, flow, rect, stack, title};
use super::holders::Holders;
use crate::model::{Bytes, Core, CpuId, CpuSet, Llc, Topology};
use svg::node::element::{Group, Polygon};

const CELL: f64 = 17.0;
const CORE_GAP: f64 = 4.0;
const FRAME: f64 = 5.0;
const FRAME_GAP: f64 = 6.0;
const CAPTION: f64 = 12.0;

/// What a CPU is like, beside who holds it.
pub(super) struct Kinds<'a> {
    pub topology: &'a Topology,
    pub holders: &'a Holders,
    /// Those kept for the system.
    pub reserved: CpuSet,
}

impl Kinds<'_> {
    /// Online, and not among those that the cgroup of all pods has.
    fn is_closed(&self, cpu: CpuId) -> bool {
        self.topology.pods_cpus.as_ref().is_some_and(|cpus| !cpus.contains(cpu))
    }

    fn words(&self, cpu: CpuId) -> String {
        let mut words = match self.holders.cpus.get(&cpu) {
            Some(holder) => self.holders.get(*holder).name.clone(),
            None if self.reserved.contains(cpu) => "kept for the system".into(),
            None if self.is_closed(cpu) => "not for pods".into(),
            None => "free".into(),
        };
        if self.topology.isolated.contains(cpu) {
            words += ", isolated";
        }
        format!("CPU {cpu}: {words}")
    }

    fn cell(&self, x: f64, y: f64, cpu: CpuId) -> Group {
        let holder = self.holders.cpus.get(&cpu).map(|holder| self.holders.get(*holder));
        let class = match holder {
            Some(_) => "cell",
            None if self.reserved.contains(cpu) => "cell kept",
            None if self.is_closed(cpu) => "cell closed",
            None => "cell free",
        };
        let cell = rect(x, y, CELL, CELL, class).set("id", format!("cpu{cpu}"));
        let cell = match holder {
            Some(holder) => cell.set("style", format!("fill:{}", holder.fill())),
            None => cell,
        };
        let text = holder.map_or_else(|| cpu.to_string(), |holder| holder.key.clone());
        let (class, down) = match (holder.is_some(), text.len()) {
            (true, ..=2) => ("k", 12.0),
            (true, _) => ("k3", 11.0),
            (false, ..=3) => ("n", 11.5),
            (false, _) => ("n4", 11.0),
        };
        let group = Group::new().add(title(&self.words(cpu))).add(cell);
        let group = group.add(centred(x + CELL / 2.0, y + down, class, &text));
        match self.topology.isolated.contains(cpu) {
            true => group.add(corner(x, y)),
            false => group,
        }
    }

    fn core(&self, cpus: &CpuSet) -> Block {
        let width = cpus.len() as f64 * CELL;
        let mut block = Block::new(width, CELL);
        for (number, cpu) in cpus.iter().enumerate() {
            block.add(self.cell(number as f64 * CELL, 0.0, cpu));
        }
        block.add(rect(0.0, 0.0, width, CELL, "core").set("rx", 2));
        block
    }

    /// The CPUs of a node, no wider than `room` if they are not wide themselves.
    pub fn draw(&self, cpus: &CpuSet, room: f64) -> Block {
        let caches: Vec<(&Llc, CpuSet)> =
            self.topology.llcs.iter().map(|llc| (llc, llc.cpus.intersection(cpus))).collect();
        let caches: Vec<_> = caches.into_iter().filter(|(_, cpus)| !cpus.is_empty()).collect();
        let uncached = caches.iter().fold(cpus.clone(), |rest, (_, cached)| rest.difference(cached));
        // Where there are several, two of them stand beside each other at least.
        let share = if caches.len() > 1 { (room - FRAME_GAP) / 2.0 } else { room };
        let frames = caches.iter().map(|(llc, cpus)| self.cache(llc, cpus, share)).collect();
        stack([flow(frames, room, FRAME_GAP), self.cores(&uncached, room)], FRAME_GAP)
    }

    fn cache(&self, llc: &Llc, cpus: &CpuSet, room: f64) -> Block {
        let cores = self.cores(cpus, room - 2.0 * FRAME);
        let (width, height) = (cores.width.max(44.0) + 2.0 * FRAME, cores.height + CAPTION + FRAME + 2.0);
        let mut block = Block::new(width, height);
        let size = llc.size_bytes.map(|size| format!(" {}", Bytes(size))).unwrap_or_default();
        let whole = llc.cpus == *cpus;
        block.tell(&format!("L3{size}, shared by CPUs {}", llc.cpus));
        block.add(rect(0.0, 0.0, width, height, if whole { "llc" } else { "part" }).set("rx", 3));
        let part = if whole { "" } else { ", a part" };
        block.add(SMALL.line(FRAME, 9.5, width - 2.0 * FRAME, &format!("L3{size}{part}")));
        block.put(FRAME, CAPTION + 1.0, cores);
        block
    }

    /// Cores in rows of one length, as far as they are of one size.
    fn cores(&self, cpus: &CpuSet, room: f64) -> Block {
        let cores = self.topology.cores.iter().map(|core: &Core| core.cpus.intersection(cpus));
        let mut cores: Vec<CpuSet> = cores.filter(|core| !core.is_empty()).collect();
        let known = cores.iter().fold(CpuSet::new(), |all, core| all.union(core));
        cores.extend(cpus.difference(&known).iter().map(CpuSet::single));
        let widest = cores.iter().map(CpuSet::len).max().unwrap_or(1) as f64 * CELL + CORE_GAP;
        let most = ((room + CORE_GAP) / widest).floor().max(1.0);
        // As many rows as it takes, all of them full: 56 cores are 4 rows of 14, not 3 of 17 and one of 5.
        let rows = (cores.len() as f64 / most).ceil().max(1.0);
        let columns = (cores.len() as f64 / rows).ceil();
        let blocks = cores.iter().map(|core| self.core(core)).collect();
        flow(blocks, columns * widest - CORE_GAP, CORE_GAP)
    }
}

/// Marks isolated CPUs.
fn corner(x: f64, y: f64) -> Polygon {
    let points = format!("{x},{y} {},{y} {x},{}", x + 5.0, y + 5.0);
    Polygon::new().set("points", points).set("class", "isolated")
}

/// A cell for the legend.
pub(super) fn sample(class: &str, isolated: bool) -> Block {
    let mut block = Block::new(CELL, CELL);
    block.add(rect(0.0, 0.0, CELL, CELL, &format!("cell {class}")));
    if isolated {
        block.add(corner(0.0, 0.0));
    }
    block
}
