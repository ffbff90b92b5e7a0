//! What the kubelet allotted to a pod, in the machine's terms: the devices a container has for certain.

use super::State;
use super::devices::{self, PCI};
use crate::engine::{Device, GPU, Machine, NIC};
use crate::model::{
    Allotment, AllotmentSource, ContainerKey, ContainerKind, ContainerName, ContainerRequest, CpuSet,
    DeviceId, DeviceRequest, NodeSet, PciAddress, Placement, PodAllotment, PodUid, Qos, ResourceName,
    Topology,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the kubelet's books say of one container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known<'a> {
    /// Nothing: they were not read, or do not have the pod.
    Nothing,
    /// This.
    Listed(&'a Allotment),
    /// Its pod is listed and it is not. Where regular init containers are left out it is one of these (or an
    /// ephemeral container, which cannot ask for anything); where devices alone are listed it has none.
    Absent(AllotmentSource),
}

/// Devices by resource, each with the nodes the kubelet has for it.
pub(super) type Exact = BTreeMap<ResourceName, BTreeMap<DeviceId, Option<NodeSet>>>;

impl<'a> Known<'a> {
    /// What of a pod's allotment is about one container.
    pub(super) fn of(pod: Option<&'a PodAllotment>, container: &ContainerName) -> Self {
        match pod.map(|pod| (pod.containers.get(container), pod.source)) {
            None => Self::Nothing,
            Some((Some(allotment), _)) => Self::Listed(allotment),
            Some((None, source)) => Self::Absent(source),
        }
    }

    /// Its devices; `None` where it is not known which it has.
    pub(super) fn exact(self, topology: &Topology) -> Option<Exact> {
        match self {
            Self::Nothing | Self::Absent(AllotmentSource::PodResources) => None,
            Self::Listed(allotment) => Some(exact(allotment, topology)),
            Self::Absent(AllotmentSource::Checkpoint) => Some(Exact::new()),
        }
    }

    /// GPUs that reach it by CDI names of the kubelet's, those of DRA claims among them; `None` where a name's spec
    /// is not known.
    pub(super) fn granted(self, topology: &Topology) -> Option<BTreeSet<DeviceId>> {
        let Self::Listed(allotment) = self else { return Some(BTreeSet::new()) };
        let gpus = |name: &String| {
            let gpus = devices::cdi_gpus(name, topology);
            (!gpus.is_empty() || topology.cdi.contains_key(name)).then_some(gpus)
        };
        let all: Option<Vec<_>> = allotment.cdi_devices.iter().map(gpus).collect();
        Some(all?.into_iter().flatten().collect())
    }

    /// The part it plays, as far as that follows.
    pub(super) fn kind(self) -> ContainerKind {
        match self {
            Self::Absent(AllotmentSource::PodResources) => ContainerKind::Init,
            _ => ContainerKind::Unknown,
        }
    }

    /// Its exclusive CPUs; `None` where that is not told.
    pub(super) fn cpus(self) -> Option<&'a CpuSet> {
        match self {
            Self::Listed(allotment) => allotment.cpus.as_ref(),
            Self::Nothing | Self::Absent(_) => None,
        }
    }
}

/// The kubelet's ids as the machine counts them. A device that is neither a GPU nor a PCI function and of which the
/// kubelet does not know where it is has no place: it says nothing about where its container belongs.
pub(super) fn exact(allotment: &Allotment, topology: &Topology) -> Exact {
    let mut exact = Exact::new();
    for (resource, ids) in &allotment.devices {
        for (id, nodes) in ids {
            let nodes = nodes.clone().filter(|nodes| !nodes.is_empty());
            let (resource, id) = match named(resource, id, topology) {
                Some(named) => named,
                None if nodes.is_some() => (resource.clone(), DeviceId::new(&**id)),
                None => continue,
            };
            exact.entry(resource).or_default().insert(id, nodes);
        }
    }
    exact
}

fn named(resource: &ResourceName, id: &str, topology: &Topology) -> Option<(ResourceName, DeviceId)> {
    if is_of_gpus(resource) || id.starts_with("GPU-") || id.starts_with("MIG-") {
        let id = topology.gpu_named(id).map_or_else(|| DeviceId::new(id), |named| named.id());
        return Some((GPU.into(), id));
    }
    let address: PciAddress = id.parse().ok()?;
    if let Some(gpu) = topology.gpus.iter().find(|gpu| gpu.pci == address) {
        return Some((GPU.into(), gpu.id()));
    }
    if let Some(nic) = topology.nics.iter().find(|nic| nic.pci == Some(address)) {
        return Some((NIC.into(), DeviceId::new(&*nic.name)));
    }
    topology.function(address).map(|function| (PCI.into(), DeviceId::new(function.pci.to_string())))
}

/// Whether NVIDIA's device plugin offers GPUs or parts of them under that name: `nvidia.com/gpu`, `…/gpu.shared`,
/// `…/mig-1g.10gb`. Only there is a bare number an index.
fn is_of_gpus(resource: &ResourceName) -> bool {
    let class = resource.as_str().strip_prefix("nvidia.com/");
    class.is_some_and(|class| class == "gpu" || class.starts_with("gpu.") || class.starts_with("mig-"))
}

/// The same without the nodes, as a request.
pub(super) fn requested(exact: &Exact) -> BTreeMap<ResourceName, DeviceRequest> {
    let ids = |ids: &BTreeMap<DeviceId, Option<NodeSet>>| ids.keys().cloned().collect();
    exact.iter().map(|(resource, all)| (resource.clone(), DeviceRequest::Exact(ids(all)))).collect()
}

impl State {
    /// What the kubelet's books say of a container.
    pub(super) fn known(&self, pod: &PodUid, container: &ContainerName) -> Known<'_> {
        Known::of(self.allotments.get(pod), container)
    }

    /// Whether the kubelet's books say anything of a pod that has not ended.
    #[must_use]
    pub fn has_allotment_of(&self, pod: &PodUid) -> bool {
        self.allotments.contains_key(pod)
    }

    /// Remembers what the kubelet allotted to a pod. What of its containers runs already holds its devices from now
    /// on, where nobody else does.
    pub(super) fn allot(&mut self, pod: PodUid, allotment: PodAllotment) {
        self.learn(&allotment);
        self.allotments.insert(pod.clone(), allotment);
        let running: Vec<_> = self.live.iter().filter(|(_, live)| live.key.pod == pod).collect();
        let running: Vec<_> = running.iter().map(|(id, live)| ((*id).clone(), live.key.clone())).collect();
        for (id, key) in running {
            let held = self.ledger.get(&key).map(|held| (held.placement.clone(), held.kind));
            let (mut placement, kind) = held.unwrap_or((Placement::default(), ContainerKind::Unknown));
            let devices = self.exact_devices(&key);
            if placement.devices.is_empty() && !devices.is_empty() {
                placement.devices = devices;
                // Where somebody else holds one of them, nothing that runs is changed for it.
                let _ = self.ledger.adopt(key, id, kind, placement);
            }
        }
    }

    /// The devices a container has for certain; none where that is not known.
    pub(super) fn exact_devices(&self, key: &ContainerKey) -> BTreeMap<ResourceName, BTreeSet<DeviceId>> {
        let exact = self.known(&key.pod, &key.container).exact(&self.topology).unwrap_or_default();
        exact.into_iter().map(|(resource, ids)| (resource, ids.into_keys().collect())).collect()
    }

    /// Takes over where the kubelet knows devices to be of which the machine does not tell.
    fn learn(&mut self, allotment: &PodAllotment) {
        let mut learned: Option<Machine> = None;
        for exact in allotment.containers.values().map(|one| exact(one, &self.topology)) {
            for (resource, ids) in exact {
                for (id, nodes) in ids.into_iter().filter(|(_, nodes)| nodes.is_some()) {
                    let machine = learned.as_ref().unwrap_or(&self.machine);
                    if !machine.is_placed(&resource, &id) {
                        let device = Device { id: DeviceId::new(machine.whole(&id)), nodes };
                        learned.get_or_insert_with(|| (*self.machine).clone()).learn(&resource, device);
                    }
                }
            }
        }
        if let Some(machine) = learned {
            self.machine = Arc::new(machine);
            self.ledger.move_to(Arc::clone(&self.machine));
        }
    }

    /// The devices that a pod's other containers are known to have, as a container beside this one.
    pub(super) fn others_of_pod(&self, pod: &PodUid, own: &ContainerName) -> Option<ContainerRequest> {
        let others = self.allotments.get(pod)?.containers.iter().filter(|(name, _)| *name != own);
        let mut devices: BTreeMap<ResourceName, BTreeSet<DeviceId>> = BTreeMap::new();
        for (_, allotment) in others {
            for (resource, ids) in exact(allotment, &self.topology) {
                devices.entry(resource).or_default().extend(ids.into_keys());
            }
        }
        let request = ContainerRequest::nothing("the pod's others".into(), ContainerKind::App, Qos::Unknown);
        let devices: BTreeMap<_, _> =
            devices.into_iter().map(|(resource, ids)| (resource, DeviceRequest::Exact(ids))).collect();
        (!devices.is_empty()).then_some(ContainerRequest { devices, ..request })
    }

    /// To whom the kubelet gave a GPU, or a part of it, beside this pod.
    pub(super) fn given_to(&self, gpu: &DeviceId, beside: &PodUid) -> Option<ContainerKey> {
        let pods = self.allotments.iter().filter(|(pod, _)| *pod != beside);
        pods.into_iter().find_map(|(pod, allotment)| {
            let mut containers = allotment.containers.keys();
            let has = |name: &&ContainerName| {
                let key = ContainerKey::new(pod.clone(), (*name).clone());
                let devices = self.exact_devices(&key);
                devices.get(&GPU.into()).is_some_and(|ids| ids.iter().any(|id| self.machine.overlap(id, gpu)))
            };
            containers.find(has).map(|name| ContainerKey::new(pod.clone(), name.clone()))
        })
    }

    /// GPUs that the kubelet gave to containers that are not made yet.
    pub(super) fn given_and_not_made(&self, beside: &ContainerKey) -> BTreeSet<DeviceId> {
        let mut ids = BTreeSet::new();
        for (pod, allotment) in &self.allotments {
            for name in allotment.containers.keys() {
                let key = ContainerKey::new(pod.clone(), name.clone());
                if key != *beside && self.ledger.get(&key).is_none() {
                    ids.extend(self.exact_devices(&key).remove(&GPU.into()).unwrap_or_default());
                }
            }
        }
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::machine;
    use super::*;

    fn of(resource: &str, id: &str, nodes: Option<&str>) -> Exact {
        let nodes = nodes.map(|nodes| nodes.parse().unwrap());
        let devices = BTreeMap::from([(resource.into(), BTreeMap::from([(id.to_owned(), nodes)]))]);
        exact(&Allotment { devices, ..Allotment::default() }, &machine())
    }

    #[test]
    fn the_kubelets_ids_are_the_machines() {
        for (resource, id, real, name) in [
            ("nvidia.com/gpu", "GPU-b", GPU, "GPU-b"),
            ("nvidia.com/gpu", "1", GPU, "GPU-b"),
            ("nvidia.com/gpu.shared", "GPU-b::7", GPU, "GPU-b::7"),
            ("nvidia.com/mig-1g.10gb", "MIG-x", GPU, "MIG-x"),
            ("nvidia.com/A100", "GPU-gone", GPU, "GPU-gone"),
            ("nvidia.com/hostdev", "0000:51:00.0", NIC, "mlx5_0"),
            ("nvidia.com/GA102GL", "0000:21:00.0", GPU, "GPU-b"),
        ] {
            let exact = of(resource, id, None);
            assert_eq!(
                exact[&ResourceName::from(real)].keys().next().unwrap().as_str(),
                name,
                "{resource} {id}"
            );
        }
    }

    #[test]
    fn what_is_nowhere_says_nothing_and_a_number_is_an_index_of_gpus_alone() {
        assert_eq!(of("devices.kubevirt.io/kvm", "kvm3", None), Exact::new());
        assert_eq!(of("example.com/fpga", "1", None), Exact::new());
        let placed = of("example.com/fpga", "1", Some("2"));
        assert_eq!(
            placed[&ResourceName::from("example.com/fpga")][&"1".into()].as_ref().unwrap().to_string(),
            "2"
        );
    }
}
