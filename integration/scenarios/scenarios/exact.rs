//! What the kubelet has really allotted, by its podresources service or its checkpoint, against what a pod's
//! environment says.

use super::{Lanes, Scenario, usual};
use crate::allotted::Files;
use crate::expect::{self, expected};
use crate::machine::Gpu;
use crate::node::{Node, Seated};
use crate::observe;
use crate::pod::{CUDA_IMAGE, Delivery, GPU_RESOURCE, Pod, VISIBLE};
use crate::podresources::Manner;
use crate::settings::{Gpus, Settings};
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

const KEEP: Settings = Settings::plugin_gpus("keep");
const HIDE: Settings =
    Settings { gpus: Gpus { placement: "keep", pool: "none", unrequested: "hide" }, ..Settings::ENFORCE };

pub const ALL: &[Scenario] = &[
    Scenario {
        name: "a GPU allotted to another pod is refused",
        lanes: Lanes::Native,
        settings: KEEP,
        run: stolen,
    },
    Scenario {
        name: "replicas share a GPU, others do not",
        lanes: Lanes::Native,
        settings: KEEP,
        run: replicas,
    },
    Scenario {
        name: "a GPU the kubelet gave on is the new pod's",
        lanes: Lanes::Native,
        settings: KEEP,
        run: given_on,
    },
    Scenario {
        name: "a kubelet that answers late or badly holds nobody up",
        lanes: Lanes::Native,
        settings: KEEP,
        run: unhelpful,
    },
    Scenario {
        name: "devices on two nodes refuse the pod before it has begun",
        lanes: Lanes::Guest,
        settings: KEEP,
        run: at_the_sandbox,
    },
    Scenario {
        name: "GPUs nobody asked for are hidden, or left",
        lanes: Lanes::Native,
        settings: HIDE,
        run: unrequested,
    },
    usual("no GPU is given twice, across restarts of both sides", Lanes::Native, never_twice),
    usual("a GPU is free when its pod ends after a restart of containerd", Lanes::Native, ends_after_restart),
];

/// The two GPUs of the native machine.
fn two(node: &Node) -> Result<[Gpu; 2]> {
    let [one, other] = &node.machine.gpus[..] else { anyhow::bail!("two GPUs natively") };
    Ok([one.clone(), other.clone()])
}

/// Names a GPU by hand, with nothing allotted.
fn claimant(gpu: &Gpu) -> Pod {
    Pod::burstable("claimant", 100).env(VISIBLE, &gpu.uuid)
}

/// Told by Get, by List alone, and by the checkpoint.
fn stolen(node: &mut Node) -> Result<()> {
    for manner in [Some(Manner::Current), Some(Manner::ListOnly), None] {
        match manner {
            Some(manner) => node.serve_podresources(manner)?,
            None => (node.podresources, node.kubelet_files) = (None, Some(Files::Devices)),
        }
        stolen_once(node).with_context(|| format!("told by {manner:?}"))?;
        node.clean()?;
    }
    Ok(())
}

fn stolen_once(node: &Node) -> Result<()> {
    let [gpu, free] = two(node)?;
    let owner = node.run(Pod::guaranteed("owner", 1, 64).gpus(Delivery::Env, &[&gpu]))?;
    let text = expect::refused(node.run(claimant(&gpu)), &[&gpu.uuid])?;
    expected!(text.contains("default/owner/main"), "it does not say whose the GPU is: {text}");
    let honest = node.run(Pod::burstable("honest", 100).gpus(Delivery::Env, &[&free]))?;
    expect::same(VISIBLE, &vec![free.uuid], &node.look(&honest)?.gpus())?;
    expect::same(VISIBLE, &vec![gpu.uuid], &node.look(&owner)?.gpus())
}

/// As a device plugin that shares GPUs: the environment names the GPU, the kubelet's books its replica.
fn replicas(node: &mut Node) -> Result<()> {
    node.serve_podresources(Manner::Current)?;
    let [gpu, _] = two(node)?;
    let replica = |number: u32| {
        let id = (format!("{}::{number}", gpu.uuid), Some(gpu.node));
        let pod = Pod::burstable(&format!("replica-{number}"), 100).env(VISIBLE, &gpu.uuid);
        node.run(pod.allotted(GPU_RESOURCE, [id]))
    };
    let (_first, _second) = (replica(0)?, replica(1)?);
    expect::refused(node.run(claimant(&gpu)), &[&gpu.uuid])?;
    Ok(())
}

fn given_on(node: &mut Node) -> Result<()> {
    node.serve_podresources(Manner::Current)?;
    let [gpu, _] = two(node)?;
    let old = node.run(Pod::burstable("old", 100).gpus(Delivery::Env, &[&gpu]))?;
    let next = |name: &str| Pod::burstable(name, 100).gpus(Delivery::Env, &[&gpu]);
    expect::refused(node.run(next("early")), &[&gpu.uuid])?;
    node.crash(&old)?;
    node.run(next("next"))?;
    Ok(())
}

