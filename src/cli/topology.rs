//! `maitred topology`: the machine, for people.

use super::output::{Paint, count};
use super::picture::{self, Picture};
use crate::model::{
    Bytes, CpuSet, Gpu, HugepagePool, HugepageSize, Nic, NodeId, NodeKind, NumaNode, Topology,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// The machine as aligned text: a summary, the nodes, their distances, GPUs and NICs.
///
/// Unknown is printed as `?`, nothing as `-`: a GPU on node `?` is not one on node 0.
#[must_use]
pub fn render_text(topology: &Topology) -> String {
    render(topology, Paint::PLAIN)
}

/// The same, with headings in bold and what is unknown in yellow where that can be seen.
pub(super) fn render(topology: &Topology, paint: Paint) -> String {
    let tables =
        [summary(topology), nodes(topology), distances(topology), gpus(&topology.gpus), nics(&topology.nics)];
    let parts: Vec<String> =
        tables.iter().filter(|table| !table.rows.is_empty()).map(|table| table.text(paint)).collect();
    parts.join("\n")
}

/// The machine as a picture.
#[must_use]
pub fn picture(topology: &Topology) -> String {
    picture::draw(&Picture {
        topology,
        heading: "maitred topology".into(),
        summary: headline(topology),
        parties: Vec::new(),
        books: None,
        notes: Vec::new(),
    })
}

/// `2 nodes, 224 CPUs, 8 GPUs, 8 NICs`.
pub(super) fn headline(topology: &Topology) -> String {
    let mut parts = vec![count(topology.numa_nodes.len(), "node"), count(topology.cpus.len(), "CPU")];
    for (number, noun) in [(topology.gpus.len(), "GPU"), (topology.nics.len(), "NIC")] {
        parts.extend((number > 0).then(|| count(number, noun)));
    }
    parts.join(", ")
}

fn summary(topology: &Topology) -> Table {
    let mut table = Table::new([Left, Left]);
    let mut row = |name: &str, text: String| table.row([name.to_owned(), text]);
    row("CPUs", format!("{} online: {}", topology.cpus.len(), topology.cpus));
    if !topology.isolated.is_empty() {
        row("isolated", format!("{}: {}", topology.isolated.len(), topology.isolated));
    }
    let packages = topology.packages.iter().map(|p| format!("{} ({})", p.id, count(p.cpus.len(), "CPU")));
    row("packages", format!("{}: {}", topology.packages.len(), join(packages)));
    row("cores", format!("{}, {}", topology.cores.len(), threads(topology)));
    if !topology.llcs.is_empty() {
        row("L3", format!("{}, {}", topology.llcs.len(), cache_sizes(topology)));
    }
    table
}

/// `2 threads each`, or `1 to 2 threads each` on a hybrid machine or with siblings offline.
fn threads(topology: &Topology) -> String {
    let counts: BTreeSet<usize> = topology.cores.iter().map(|core| core.cpus.len()).collect();
    match (counts.first(), counts.last()) {
        (Some(few), Some(most)) if few != most => format!("{few} to {} each", count(*most, "thread")),
        (Some(few), _) => format!("{} each", count(*few, "thread")),
        _ => "threads unknown".to_owned(),
    }
}

fn cache_sizes(topology: &Topology) -> String {
    let sizes: BTreeSet<Option<u64>> = topology.llcs.iter().map(|llc| llc.size_bytes).collect();
    let size =
        |size: &Option<u64>| size.map_or_else(|| "unknown size".to_owned(), |size| Bytes(size).to_string());
    format!("{} each", sizes.iter().map(size).collect::<Vec<_>>().join(" or "))
}

fn nodes(topology: &Topology) -> Table {
    let mut table = Table::new([Right, Left, Right, Left, Right, Left, Left, Left]);
    table.row(["NODE", "KIND", "CPUS", "", "MEMORY", "HUGEPAGES", "GPUS", "NICS"]);
    for node in &topology.numa_nodes {
        let gpus = topology.gpus.iter().filter(|gpu| gpu.numa_node == Some(node.id));
        let nics = topology.nics.iter().filter(|nic| nic.numa_node == Some(node.id));
        table.row([
            node.id.to_string(),
            kind(node).to_owned(),
            node.cpus.len().to_string(),
            cpu_list(&node.cpus),
            Bytes(node.memory_bytes).to_string(),
            pools(&node.hugepages),
            join(gpus.map(|gpu| gpu.index)),
            join(nics.map(|nic| &nic.name)),
        ]);
    }
    table
}

fn kind(node: &NumaNode) -> &'static str {
    match (node.kind(), node.memory_bytes) {
        (NodeKind::CpuAndMemory, _) => "cpu+memory",
        (NodeKind::Cpu, _) => "cpu",
        (NodeKind::Memory, 0) => "empty",
        (NodeKind::Memory, _) => "memory",
    }
}

/// The kernel's list; where CPUs are dealt out in turns the short form that it reads too: `0-108:1/4` is
/// every fourth from 0 to 108.
fn cpu_list(cpus: &CpuSet) -> String {
    let list = cpus.to_string();
    let ids: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
    let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return "-".to_owned() };
    let steps: BTreeSet<u32> = ids.windows(2).map(|pair| pair[1] - pair[0]).collect();
    match (steps.len(), steps.first()) {
        (1, Some(step)) if *step > 1 && ids.len() > 4 => format!("{first}-{last}:1/{step}"),
        _ => list,
    }
}

