//! GPUs and NICs: whether the kernel and the device plugin know their nodes, and whether the pods that have them can be
//! pinned.

use super::Check;
use super::facts::Facts;
use super::finding::Finding;
use crate::cli::driver::Silent;
use crate::discover::{Place, Warning};
use crate::model::{PciAddress, PodUid, UnknownLocality};

pub(super) const CHECKS: &[Check] =
    &[machine, gpu_nodes, nic_nodes, left_out, driver, plugin_topology, guaranteed];

const CHECKPOINT: &str = "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";
const NVIDIA: u16 = 0x10de;

fn machine(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "machine.read";
    match &facts.machine {
        Ok(machine) => {
            let nodes = crate::cli::output::count(machine.topology.numa_nodes.len(), "NUMA node");
            vec![Finding::ok(CHECK, format!("the machine can be read: {nodes}"))]
        }
        Err(error) if facts.root.is_host() => {
            let title = "the machine cannot be read: maitred does not start on it";
            vec![Finding::error(CHECK, title).seen(&Place::words("reading it"), error.as_str())]
        }
        Err(error) => {
            vec![Finding::not_checked(CHECK, format!("CPUs, nodes, huge pages and devices: {error}"))]
        }
    }
}

fn numa_node(pci: &PciAddress) -> String {
    format!("sys/bus/pci/devices/{pci}/numa_node")
}

/// Where the firmware or the hypervisor would have to say it.
fn where_to_say_it(facts: &Facts) -> &'static str {
    match facts.kernel.is_guest {
        true => {
            "this is a virtual machine: have the hypervisor put the device below a PCI bridge of its node (QEMU: \
             pxb-pcie,numa_node=N; libvirt: <controller type='pci' model='pcie-expander-bus'> with <node>N</node>)"
        }
        false => {
            "in the firmware's setup look for \"NUMA\", \"ACPI SRAT\", \"Sub-NUMA Clustering\" or \"NPS\" and update it: \
             its tables (_PXM of the host bridge) leave the device's node out; until then: echo N > \
             /sys/bus/pci/devices/ADDRESS/numa_node at each boot"
        }
    }
}

fn gpu_nodes(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "devices.gpu-node";
    let Ok(machine) = &facts.machine else { return Vec::new() };
    let topology = &machine.topology;
    if topology.gpus.is_empty() || topology.numa_nodes.len() < 2 {
        return Vec::new();
    }
    let lost: Vec<_> = topology.gpus.iter().filter(|gpu| gpu.numa_node.is_none()).collect();
    if lost.is_empty() {
        return vec![Finding::ok(CHECK, "the node of every GPU is known")];
    }
    let rejects =
        facts.config.as_ref().is_ok_and(|config| config.policy.unknown_locality == UnknownLocality::Reject);
    let names: Vec<_> = lost.iter().map(|gpu| gpu.index.to_string()).collect();
    let names = names.join(", ");
    let finding = match rejects {
        true => Finding::error(
            CHECK,
            format!("nobody knows the NUMA node of GPU {names}: pods that get it are rejected"),
        ),
        false => Finding::warning(
            CHECK,
            format!("nobody knows the NUMA node of GPU {names}: it is not aligned with anything"),
        ),
    };
    let finding = lost.iter().fold(finding, |finding, gpu| {
        let driver = format!("proc/driver/nvidia/gpus/{}/numa_status", gpu.pci);
        let told = facts.root.read(&driver).ok().flatten();
        let finding = finding.seen_in(&numa_node(&gpu.pci), "-1");
        match told {
            Some(text) => finding.seen_in(&driver, text.lines().collect::<Vec<_>>().join("; ")),
            None => finding,
        }
    });
    vec![finding.fix(where_to_say_it(facts))]
}

fn nic_nodes(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "devices.nic-node";
    let Ok(machine) = &facts.machine else { return Vec::new() };
    let topology = &machine.topology;
    if topology.nics.is_empty() || topology.numa_nodes.len() < 2 {
        return Vec::new();
    }
    // A software device is nowhere.
    let lost: Vec<_> = topology
        .nics
        .iter()
        .filter_map(|nic| Some((nic, nic.pci.filter(|_| nic.numa_node.is_none())?)))
        .collect();
    if lost.is_empty() {
        return vec![Finding::ok(CHECK, "the node of every RDMA NIC is known")];
    }
    let names: Vec<_> = lost.iter().map(|(nic, _)| nic.name.as_str()).collect();
    let title =
        format!("nobody knows the NUMA node of NIC {}: it is not aligned with anything", names.join(", "));
    let finding = lost
        .iter()
        .fold(Finding::warning(CHECK, title), |finding, (_, pci)| finding.seen_in(&numa_node(pci), "-1"));
    vec![finding.fix(where_to_say_it(facts))]
}

/// What was odd when the devices were read.
fn left_out(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "devices.odd";
    let warnings = facts.machine.iter().flat_map(|machine| &machine.warnings);
    let told = warnings.map(|warning| match warning {
        Warning::GpuLeftOut { .. } | Warning::GpuNowhere { .. } | Warning::CdiTwice { .. } => {
            Finding::warning(CHECK, warning.to_string())
        }
        other => Finding::note(CHECK, other.to_string()),
    });
    told.collect()
}

