//! GPUs in each of the four ways in which a device plugin hands them over: kept, refused where they do not
//! fit, and changed where the node's owner wants that and the runtime can.

use super::{Lanes, Scenario};
use crate::expect::{self, expected};
use crate::machine::{Gpu, Machine};
use crate::node::{Node, Seated};
use crate::observe::{Opened, Seen};
use crate::pod::{Delivery, Pod};
use crate::podresources::Manner;
use crate::settings::Settings;
use crate::wait;
use anyhow::{Context, Result};

pub const ALL: &[Scenario] = &[
    Scenario {
        name: "GPUs are kept however they come, and misfits refused",
        lanes: Lanes::Both,
        settings: Settings::plugin_gpus("keep"),
        run: kept,
    },
    Scenario {
        name: "repair and choose are refused where no device can be taken away",
        lanes: Lanes::Both,
        settings: Settings::plugin_gpus("keep"),
        run: not_by_this_runtime,
    },
];

/// What the containers of these scenarios try to open: every GPU's node.
fn nodes(machine: &Machine) -> Vec<String> {
    machine.gpus.iter().map(Gpu::node_path).collect()
}

fn asking(node: &Node, name: &str, cpus: u64, delivery: Delivery, gpus: &[&Gpu]) -> Pod {
    let paths = nodes(&node.machine);
    let words: Vec<&str> = std::iter::once("open").chain(paths.iter().map(String::as_str)).collect();
    Pod::guaranteed(&format!("{name}-{}", delivery.name()), cpus, 64).gpus(delivery, gpus).args(&words)
}

/// The GPUs that really reached the container.
fn delivered(node: &Node, seated: &Seated, seen: &Seen, delivery: Delivery) -> Result<Vec<Gpu>> {
    let named = |uuids: Vec<String>| {
        let by_uuid = |uuid: &String| node.machine.gpus.iter().find(|gpu| gpu.uuid == *uuid).cloned();
        uuids.iter().map(|uuid| by_uuid(uuid).with_context(|| format!("{uuid} is a GPU here"))).collect()
    };
    match delivery {
        Delivery::Env => named(seen.gpus()),
        Delivery::Mounts => named(seen.mounted_gpus()),
        Delivery::CdiAnnotation | Delivery::CriCdi => {
            let opened = node.opened(seated)?;
            let has = |gpu: &&Gpu| opened.get(&gpu.node_path()) == Some(&Opened::Allowed);
            let rest = opened.values().filter(|how| !matches!(how, Opened::Allowed | Opened::Absent));
            expected!(rest.count() == 0, "neither there nor absent: {opened:?}");
            Ok(node.machine.gpus.iter().filter(has).cloned().collect())
        }
    }
}

fn uuids<'g>(gpus: impl IntoIterator<Item = &'g Gpu>) -> Vec<&'g str> {
    gpus.into_iter().map(|gpu| gpu.uuid.as_str()).collect()
}

/// A GPU beside fewer than four CPUs, where the machine has nodes to choose from.
fn cramped(machine: &Machine) -> Option<&Gpu> {
    let wide = machine.widest();
    machine.gpus.iter().find(|gpu| (machine.exclusive_cpus(gpu.node).len() as u64) < wide)
}

fn kept(node: &mut Node) -> Result<()> {
    node.serve_podresources(Manner::Current)?;
    let machine = node.machine.clone();
    // The last, not the first: CPUs chosen without it would lie on another node.
    let gpu = machine.gpus.last().context("a GPU")?;
    let foreign = machine.gpus.first().context("a GPU")?;
    for delivery in Delivery::ALL {
        let mut pod = asking(node, "kept", machine.widest().min(2), delivery, &[gpu]);
        if delivery == Delivery::Env {
            // A device plugin may pass the node along with the variable.
            pod = pod.device(gpu.host_node(), gpu.node_path());
            // A node that comes by a mount brings no right to it along.
            pod.containers[0].mounts.push((foreign.host_node(), foreign.node_path()));
        }
        let seated = node.run(pod)?;
        let seen = node.look(&seated)?;
        let home = expect::seated(&machine, &seen, machine.widest().min(2))?;
        expect::same("node of the CPUs", &gpu.node, &home)?;
        expect::same("GPUs", &vec![gpu.uuid.as_str()], &uuids(&delivered(node, &seated, &seen, delivery)?))?;
        if delivery == Delivery::Env {
            let opened = node.opened(&seated)?;
            expect::same("its device node", &Some(&Opened::Allowed), &opened.get(&gpu.node_path()))?;
            expect::same("another's", &Some(&Opened::Denied), &opened.get(&foreign.node_path()))?;
        }
        node.remove(&seated)?;
        if let Some(cramped) = cramped(&machine) {
            let misfit = asking(node, "misfit", machine.widest(), delivery, &[cramped]);
            expect::refused(node.run(misfit), &["TopologyAffinityError", "GPU"])?;
        }
    }
    Ok(())
}

/// What CDI has put into a container NRI can take away since 0.10 only, and this runtime has 0.8 or 0.6: maitred does
/// not start, rather than swap some GPUs and not others. What it would do on a newer runtime is in
/// `tests/suite/nri/swaps.rs`.
fn not_by_this_runtime(node: &mut Node) -> Result<()> {
    for placement in ["repair", "choose"] {
        node.stop_maitred()?;
        let mark = node.maitred.mark();
        node.launch_maitred(&Settings::plugin_gpus(placement))?;
        let words = [placement, "NRI 0.10 or later", node.version.nri(), "cannot be used with this runtime"];
        wait::until_seen(node.patience(), "maitred says that it cannot", || {
            let log = node.maitred.since(mark);
            let missing = words.iter().find(|word| !log.contains(**word));
            Ok(missing.map(|word| format!("no {word:?} in {log:?}")))
        })?;
    }
    // Nobody is in the way of a pod meanwhile.
    let gpu = node.machine.gpus.first().cloned().context("a GPU")?;
    node.run(Pod::burstable("pod", 100).gpus(Delivery::CriCdi, &[&gpu]))?;
    Ok(())
}
