//! The plan for people: who sits where, node by node, what stays free, who was turned away and why.

use super::fill::{fits, parts, runs_out};
use super::json::pages;
use super::pods::Pod;
use super::seat::{Fill, GPUS, Room, Seat, Seated};
use super::table::Table;
use crate::cli::output::{Paint, count};
use crate::cli::topology;
use crate::engine::{GPU, NIC};
use crate::model::{
    Bytes, Candidate, ContainerKind, CpuSet, MemoryKind, NodeSet, NumaNode, Rejection, Shortage,
};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Prints the plan, ending with a line break.
pub fn print(room: &Room<'_>, seated: &[Seated], fill: Option<(&Pod, &Fill)>, paint: Paint) -> String {
    let copies = fill.iter().flat_map(|(_, fill)| &fill.seated);
    let all: Vec<&Seated> = seated.iter().chain(copies).collect();
    let page = Page { room, all: &all, paint };
    let mut text = page.machine();
    text += &page.nodes();
    text += &page.rejected();
    text += &page.notes(fill.map(|(pod, _)| pod));
    if let Some((pod, fill)) = fill {
        text += &page.fill(pod, fill);
    }
    if !seated.is_empty() {
        let admitted = seated.iter().filter(|seated| seated.verdict.is_ok()).count();
        let _ = writeln!(text, "\n{admitted} of {} seated", count(seated.len(), "pod"));
    }
    text
}

/// The machine and the rules on one line.
pub(super) fn headline(room: &Room<'_>) -> String {
    let policy = &room.settings.policy;
    format!("{}; policy {}, scope {}", topology::headline(room.topology), policy.topology, policy.scope)
}

struct Page<'a> {
    room: &'a Room<'a>,
    all: &'a [&'a Seated],
    paint: Paint,
}