fn driver(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "devices.gpu-driver";
    if let Some(silent) = facts.silent {
        return vec![hangs(silent)];
    }
    let Ok(machine) = &facts.machine else { return Vec::new() };
    let gpus =
        machine.topology.pci.iter().filter(|function| {
            function.vendor == Some(NVIDIA) && matches!(function.class >> 8, 0x0300 | 0x0302)
        });
    let count = gpus.count();
    if count == 0 {
        return Vec::new();
    }
    if matches!(facts.root.names("proc/driver/nvidia/gpus"), Ok(Some(names)) if !names.is_empty()) {
        return vec![Finding::ok(CHECK, "NVIDIA's driver is loaded")];
    }
    if !matches!(facts.root.names("proc"), Ok(Some(_))) {
        return vec![Finding::not_checked(CHECK, "NVIDIA's driver: there is no proc")];
    }
    let title = format!(
        "no driver is loaded for {}: no pod gets one, and maitred does not know their UUIDs",
        crate::cli::output::count(count, "NVIDIA GPU")
    );
    let finding = Finding::warning(CHECK, title).seen_in("proc/driver/nvidia/gpus", "not there");
    vec![finding.fix(
        "modprobe nvidia; with the GPU Operator: kubectl -n gpu-operator logs ds/nvidia-driver-daemonset",
    )]
}

fn hangs(silent: Silent) -> Finding {
    let title = format!("{silent}: its driver hangs, and maitred does not know GPUs by UUID, NVLink or MIG");
    let fix =
        "see whether nvidia-smi ends; dmesg | grep -i xid; a GPU that has fallen off the bus takes a reboot";
    Finding::error("devices.gpu-driver", title).fix(fix)
}

/// The kubelet can only align what the device plugin gave a node.
fn plugin_topology(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "devices.plugin-topology";
    let devices = match &facts.devices {
        Ok(Some(devices)) => devices,
        Ok(None) => return Vec::new(),
        Err(error) => return vec![Finding::not_checked(CHECK, format!("the kubelet's devices: {error}"))],
    };
    let several = facts.machine.as_ref().is_ok_and(|machine| machine.topology.numa_nodes.len() > 1);
    let all =
        devices.values().flat_map(|containers| containers.values()).flat_map(|allotment| &allotment.devices);
    let mut lost: Vec<String> = all
        .filter(|(resource, devices)| {
            let device = ["gpu", "mig", "rdma", "nic", "sriov", "hca"]
                .iter()
                .any(|word| resource.as_str().contains(word));
            device && devices.values().any(Option::is_none)
        })
        .map(|(resource, _)| resource.as_str().to_owned())
        .collect();
    lost.sort();
    lost.dedup();
    if lost.is_empty() || !several {
        return vec![Finding::ok(CHECK, "device plugins give their devices' nodes")];
    }
    let title = format!(
        "the device plugin of {} gives no NUMA nodes: the kubelet chooses its devices without looking where they are",
        lost.join(", ")
    );
    let finding = Finding::warning(CHECK, title).seen_in(CHECKPOINT, "DeviceIDs under the node \"-1\"");
    vec![finding.fix(
        "see devices.gpu-node and devices.nic-node first; where the kernel knows the nodes, update the device plugin, and \
         give its pod /sys of the host",
    )]
}

/// A pod with devices is pinned only where it is Guaranteed.
fn guaranteed(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "devices.guaranteed";
    let Ok(Some(devices)) = &facts.devices else { return Vec::new() };
    if !matches!(facts.root.names("sys/fs/cgroup"), Ok(Some(_))) {
        return vec![Finding::not_checked(
            CHECK,
            "whether pods with devices are Guaranteed: there is no sys/fs/cgroup",
        )];
    }
    let loose: Vec<_> = devices.keys().filter_map(|pod| Some((pod, class_of(facts, pod)?))).collect();
    if loose.is_empty() {
        return vec![Finding::ok(CHECK, "no pod with devices is less than Guaranteed")];
    }
    let title = format!(
        "{} with devices, but not Guaranteed: it cannot be pinned, as its requests are not its limits",
        crate::cli::output::count(loose.len(), "pod")
    );
    let finding = loose.iter().fold(Finding::warning(CHECK, title), |finding, (_, cgroup)| {
        finding.seen_in(cgroup, "its cgroup is not that of a Guaranteed pod")
    });
    vec![finding.fix(
        "in the pod's manifest give every container cpu and memory limits equal to its requests, cpu in whole numbers; \
         which pod it is: kubectl get pods -A -o custom-columns=UID:.metadata.uid,NAME:.metadata.name",
    )]
}

/// The cgroup of a pod that is Burstable or BestEffort; `None` where it is neither, or not there.
fn class_of(facts: &Facts, pod: &PodUid) -> Option<String> {
    let sliced = pod.as_str().replace('-', "_");
    let paths = ["burstable", "besteffort"].iter().flat_map(|class| {
        let slice = format!("kubepods.slice/kubepods-{class}.slice/kubepods-{class}-pod{sliced}.slice");
        let plain = format!("kubepods/{class}/pod{}", pod.as_str());
        ["", "cpuset/", "cpu,cpuacct/"]
            .into_iter()
            .flat_map(move |hierarchy| {
                [&slice, &plain].map(|path| format!("sys/fs/cgroup/{hierarchy}{path}"))
            })
            .collect::<Vec<_>>()
    });
    paths.into_iter().find(|path| matches!(facts.root.names(path), Ok(Some(_))))
}