/// The pod itself goes on as if there were no such service; and nobody waits for it.
fn unhelpful(node: &mut Node) -> Result<()> {
    let [gpu, _] = two(node)?;
    let late = Duration::from_secs(20);
    for manner in [Manner::Slow(late), Manner::Garbage] {
        node.serve_podresources(manner)?;
        let begin = Instant::now();
        let seated = node.run(Pod::guaranteed("pod", 1, 64).gpus(Delivery::Env, &[&gpu]))?;
        let took = begin.elapsed();
        expect::seated(&node.machine, &node.look(&seated)?, 1)?;
        expected!(took < late / 2, "{manner:?}: it took {took:?}");
        let asked = node.podresources.as_ref().map_or(0, |server| server.calls());
        expected!(asked > 0, "{manner:?}: nobody asked");
        node.remove(&seated)?;
    }
    Ok(())
}

fn at_the_sandbox(node: &mut Node) -> Result<()> {
    // By the file: podresources have a tenth of a second to answer, which is little in an emulated machine.
    node.kubelet_files = Some(Files::Devices);
    let machine = node.machine.clone();
    let first = machine.gpus.first().context("a GPU")?;
    let last = machine.gpus.last().context("a GPU")?;
    let one = Pod::guaranteed("torn", 1, 64).gpus(Delivery::CriCdi, &[first]);
    let other = Pod::guaranteed("other", 1, 64).gpus(Delivery::CriCdi, &[last]);
    let torn = node.sandbox(&one.with_container("second", other));
    expect::refused(torn, &["TopologyAffinityError", "GPU"])?;
    Ok(())
}

fn unrequested(node: &mut Node) -> Result<()> {
    node.serve_podresources(Manner::Current)?;
    let seen_by = |node: &Node, seated: &Seated| node.look(seated).map(|seen| seen.gpus());
    let greedy = || Pod::burstable("greedy", 100).image(CUDA_IMAGE);
    let hidden = node.run(greedy())?;
    expect::same(VISIBLE, &vec!["void".to_owned()], &seen_by(node, &hidden)?)?;
    node.remove(&hidden)?;

    let [gpu, _] = two(node)?;
    let own = node.run(Pod::burstable("own", 100).image(CUDA_IMAGE).gpus(Delivery::Env, &[&gpu]))?;
    expect::same(VISIBLE, &vec![gpu.uuid], &seen_by(node, &own)?)?;
    let exporter = node.run(greedy().namespace("gpu-operator"))?;
    expect::same("of an exempt pod", &vec!["all".to_owned()], &seen_by(node, &exporter)?)?;
    node.remove(&exporter)?;

    node.stop_maitred()?;
    node.start_maitred(&KEEP)?;
    let left = node.run(greedy())?;
    expect::same(VISIBLE, &vec!["all".to_owned()], &seen_by(node, &left)?)
}

fn never_twice(node: &mut Node) -> Result<()> {
    let asking = |name: &str| Pod::burstable(name, 100).image(CUDA_IMAGE).annotation("gpus.maitred.io", "1");
    let first = node.run(asking("first"))?;
    let second = node.run(asking("second"))?;
    let given = [node.look(&first)?.gpus(), node.look(&second)?.gpus()];
    expected!(given[0] != given[1] && given.iter().all(|gpus| gpus.len() == 1), "given out: {given:?}");
    // One runs on, one has crashed and will be restarted: both still hold their GPU.
    node.crash(&second)?;

    node.stop_maitred()?;
    node.start_maitred(&Settings::ENFORCE)?;
    expect::refused(node.run(asking("after-maitred")), &["GPU"])?;

    node.remove(&first)?;
    let third = node.run(asking("third"))?;
    expect::same("what the first gave back", &given[0], &node.look(&third)?.gpus())?;

    node.containerd.kill()?;
    let mark = node.containerd.mark();
    node.start_containerd()?;
    node.wait_registered(mark)?;
    expect::refused(node.run(asking("after-containerd")), &["GPU"])?;
    Ok(())
}

/// Both GPUs are held by pods that were made before containerd was restarted: one lives on through it, the
/// container of the other ends while nobody looks. When the pods have ended the GPUs are free.
fn ends_after_restart(node: &mut Node) -> Result<()> {
    let asking = |name: &str| Pod::burstable(name, 100).image(CUDA_IMAGE).annotation("gpus.maitred.io", "1");
    let survivor = node.run(asking("survivor"))?;
    let casualty = node.run(asking("casualty"))?;
    let given = [node.look(&survivor)?.gpus(), node.look(&casualty)?.gpus()];
    expected!(given[0] != given[1] && given.iter().all(|gpus| gpus.len() == 1), "given out: {given:?}");
    let doomed = observe::pid(&node.cri, &casualty.containers[0])?;

    node.containerd.kill()?;
    observe::kill(doomed)?;
    let mark = node.containerd.mark();
    node.start_containerd()?;
    node.wait_registered(mark)?;
    expect::refused(node.run(asking("early")), &["GPU"])?;

    for (pod, gpus) in [(&survivor, &given[0]), (&casualty, &given[1])] {
        node.remove(pod)?;
        let next = node.run(asking("next"))?;
        expect::same("what the ended pod held", gpus, &node.look(&next)?.gpus())?;
    }
    Ok(())
}