impl Page<'_> {
    fn machine(&self) -> String {
        headline(self.room) + "\n\n"
    }

    /// A section for each node, then one for each set of nodes that a container lies across, then the
    /// shared pool.
    fn nodes(&self) -> String {
        let mut table = Table::new(self.paint);
        for node in &self.room.topology.numa_nodes {
            table.heading(self.title(node));
            self.rows(&mut table, &[node.id].into_iter().collect());
            self.system(&mut table, node);
            self.free(&mut table, node);
        }
        let seats = self.seats().map(|(_, seat)| self.place(seat));
        let across: BTreeSet<NodeSet> = seats.filter(|nodes| nodes.len() > 1).collect();
        for nodes in &across {
            table.heading(format!("across nodes {nodes}"));
            self.rows(&mut table, nodes);
        }
        let (gpus, nics) =
            (self.unheld(&GPUS, |near| near.is_none()), self.unheld(&[NIC], |near| near.is_none()));
        if gpus.len() + nics.len() > 0 {
            table.heading("of unknown locality".into());
            let free = vec![
                "(free)".into(),
                String::new(),
                String::new(),
                devices("GPU", gpus),
                devices("NIC", nics),
            ];
            table.row(free);
        }
        if self.seats().any(|(_, seat)| self.place(seat).is_empty()) {
            table.heading("in the shared pool".into());
            self.rows(&mut table, &NodeSet::new());
        }
        table.print()
    }

    fn seats(&self) -> impl Iterator<Item = (&Pod, &Seat)> {
        let admitted =
            self.all.iter().filter_map(|seated| Some((&seated.pod, seated.verdict.as_ref().ok()?)));
        admitted.flat_map(|(pod, seats)| seats.iter().map(move |seat| (pod, seat)))
    }

    fn place(&self, seat: &Seat) -> NodeSet {
        self.room.place(&seat.placement)
    }

    fn rows(&self, table: &mut Table, nodes: &NodeSet) {
        for (pod, seat) in self.seats().filter(|(_, seat)| self.place(seat) == *nodes) {
            let mut cells = vec![pod.title(), called(pod, seat)];
            cells.extend(has(self.room, seat));
            table.row(cells);
        }
    }

    fn title(&self, node: &NumaNode) -> String {
        let mut parts = vec![count(node.cpus.len(), "CPU")];
        for (resources, word) in [(&GPUS[..], "GPU"), (&[NIC], "NIC")] {
            let devices = |resource: &&str| self.room.machine.devices(&(*resource).into());
            let here = resources.iter().flat_map(devices);
            let here = here.filter(|device| device.nodes.as_ref().is_some_and(|near| near.contains(node.id)));
            parts.extend(some(here.count(), word));
        }
        parts.push(Bytes(node.memory_bytes).to_string());
        format!("node {}: {}", node.id, parts.join(", "))
    }

    fn system(&self, table: &mut Table, node: &NumaNode) {
        let kept = self.room.machine.reserved().intersection(&node.cpus);
        if !kept.is_empty() {
            table.row(vec!["(system)".into(), String::new(), cpus(&kept)]);
        }
    }

    fn free(&self, table: &mut Table, node: &NumaNode) {
        let Room { machine, occupancy, .. } = self.room;
        let free = occupancy.free_cpus(machine).intersection(&node.cpus).len();
        let near = |resources: &[&str]| {
            self.unheld(resources, |near| near.is_some_and(|near| near.contains(node.id)))
        };
        let sizes = node.hugepages.keys().filter_map(|size| {
            let bytes = occupancy.free_memory(machine, node.id, MemoryKind::Hugepages(*size)).0;
            (bytes > 0).then(|| format!("{} × {size}", bytes / size.bytes()))
        });
        table.row(vec![
            "(free)".into(),
            String::new(),
            count(free, "CPU"),
            devices("GPU", near(&GPUS)),
            devices("NIC", near(&[NIC])),
            occupancy.free_memory(machine, node.id, MemoryKind::Memory).to_string(),
            sizes.collect::<Vec<_>>().join(" "),
        ]);
    }

    /// What nobody holds of some resources, by name, where its nodes are as asked.
    fn unheld(&self, resources: &[&str], nodes: impl Fn(Option<&NodeSet>) -> bool) -> Vec<String> {
        let free = |resource: &&str| {
            let free = self.room.free_devices(resource).into_iter();
            let free = free.filter(|device| nodes(device.nodes.as_ref()));
            free.map(|device| self.room.device_name(resource, &device.id)).collect::<Vec<_>>()
        };
        let mut names: Vec<String> = resources.iter().flat_map(free).collect();
        // GPUs of two resources are one row of numbers; names that are no numbers stay as they come.
        names.sort_by_key(|name| name.parse::<u32>().ok());
        names
    }

    fn rejected(&self) -> String {
        let mut told: Vec<(Vec<String>, String)> = Vec::new();
        for seated in self.all {
            let Err(rejection) = &seated.verdict else { continue };
            collect(&mut told, seated.pod.title(), self.evidence(rejection));
        }
        let mut text = String::new();
        for (titles, evidence) in told {
            let _ = write!(text, "\n{} {}\n{evidence}", self.paint.red("rejected:"), some_of(&titles));
        }
        text
    }

    fn evidence(&self, rejection: &Rejection) -> String {
        let mut text = format!("  {rejection}\n");
        for candidate in rejection.candidates.iter().filter(|candidate| !candidate.short.is_empty()) {
            let _ = writeln!(text, "    {}", short(candidate));
        }
        text + &self.beyond(rejection)
    }

    /// What would do: a laxer policy, or less.
    fn beyond(&self, rejection: &Rejection) -> String {
        let mut text = String::new();
        if let Some((policy, nodes)) = &rejection.weaker {
            let _ = writeln!(text, "    under {policy} it would start on {}", nodes.words());
        }
        if let Some(largest) = &rejection.largest {
            let amounts: Vec<_> = largest.amounts.iter().map(|(what, n)| what.amount(*n)).collect();
            let _ =
                writeln!(text, "    largest that fits: {} on {}", amounts.join(", "), largest.nodes.words());
        }
        text
    }

    fn notes(&self, last: Option<&Pod>) -> String {
        // The copies of a filled pod say what it says.
        let copy = |pod: &&Pod| last.is_some_and(|last| last.notes == pod.notes);
        let own = self.all.iter().map(|seated| &seated.pod).filter(|pod| !copy(pod));
        let mut told: Vec<(Vec<String>, String)> = Vec::new();
        for pod in own.chain(last) {
            pod.remarks().for_each(|note| collect(&mut told, pod.title(), note));
        }
        let mut text = String::new();
        for (titles, note) in told {
            let _ = writeln!(text, "{}", self.paint.dim(&format!("note: {}: {note}", some_of(&titles))));
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }

    fn fill(&self, pod: &Pod, fill: &Fill) -> String {
        let fits = fits(pod, fill);
        match &fill.next {
            None => format!("\n{fits}\n"),
            Some(rejection) => {
                let (first, parts) = (runs_out(fill), parts(fill));
                let (head, largest) = (self.paint.bold(&fits), self.beyond(rejection));
                format!("\n{head}{first}\n{parts}the next one is told:\n  {rejection}\n{largest}")
            }
        }
    }
}

