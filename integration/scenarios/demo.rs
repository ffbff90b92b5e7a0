//! The main job in half a minute: a few pods arrive, and a table shows where each one sits, read
//! from the containers' own /proc entries and cgroups.

mod table;

use crate::list::Set;
use crate::node::{Node, Seated};
use crate::observe::{self, Seen};
use crate::pod::{CUDA_IMAGE, Pod};
use crate::settings::Settings;
use crate::wait;
use anyhow::{Result, bail};

const GPUS: &str = "gpus.maitred.io";
const PAGES: u64 = 24;

/// A pod that started, and what it has once all have arrived.
struct Guest {
    name: String,
    /// Its CPUs when it came.
    at_first: Set,
    seen: Seen,
    hugepages: u64,
}

struct Refused {
    name: String,
    why: String,
}

/// In order, each with its wish in a user's words.
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
        ("6 CPUs, 64Mi", Pod::guaranteed("wide", 6, 64)),
        ("2 CPUs, 2 GPUs, 64Mi", Pod::guaranteed("late", 2, 64).image(CUDA_IMAGE).annotation(GPUS, "2")),
    ]
}

pub fn run(node: &mut Node) -> Result<bool> {
    node.prepare(&Settings::ENFORCE)?;
    table::machine(&node.machine);
    let (mut seated, mut refused) = (Vec::new(), Vec::new());
    for (wish, pod) in arrivals() {
        let name = pod.name.clone();
        match node.run(pod) {
            Ok(pod) => {
                table::arrival(&name, wish, "started");
                let at_first = node.look(&pod)?.cpus;
                seated.push((pod, at_first));
            }
            Err(error) => {
                let why = refusal(error)?;
                table::arrival(&name, wish, "refused");
                refused.push(Refused { name, why });
            }
        }
    }
    let guests: Vec<Guest> =
        seated.into_iter().map(|(pod, at_first)| look(node, &pod, at_first)).collect::<Result<_>>()?;
    table::seats(&node.machine, &guests);
    table::refusals(&refused);
    println!("{} pods seated, {} refused\n", guests.len(), refused.len());
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

fn look(node: &Node, seated: &Seated, at_first: Set) -> Result<Guest> {
    let container = &seated.pod.containers[0];
    let mut hugepages = 0;
    if container.args[0] == "hold-huge" {
        let pid = node.look(seated)?.pid;
        wait::until(node.patience(), "the hugepages are touched", || {
            hugepages = observe::pages_by_node(pid, " huge ")?.values().sum();
            Ok(hugepages == PAGES)
        })?;
    }
    // Now, not at its start: what came later may have taken CPUs from it.
    Ok(Guest { name: seated.pod.name.clone(), at_first, seen: node.look(seated)?, hugepages })
}
