//! The main job in half a minute: a few pods arrive, and a table shows where each one sits, read
//! from the containers' own /proc entries and cgroups.

use crate::list;
use crate::machine::NumaNode;
use crate::node::{Node, Seated};
use crate::observe::{self, Seen};
use crate::pod::{CUDA_IMAGE, Pod};
use crate::settings::Settings;
use crate::wait;
use anyhow::{Result, bail};

const GPUS: &str = "gpus.maitred.io";
const PAGES: u64 = 24;
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// A pod that started, what it asked for in a user's words, and what it got.
struct Guest {
    asked: &'static str,
    seated: Seated,
    seen: Seen,
    hugepages: u64,
}

struct Refused {
    pod: String,
    asked: &'static str,
    why: String,
}

fn arrivals() -> Vec<(&'static str, Pod)> {
    let pages = PAGES.to_string();
    vec![
        ("a share of whatever is free", Pod::burstable("web", 250)),
        ("4 CPUs, 1 GPU, 256Mi", Pod::guaranteed("llm", 4, 256).image(CUDA_IMAGE).annotation(GPUS, "1")),
        ("2 CPUs, 2 GPUs, 128Mi", Pod::guaranteed("train", 2, 128).image(CUDA_IMAGE).annotation(GPUS, "2")),
        (
            "2 CPUs, 24 hugepages of 2Mi, 64Mi",
            Pod::guaranteed("database", 2, 64).hugepages_2m(PAGES).args(&["hold-huge", "2048", &pages]),
        ),
        ("6 CPUs, 64Mi: more than any node has", Pod::guaranteed("wide", 6, 64)),
        (
            "2 CPUs, 2 GPUs, 64Mi: none left side by side",
            Pod::guaranteed("late", 2, 64).image(CUDA_IMAGE).annotation(GPUS, "2"),
        ),
    ]
}

pub fn run(node: &mut Node) -> Result<bool> {
    node.prepare(&Settings::ENFORCE)?;
    println!();
    let (mut seated, mut refused) = (Vec::new(), Vec::new());
    for (asked, pod) in arrivals() {
        let name = format!("{}/{}", pod.namespace, pod.name);
        match node.run(pod) {
            Ok(pod) => {
                println!("  {name} asks for {asked}: started");
                seated.push((asked, pod));
            }
            Err(error) => {
                let why = refusal(error)?;
                println!("  {name} asks for {asked}: refused");
                refused.push(Refused { pod: name, asked, why });
            }
        }
    }
    let mut guests = Vec::new();
    for (asked, pod) in seated {
        guests.push(look(node, asked, pod)?);
    }
    show(node, &guests, &refused);
    Ok(guests.len() == 4 && refused.len() == 2)
}

/// The text the pod's user reads, without containerd's wrapping.
fn refusal(error: anyhow::Error) -> Result<String> {
    let Some(refused) = error.downcast_ref::<crate::cri::Refused>() else {
        bail!(error);
    };
    let text = &refused.message;
    let from = text.find("TopologyAffinityError").unwrap_or(0);
    Ok(text[from..].to_owned())
}

fn look(node: &Node, asked: &'static str, seated: Seated) -> Result<Guest> {
    let holds = seated.pod.containers[0].args[0] == "hold-huge";
    let mut hugepages = 0;
    if holds {
        let pid = node.look(&seated)?.pid;
        wait::until(node.patience(), "the hugepages are touched", || {
            hugepages = observe::pages_by_node(pid, " huge ")?.values().sum();
            Ok(hugepages == PAGES)
        })?;
    }
    // Now, not at its start: what came later may have taken CPUs from it.
    let seen = node.look(&seated)?;
    Ok(Guest { asked, seated, seen, hugepages })
}

fn show(node: &Node, guests: &[Guest], refused: &[Refused]) {
    println!("\n{BOLD}Who sits where{PLAIN}, as each container's own /proc and cgroup say:\n");
    for numa in &node.machine.nodes {
        show_node(node, numa, guests);
    }
    println!("{BOLD}shared{PLAIN}");
    for guest in guests.iter().filter(|guest| node.machine.nodes_of(&guest.seen.cpus).len() > 1) {
        show_guest(node, guest);
    }
    println!("\n{BOLD}Not seated{PLAIN}, and what its user reads:\n");
    for Refused { pod, asked, why } in refused {
        println!("   {pod:<18} asked for {asked}\n{}", wrapped(why));
    }
    println!();
}

fn show_node(node: &Node, numa: &NumaNode, guests: &[Guest]) {
    let reserved = &numa.cpus & &node.machine.reserved;
    let kept = if reserved.is_empty() {
        String::new()
    } else {
        format!(" ({} kept for the system)", list::show(&reserved))
    };
    println!(
        "{BOLD}node {}{PLAIN}   CPUs {}{kept} · {} GPUs · {} hugepages · {} MiB",
        numa.id,
        list::show(&numa.cpus),
        node.machine.gpus_on(numa.id).len(),
        numa.hugepages,
        numa.memory_mib
    );
    let home = std::iter::once(numa.id).collect();
    let here: Vec<_> =
        guests.iter().filter(|guest| node.machine.nodes_of(&guest.seen.cpus) == home).collect();
    for guest in &here {
        show_guest(node, guest);
    }
    if here.is_empty() {
        println!("   –");
    }
    println!();
}

fn show_guest(node: &Node, guest: &Guest) {
    let name = format!("{}/{}", guest.seated.pod.namespace, guest.seated.pod.name);
    let mut has = vec![
        format!("CPUs {}", list::show(&guest.seen.cpus)),
        format!("memory of node {}", list::show(&guest.seen.mems)),
    ];
    let gpus = guest.seen.gpus();
    if !gpus.is_empty() {
        let short: Vec<_> = gpus.iter().map(|uuid| short(node, uuid)).collect();
        has.push(format!("sees {}", short.join(" and ")));
    }
    if guest.hugepages > 0 {
        has.push(format!("{} hugepages bound", guest.hugepages));
    }
    println!("   {name:<18} {}\n   {:<18} asked for {}", has.join(" · "), "", guest.asked);
}

/// A GPU by its number and address; anything that is not a GPU of this machine as it stands.
fn short(node: &Node, uuid: &str) -> String {
    let index = node.machine.gpus.iter().position(|gpu| gpu.uuid == uuid);
    index.map_or(uuid.to_owned(), |index| format!("GPU {index} at {}", node.machine.gpus[index].pci))
}

fn wrapped(text: &str) -> String {
    const INDENT: &str = "                      ";
    const WIDTH: usize = 76;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("never empty");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.iter().map(|line| format!("{INDENT}{line}\n")).collect()
}