/// Puts a pod to those of which the same is said.
pub(super) fn collect(told: &mut Vec<(Vec<String>, String)>, title: String, text: String) {
    match told.iter_mut().find(|(_, other)| *other == text) {
        Some((titles, _)) => titles.push(title),
        None => told.push((vec![title], text)),
    }
}

/// The first few of some pods, and how many more there are.
pub(super) fn some_of(titles: &[String]) -> String {
    const NAMED: usize = 4;
    match titles.len().checked_sub(NAMED) {
        None | Some(0) => titles.join(", "),
        Some(more) => format!("{} and {more} more", titles[..NAMED].join(", ")),
    }
}

/// What a container has: CPUs, GPUs, NICs, memory, huge pages; empty where it has none.
pub(super) fn has(room: &Room<'_>, seat: &Seat) -> [String; 5] {
    let name = |resource, ids: &[String]| -> Vec<String> {
        ids.iter().map(|id| room.device_name(resource, &id.as_str().into())).collect()
    };
    let gpus = devices("GPU", name(GPU, &seat.gpus(room.topology)));
    let memory = seat.promised(MemoryKind::Memory);
    let sizes: Vec<_> = pages(seat).into_iter().map(|(size, n)| format!("{n} × {size}")).collect();
    [
        cpus(&seat.placement.cpus),
        match room.links(seat) {
            Some(links) => format!("{gpus} ({links})"),
            None => gpus,
        },
        devices("NIC", name(NIC, &seat.nics())),
        if memory > 0 { Bytes(memory).to_string() } else { String::new() },
        sizes.join(" "),
    ]
}

fn short(candidate: &Candidate) -> String {
    format!("{}: {}", candidate.nodes.words(), lack(&candidate.short))
}

/// What is short, in words.
pub(super) fn lack(short: &[Shortage]) -> String {
    let told = |shortage: &Shortage| {
        let Shortage { resource, needed, available } = shortage;
        format!("{} needed, {} free", resource.amount(*needed), resource.amount(*available))
    };
    short.iter().map(told).collect::<Vec<_>>().join("; ")
}

/// What an init container holds is used again by those after it.
pub(super) fn called(pod: &Pod, seat: &Seat) -> String {
    let own = pod.request.containers.iter().find(|container| container.name == seat.name);
    match own.is_some_and(|container| container.kind == ContainerKind::Init) {
        true => format!("{} (init)", seat.name),
        false => seat.name.to_string(),
    }
}

pub(in crate::cli) fn cpus(cpus: &CpuSet) -> String {
    match cpus.is_empty() {
        true => "shared CPUs".into(),
        false => format!("{}: {cpus}", count(cpus.len(), "CPU")),
    }
}

/// `GPU 0-1`, `NIC mlx5_0-3,mlx5_5`.
pub(in crate::cli) fn devices(word: &str, names: Vec<String>) -> String {
    match names.is_empty() {
        true => String::new(),
        false => format!("{word} {}", ranges(&names)),
    }
}

/// Names that differ in their final number alone, as ranges.
fn ranges(names: &[String]) -> String {
    let mut text = String::new();
    let mut names = names.iter().peekable();
    while let Some(first) = names.next() {
        let separator = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{separator}{first}");
        let Some((stem, number)) = numbered(first) else { continue };
        let mut last = number;
        while names
            .next_if(|name| last.checked_add(1).is_some_and(|next| numbered(name) == Some((stem, next))))
            .is_some()
        {
            last += 1;
        }
        if last > number {
            let _ = write!(text, "-{last}");
        }
    }
    text
}

/// `mlx5_4` is `mlx5_` and 4; a number with zeros in front is part of the name.
fn numbered(name: &str) -> Option<(&str, u64)> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = name[stem..].parse().ok()?;
    (number.to_string() == name[stem..]).then_some((&name[..stem], number))
}

fn some(number: usize, word: &str) -> Option<String> {
    (number > 0).then(|| count(number, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_ranges() {
        let told = |names: &[&str]| ranges(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(told(&["0", "1", "2", "5"]), "0-2,5");
        assert_eq!(told(&["mlx5_0", "mlx5_1", "mlx4_2", "ib"]), "mlx5_0-1,mlx4_2,ib");
        assert_eq!(told(&["GPU-a1", "GPU-b2", "n01", "n02"]), "GPU-a1,GPU-b2,n01,n02");
        assert_eq!(told(&["18446744073709551615", "0"]), "18446744073709551615,0");
    }
}
