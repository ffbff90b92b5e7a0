//! The engine's machine with the resources this room adds to it.

use super::AnnotationPool;
use super::annotated::POOLED_GPU;
use super::devices::PCI;
use crate::engine::{Device, GPU, Machine, MachineError, Reserve};
use crate::model::{DeviceId, NodeSet, PciDevice, Topology};

/// Prepares a topology for deciding: with every PCI function, and with the GPUs that only annotations may
/// ask for as a resource of their own.
///
/// # Errors
/// The topology or the reserve cannot be decided about: no CPUs, reserved CPUs that are not online, …
pub fn machine(
    topology: &Topology,
    reserve: &Reserve,
    pool: &AnnotationPool,
) -> Result<Machine, MachineError> {
    let mut machine = Machine::new(topology, reserve)?;
    machine.alias(POOLED_GPU.into(), GPU.into());
    let function = |function: &PciDevice| Device {
        id: DeviceId::new(function.pci.to_string()),
        nodes: function.numa_node.map(NodeSet::single),
    };
    machine.set_devices(PCI.into(), topology.pci.iter().map(function).collect());
    if let AnnotationPool::Only(ids) = pool {
        let pooled = machine.devices(&GPU.into()).iter().filter(|gpu| ids.contains(&gpu.id));
        let pooled = pooled.cloned().collect();
        machine.set_devices(POOLED_GPU.into(), pooled);
    }
    Ok(machine)
}
