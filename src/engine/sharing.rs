//! Devices that are parts of one another: a GPU's MIG devices, and the replicas a device plugin makes of either.
//!
//! Two containers exclude each other where the device of one is the device of the other or a part of it. Parts of
//! one device that are not parts of each other stand beside each other.

use super::machine::{Device, Machine};
use super::mask::Mask;
use super::occupancy::Occupancy;
use crate::model::{ContainerKey, DeviceId, NodeId, Placement, ResourceName};
use std::collections::BTreeMap;

/// Who holds a device, and as what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claimant {
    pub(super) key: ContainerKey,
    pub(super) resource: ResourceName,
    pub(super) id: DeviceId,
}

/// Holders by the whole that their device is, or is a part of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Wholes(BTreeMap<ResourceName, BTreeMap<String, Vec<Claimant>>>);

impl Machine {
    /// The device itself, what it is a part of, and so on up to the whole.
    fn line<'a>(&'a self, id: &'a str) -> impl DoubleEndedIterator<Item = &'a str> {
        let shared = id.split_once("::").map(|(base, _)| base);
        let gpu = self.parts.get(shared.unwrap_or(id)).map(DeviceId::as_str);
        [Some(id), shared, gpu].into_iter().flatten()
    }

    /// The whole device that this one is, or is a part of.
    #[must_use]
    pub fn whole<'a>(&'a self, id: &'a DeviceId) -> &'a str {
        self.line(id.as_str()).next_back().unwrap_or(id.as_str())
    }

    /// Where a device is close to, or the one it is a part of; empty for unknown, `None` for one there is not.
    pub(super) fn place(&self, resource: &ResourceName, id: &DeviceId) -> Option<Mask> {
        let table = self.devices.get(resource)?;
        self.line(id.as_str()).find_map(|id| table.mask(id))
    }

    /// Whether it is known where a device is.
    #[must_use]
    pub fn is_placed(&self, resource: &ResourceName, id: &DeviceId) -> bool {
        self.place(resource, id).is_some_and(|mask| !mask.is_empty())
    }

    /// The node that is the device's own memory, or that of the one it is a part of.
    pub(super) fn memory_of(&self, id: &DeviceId) -> Option<NodeId> {
        let known =
            |id: &str| self.device_memory.iter().find(|(own, _)| own.as_str() == id).map(|(_, node)| *node);
        self.line(id.as_str()).find_map(known)
    }

    /// Whether the first is the second or a part of it.
    #[must_use]
    pub fn is_part(&self, part: &DeviceId, whole: &DeviceId) -> bool {
        self.line(part.as_str()).any(|up| up == whole.as_str())
    }

    /// Whether one of them is the other or a part of it.
    #[must_use]
    pub fn overlap(&self, one: &DeviceId, other: &DeviceId) -> bool {
        self.line(one.as_str()).any(|up| up == other.as_str())
            || self.line(other.as_str()).any(|up| up == one.as_str())
    }

    /// Where somebody who knows it says that a device is: one the machine does not have, or of which it does not
    /// know where it is. False where there was nothing to learn.
    pub fn learn(&mut self, resource: &ResourceName, device: Device) -> bool {
        let mut devices = self.devices(resource).to_vec();
        match devices.iter_mut().find(|known| known.id == device.id) {
            Some(known) if known.nodes.is_some() || device.nodes.is_none() => return false,
            Some(known) => known.nodes = device.nodes,
            None => devices.push(device),
        }
        self.set_devices(resource.clone(), devices);
        true
    }

    /// The fewest and the most NVLinks between two of these GPUs; `None` of fewer than two, and on a machine
    /// without NVLink.
    #[must_use]
    pub fn nvlinks(&self, gpus: &[&DeviceId]) -> Option<(u32, u32)> {
        self.links.range(gpus).filter(|_| self.links.any())
    }

    /// The resource whose devices these really are.
    #[must_use]
    pub fn family<'a>(&'a self, resource: &'a ResourceName) -> &'a ResourceName {
        self.families.get(resource).unwrap_or(resource)
    }

    /// Says that `resource` hands out devices of `real`: what is taken there is taken here.
    pub fn alias(&mut self, resource: ResourceName, real: ResourceName) {
        self.families.insert(resource, real);
    }

    /// Whether a device is handed out in parts only.
    #[must_use]
    pub fn is_split(&self, id: &DeviceId) -> bool {
        self.parts.values().any(|whole| whole == id)
    }
}

impl Wholes {
    pub(super) fn add(&mut self, machine: &Machine, key: &ContainerKey, placement: &Placement) {
        for (resource, ids) in &placement.devices {
            let family = self.0.entry(machine.family(resource).clone()).or_default();
            for id in ids {
                let claimant = Claimant { key: key.clone(), resource: resource.clone(), id: id.clone() };
                family.entry(machine.whole(id).to_owned()).or_default().push(claimant);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Occupancy {
    /// Everybody who holds the device, a part of it or what it is a part of: key, resource and device.
    pub fn rivals<'a>(
        &'a self,
        machine: &'a Machine,
        resource: &ResourceName,
        id: &'a DeviceId,
    ) -> impl Iterator<Item = (&'a ContainerKey, &'a ResourceName, &'a DeviceId)> {
        let family = self.wholes().0.get(machine.family(resource));
        let claimants = family.and_then(|family| family.get(machine.whole(id))).into_iter().flatten();
        let overlapping = claimants.filter(move |claimant| machine.overlap(&claimant.id, id));
        overlapping.map(|claimant| (&claimant.key, &claimant.resource, &claimant.id))
    }
}