/// Free and all pages by size: `1Gi 14/16 free`. A size of which there are none is not mentioned.
fn pools(pools: &BTreeMap<HugepageSize, HugepagePool>) -> String {
    let filled = pools.iter().filter(|(_, pool)| pool.total > 0);
    join(filled.map(|(size, pool)| format!("{size} {}/{} free", pool.free, pool.total)))
}

fn distances(topology: &Topology) -> Table {
    if topology.numa_nodes.iter().all(|node| node.distances.is_empty()) {
        return Table::new([]);
    }
    let ids: Vec<NodeId> = topology.numa_nodes.iter().map(|node| node.id).collect();
    let mut table = Table::new(std::iter::repeat_n(Right, ids.len() + 1));
    table.row(std::iter::once("DISTANCE".to_owned()).chain(ids.iter().map(NodeId::to_string)));
    for node in &topology.numa_nodes {
        let to = |other| node.distances.get(other).map_or_else(|| "?".to_owned(), u32::to_string);
        table.row(std::iter::once(node.id.to_string()).chain(ids.iter().map(to)));
    }
    table
}

fn gpus(gpus: &[Gpu]) -> Table {
    if gpus.is_empty() {
        return Table::new([]);
    }
    let column = |name: &'static str, some: fn(&Gpu) -> bool| if gpus.iter().any(some) { name } else { "" };
    let own_node = column("OWN NODE", |gpu| gpu.memory_node.is_some());
    let mig = column("MIG", |gpu| !gpu.mig.is_empty());
    let mut table = Table::new([Right, Left, Right, Right, Left, Left, Left, Left]);
    table.row(["GPU", "PCI", "NODE", "MINOR", "UUID", "MODEL", "NVLINKS", own_node, mig]);
    for gpu in gpus {
        let own = gpu.memory_node.map_or("-".to_owned(), |node| node.to_string());
        let parts = join(gpu.mig.iter().map(|mig| format!("{}:{} {}", gpu.index, mig.index, mig.uuid)));
        table.row([
            gpu.index.to_string(),
            gpu.pci.to_string(),
            known(gpu.numa_node.as_ref()),
            known(gpu.minor.as_ref()),
            known(gpu.uuid.as_ref()),
            known(gpu.model.as_ref()),
            nvlinks(gpu, gpus),
            if own_node.is_empty() { String::new() } else { own },
            if mig.is_empty() { String::new() } else { parts },
        ]);
    }
    table
}

/// `18 by switches` reach any GPU that has such; `4 to 1` are links of its own to that one.
fn nvlinks(gpu: &Gpu, all: &[Gpu]) -> String {
    let switched = (gpu.switch_links > 0).then(|| format!("{} by switches", gpu.switch_links));
    let by_switch = |other: u32| all.iter().any(|gpu| gpu.index == other && gpu.switch_links > 0);
    let own = gpu.nvlinks.iter().map(|(other, links)| match by_switch(*other) {
        true => (other, links.saturating_sub(gpu.switch_links)),
        false => (other, *links),
    });
    let own = own.filter(|(_, links)| *links > 0).map(|(other, links)| format!("{links} to {other}"));
    join(switched.into_iter().chain(own))
}

fn nics(nics: &[Nic]) -> Table {
    if nics.is_empty() {
        return Table::new([]);
    }
    let mut table = Table::new([Left, Left, Right, Left]);
    table.row(["NIC", "PCI", "NODE", "VERBS"]);
    for nic in nics {
        let verbs = nic.uverbs.iter().map(|number| format!("uverbs{number}"));
        table.row([nic.name.clone(), known(nic.pci.as_ref()), known(nic.numa_node.as_ref()), join(verbs)]);
    }
    table
}

fn known(value: Option<&impl Display>) -> String {
    value.map_or_else(|| "?".to_owned(), ToString::to_string)
}

fn join(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if items.is_empty() { "-".to_owned() } else { items.join(", ") }
}

/// To which side a column is flush.
#[derive(Clone, Copy)]
enum Flush {
    Left,
    Right,
}
use Flush::{Left, Right};

/// Rows of cells, two spaces between the columns.
struct Table {
    flush: Vec<Flush>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(flush: impl IntoIterator<Item = Flush>) -> Self {
        Self { flush: flush.into_iter().collect(), rows: Vec::new() }
    }

    fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    /// Headings are in capitals.
    fn text(&self, paint: Paint) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(|column| self.width(column)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().enumerate().map(|(column, cell)| {
                let width = widths[column];
                let cell = match self.flush.get(column).copied().unwrap_or(Left) {
                    Left => format!("{cell:<width$}"),
                    Right => format!("{cell:>width$}"),
                };
                if cell.trim() == "?" { paint.yellow(&cell) } else { cell }
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            let line = line.trim_end();
            let heading = ["NODE", "DISTANCE", "GPU", "NIC"]
                .iter()
                .any(|word| row.first().is_some_and(|cell| cell == word));
            text.push_str(&if heading { paint.bold(line) } else { line.to_owned() });
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::snapshot;

    #[test]
    fn colours_change_no_letter_and_show_what_is_unknown() {
        let text = std::fs::read_to_string("packaging/examples/h100-server.json").unwrap();
        let mut machine = snapshot::from_json(&text).unwrap();
        machine.gpus[0].minor = None;
        let coloured = render(&machine, Paint::COLOURED);
        assert!(coloured.contains("\x1b[1mNODE ") && coloured.contains("\x1b[33m    ?\x1b[0m"), "{coloured}");
        let plain =
            ["\x1b[1m", "\x1b[33m", "\x1b[0m"].iter().fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(plain, render_text(&machine));
    }
}
