//! GPUs that are not all alike: cut into MIG devices, or connected with some others only; and a NIC.

use super::{Lanes, Scenario, usual};
use crate::expect::{self, expected};
use crate::machine::{Gpu, Machine};
use crate::node::Node;
use crate::pod::{CUDA_IMAGE, Pod, VISIBLE};
use crate::podresources::Manner;
use crate::settings::Settings;
use anyhow::{Context, Result};
use serde_json::json;

const MIG_RESOURCE: &str = "nvidia.com/mig-1g.5gb";
const NIC_RESOURCE: &str = "example.com/sriov_rdma";
/// What the SR-IOV device plugin sets for that resource.
const NIC_VARIABLE: &str = "PCIDEVICE_EXAMPLE_COM_SRIOV_RDMA";

pub const ALL: &[Scenario] = &[
    Scenario {
        name: "MIG devices lie where their GPU lies, beside each other alone",
        lanes: Lanes::Both,
        settings: Settings::plugin_gpus("keep"),
        run: mig,
    },
    usual("GPUs that NVLink connects are found, or it is refused", Lanes::Both, nvlink),
    usual("a NIC named by its address draws its pod to its node", Lanes::Guest, nic),
];

/// Starts maitred on a machine that is described otherwise, and puts the description right again.
fn on_other_gpus(
    node: &mut Node,
    settings: &Settings,
    describe: impl FnOnce(&Machine) -> Result<()>,
    play: impl FnOnce(&mut Node) -> Result<()>,
) -> Result<()> {
    let machine = node.machine.clone();
    node.stop_maitred()?;
    let outcome = describe(&machine).and_then(|()| node.start_maitred(settings)).and_then(|()| play(node));
    node.stop_maitred()?;
    machine.describe_gpus()?;
    outcome
}

fn mig_uuid(number: u32) -> String {
    format!("MIG-5eed0000-0000-4000-8000-{number:012}")
}

/// The last GPU is cut in three.
fn cut(machine: &Machine) -> Result<()> {
    let last = machine.gpus.last().context("a GPU")?.uuid.clone();
    machine.describe_gpus_but(&|gpu, described| {
        let part = |n: u32| {
            json!({"uuid": mig_uuid(n), "name": "NVIDIA A100 MIG 1g.5gb", "index": n, "gpu_instance": 7 + n, "compute_instance": 0})
        };
        if gpu.uuid == last {
            described["mig"] = (0..3).map(part).collect();
        }
    })
}

fn mig(node: &mut Node) -> Result<()> {
    node.serve_podresources(Manner::Current)?;
    on_other_gpus(node, &Settings::plugin_gpus("keep"), cut, |node| {
        let gpu = node.machine.gpus.last().cloned().context("a GPU")?;
        let part = |name: &str, number: u32, named: &str| {
            let id = (mig_uuid(number), Some(gpu.node));
            Pod::guaranteed(name, 1, 64).env(VISIBLE, named).allotted(MIG_RESOURCE, [id])
        };
        // By UUID, and by index in capital and small letters of what NVIDIA's runtime reads.
        let first = node.run(part("first", 0, &mig_uuid(0)))?;
        let home = expect::seated(&node.machine, &node.look(&first)?, 1)?;
        expect::same("node of the GPU", &gpu.node, &home)?;
        if node.machine.widest() > 1 {
            let second = node.run(part("second", 1, &mig_uuid(1).to_lowercase()))?;
            let home = expect::seated(&node.machine, &node.look(&second)?, 1)?;
            expect::same("node of the GPU", &gpu.node, &home)?;
        }
        // Nobody else's part, under any name, and not the whole.
        let index = node.machine.gpus.len() - 1;
        for named in
            [mig_uuid(0), format!("{index}:0"), gpu.uuid.clone(), gpu.uuid.to_lowercase(), gpu.pci.clone()]
        {
            let thief = Pod::burstable("thief", 100).env(VISIBLE, &named);
            expect::refused(node.run(thief), &["to default/first/main"])?;
        }
        Ok(())
    })
}

/// Of all GPUs only the last two are connected. Natively those are all there are: there it is the refusal that tells.
fn nvlink(node: &mut Node) -> Result<()> {
    let asking = |name: &str| {
        let pod = Pod::burstable(name, 100).image(CUDA_IMAGE).annotation("gpus.maitred.io", "2");
        pod.annotation("gpu-link.maitred.io", "nvlink")
    };
    let links = |pair: Vec<Gpu>| {
        move |machine: &Machine| {
            machine.describe_gpus_but(&|gpu, described| {
                let peers = pair.iter().filter(|_| pair.contains(gpu)).filter(|peer| *peer != gpu);
                described["nvlinks"] = peers.map(|peer| json!({"remote": peer.pci, "count": 4})).collect();
            })
        }
    };
    let pair: Vec<Gpu> = node.machine.gpus.iter().rev().take(2).rev().cloned().collect();
    on_other_gpus(node, &Settings::ENFORCE, links(pair.clone()), |node| {
        let linked = node.run(asking("linked"))?;
        let wanted: Vec<String> = pair.iter().map(|gpu| gpu.uuid.clone()).collect();
        expect::same(VISIBLE, &wanted, &node.look(&linked)?.gpus())?;
        if node.machine.gpus.len() > 3 {
            expect::refused(node.run(asking("more")), &["NVLink"])?;
        }
        node.remove(&linked)
    })?;
    on_other_gpus(node, &Settings::ENFORCE, links(Vec::new()), |node| {
        expect::refused(node.run(asking("none")), &["NVLink"]).map(drop)
    })
}

/// The machine has no RDMA device; a PCI function that the SR-IOV device plugin hands out stands for one.
fn nic(node: &mut Node) -> Result<()> {
    node.serve_podresources(Manner::Current)?;
    // The last, not the first: CPUs chosen without it would lie on another node. No driver calls it a GPU here.
    let function = node.machine.gpus.last().cloned().context("a PCI function")?;
    let without = |machine: &Machine| {
        let mut fewer = machine.clone();
        fewer.gpus.retain(|gpu| gpu.pci != function.pci);
        fewer.describe_gpus()
    };
    on_other_gpus(node, &Settings::plugin_gpus("keep"), without, |node| {
        let machine = node.machine.clone();
        let pod = |name: &str, cpus| Pod::guaranteed(name, cpus, 64).env(NIC_VARIABLE, &function.pci);
        let claimed = node.run(pod("claimed", 1))?;
        let home = expect::seated(&machine, &node.look(&claimed)?, 1)?;
        expect::same("node of the NIC", &function.node, &home)?;
        let given =
            node.run(pod("given", 1).allotted(NIC_RESOURCE, [(function.pci.clone(), Some(function.node))]))?;
        let home = expect::seated(&machine, &node.look(&given)?, 1)?;
        expect::same("node of the NIC", &function.node, &home)?;
        let wide = machine.exclusive_cpus(function.node).len() as u64;
        let text = expect::refused(node.run(pod("misfit", wide)), &["TopologyAffinityError"])?;
        expected!(text.contains("CPU"), "it does not say what is short: {text}");
        Ok(())
    })
}
