//! What the demo prints, within 96 columns.

use super::{Guest, Refused};
use crate::list::{self, Set};
use crate::machine::{Machine, NumaNode};

const BOLD: &str = "\x1b[1m";
const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const FAINT: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";
const WIDTH: usize = 96;
const INDENT: usize = 13;
const NOTHING: &str = "–";

/// What there is, and what is going to happen.
pub fn machine(machine: &Machine) {
    println!(
        "\n{BOLD}A machine of {} NUMA nodes, {} CPUs and {} GPUs; six pods arrive.{PLAIN}\n",
        machine.nodes.len(),
        machine.all_cpus().len(),
        machine.gpus.len()
    );
}

pub fn arrival(name: &str, wish: &str, outcome: &str) {
    let colour = if outcome == "started" { GREEN } else { RED };
    println!("  {name:<10} asks for {wish:<36} {colour}{outcome}{PLAIN}");
}

/// One line of the table; every cell but the last is padded.
fn row(cells: [&str; 6]) -> String {
    let [pod, cpus, memory, gpus, hugepages, quota] = cells;
    format!("{pod:<10} {cpus:<12} {memory:<13} {gpus:<12} {hugepages:<15} {quota}")
}

pub fn seats(machine: &Machine, guests: &[Guest]) {
    println!("\n{BOLD}Who sits where{PLAIN}, as each container's own /proc entries and cgroup say:\n");
    let head = row(["pod", "CPUs", "memory from", "GPUs it sees", "hugepages", "CPU quota"]);
    println!("{FAINT}{:<INDENT$}{head}{PLAIN}", "");
    for numa in &machine.nodes {
        node(machine, numa, guests);
    }
    let spread = guests.iter().filter(|guest| machine.nodes_of(&guest.seen.cpus).len() > 1);
    for (at, guest) in spread.enumerate() {
        let title = if at == 0 { "shared" } else { "" };
        println!("{BOLD}{title:<INDENT$}{PLAIN}{}", seat(machine, guest));
        if guest.at_first != guest.seen.cpus {
            let had = list::show(&guest.at_first);
            println!("{:<INDENT$}{FAINT}{:<10} had {had} when it came, and made room{PLAIN}", "", "");
        }
    }
}

fn node(machine: &Machine, numa: &NumaNode, guests: &[Guest]) {
    let home: Set = [numa.id].into();
    let here: Vec<_> = guests.iter().filter(|guest| machine.nodes_of(&guest.seen.cpus) == home).collect();
    let mut lines: Vec<String> = here.iter().map(|guest| seat(machine, guest)).collect();
    lines.extend(left(machine, numa, &here));
    lines.resize_with(lines.len().max(2), String::new);
    let titles = [
        format!("{BOLD}{:<INDENT$}{PLAIN}", format!("node {}", numa.id)),
        format!("{FAINT}{:<INDENT$}{PLAIN}", format!("{} MiB", numa.memory_mib)),
    ];
    let blank = format!("{:<INDENT$}", "");
    for (title, line) in titles.iter().chain(std::iter::repeat(&blank)).zip(lines) {
        println!("{title}{line}");
    }
    println!();
}

fn seat(machine: &Machine, guest: &Guest) -> String {
    let mems = &guest.seen.mems;
    let memory = if mems.len() == machine.nodes.len() {
        "all nodes".to_owned()
    } else {
        format!("node {}", list::show(mems))
    };
    let gpus: Vec<_> = guest.seen.gpus().iter().map(|uuid| number(machine, uuid)).collect();
    let hugepages =
        if guest.hugepages == 0 { NOTHING.to_owned() } else { format!("{} touched", guest.hugepages) };
    let quota = if guest.seen.cpu_max.starts_with("max") { "none" } else { &guest.seen.cpu_max };
    let gpus = if gpus.is_empty() { NOTHING.to_owned() } else { gpus.join(" and ") };
    row([&guest.name, &list::show(&guest.seen.cpus), &memory, &gpus, &hugepages, quota])
}

/// What of the node nobody has: one line for the free, one for the system's share.
fn left(machine: &Machine, numa: &NumaNode, here: &[&Guest]) -> Vec<String> {
    let taken: Set = here.iter().flat_map(|guest| guest.seen.cpus.clone()).collect();
    let kept = &numa.cpus & &machine.reserved;
    let free = &(&numa.cpus - &taken) - &kept;
    let seen: Vec<String> = here.iter().flat_map(|guest| guest.seen.gpus()).collect();
    let gpus: Vec<_> = machine.gpus_on(numa.id).into_iter().filter(|gpu| !seen.contains(&gpu.uuid)).collect();
    let gpus: Vec<_> = gpus.iter().map(|gpu| number(machine, &gpu.uuid)).collect();
    let gpus = if gpus.is_empty() { NOTHING.to_owned() } else { gpus.join(" and ") };
    let pages = numa.hugepages - here.iter().map(|guest| guest.hugepages).sum::<u64>().min(numa.hugepages);
    let cpus = if free.is_empty() { NOTHING.to_owned() } else { list::show(&free) };
    let mut lines = Vec::new();
    if !kept.is_empty() {
        lines.push(faint(row(["(system)", &list::show(&kept), "", "", "", ""])));
    }
    lines.push(faint(row(["(free)", &cpus, "", &gpus, &format!("{pages} of {}", numa.hugepages), ""])));
    lines
}

fn faint(line: String) -> String {
    format!("{FAINT}{}{PLAIN}", line.trim_end())
}

/// A GPU by its number; anything that is not a GPU of this machine as it stands.
fn number(machine: &Machine, uuid: &str) -> String {
    let index = machine.gpus.iter().position(|gpu| gpu.uuid == uuid);
    index.map_or(uuid.to_owned(), |index| index.to_string())
}

pub fn refusals(refused: &[Refused]) {
    println!("\n{BOLD}Who does not{PLAIN}, and what its user reads:\n");
    for Refused { name, why } in refused {
        for (at, line) in wrapped(why, WIDTH - INDENT).iter().enumerate() {
            println!("{:<INDENT$}{line}", if at == 0 { name } else { "" });
        }
        println!();
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("never empty");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
