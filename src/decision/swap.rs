//! Other GPUs than the device plugin chose, written the way the container gets its own: all of it or nothing.
//!
//! Which ways those are is what its face shows (`devices`): `NVIDIA_VISIBLE_DEVICES`, `/dev/null` mounts, CDI
//! annotations, device nodes. CDI devices were expanded before we are asked: their nodes are taken away, each with a
//! deny rule, since the rule that allowed it stays, and the others come by CDI name.

use super::devices::{self, Claims, MOUNT_DIR, Strategy, VISIBLE};
use super::{Edit, Features, Mount};
use crate::model::{ContainerFacts, DeviceId, DeviceNode, Gpu, MountFacts, Topology};
use std::collections::BTreeSet;

/// Why one GPU cannot be put in another's place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SwapError {
    /// The container does not show it.
    #[error("how GPU {gpu} reaches the container cannot be seen")]
    Unseen { gpu: DeviceId },
    /// Nothing can be taken away again.
    #[error(
        "GPU {gpu} comes as a device node, which only NRI 0.10 or later (containerd 2.2) can take away again"
    )]
    Stays { gpu: DeviceId },
    /// No CDI device can be added.
    #[error("a CDI device can only be added by NRI 0.7 or later, from containerd 1.7.30 or 2.1 on")]
    NoCdi,
    /// There is no name for it.
    #[error("no CDI name is known for GPU {gpu}: expected one in /etc/cdi or /var/run/cdi")]
    NoName { gpu: DeviceId },
    /// Its device node is not known.
    #[error("the device node of GPU {gpu} is not known")]
    NoNode { gpu: DeviceId },
    /// The result would not be what was meant.
    #[error("the container would see {would}, not {meant}")]
    Half { would: String, meant: String },
}

/// Which GPUs take the place of which.
struct Swap<'a> {
    container: &'a ContainerFacts,
    topology: &'a Topology,
    features: Features,
    claims: Claims,
    /// All the container is to have, by index.
    all: Vec<&'a Gpu>,
    gone: Vec<&'a Gpu>,
    new: Vec<&'a Gpu>,
}

/// What is to be changed so that the container has `to` and not `from`.
pub(super) fn swap(
    container: &ContainerFacts,
    topology: &Topology,
    features: Features,
    from: &BTreeSet<DeviceId>,
    to: &BTreeSet<DeviceId>,
) -> Result<Edit, SwapError> {
    let gpus = |ids: &dyn Fn(&DeviceId) -> bool| -> Vec<&Gpu> {
        topology.gpus.iter().filter(|gpu| ids(&gpu.id())).collect()
    };
    let swap = Swap {
        container,
        topology,
        features,
        claims: devices::claims(container, topology).unwrap_or_default(),
        all: gpus(&|id| to.contains(id)),
        gone: gpus(&|id| from.contains(id) && !to.contains(id)),
        new: gpus(&|id| to.contains(id) && !from.contains(id)),
    };
    let mut edit = Edit::default();
    let ways = swap.ways()?;
    if ways.contains(&Strategy::Env) {
        edit.env.push((VISIBLE.to_owned(), uuids(&swap.all)));
    }
    if ways.contains(&Strategy::Mounts) {
        swap.mounts(&mut edit)?;
    }
    if ways.contains(&Strategy::Annotation) {
        swap.annotations(&mut edit)?;
    }
    if ways.contains(&Strategy::Nodes) || ways.contains(&Strategy::Cdi) {
        swap.nodes(&mut edit, &ways)?;
    }
    swap.check(&edit)?;
    Ok(edit)
}

fn uuids(gpus: &[&Gpu]) -> String {
    gpus.iter().map(|gpu| gpu.id().to_string()).collect::<Vec<_>>().join(",")
}

impl<'a> Swap<'a> {
    /// Every way by which what is to go reaches the container.
    fn ways(&self) -> Result<BTreeSet<Strategy>, SwapError> {
        let mut ways = BTreeSet::new();
        for gpu in self.gone.iter().map(|gpu| gpu.id()) {
            match self.claims.strategies.get(&gpu) {
                Some(some) if !some.is_empty() => ways.extend(some),
                _ => return Err(SwapError::Unseen { gpu }),
            }
        }
        Ok(ways)
    }

    fn is_gone(&self, id: &DeviceId) -> bool {
        self.gone.iter().any(|gpu| gpu.id() == *id)
    }

    fn mounts(&self, edit: &mut Edit) -> Result<(), SwapError> {
        let mut by_cdi = false;
        for mount in &self.container.mounts {
            let Some(name) = devices::mounted_id(&mount.destination) else { continue };
            let cdi = name.strip_prefix("cdi/").and_then(|name| name.rsplit_once('/'));
            let ids = match cdi {
                Some((kind, name)) => devices::cdi_gpus(&format!("{kind}={name}"), self.topology),
                None => self.topology.gpu_named(&name).map(|named| named.id()).into_iter().collect(),
            };
            if ids.iter().any(|id| self.is_gone(id)) {
                by_cdi = cdi.is_some();
                edit.remove_mounts.push(mount.destination.clone());
            }
        }
        for gpu in &self.new {
            let name = match by_cdi {
                true => format!("cdi/{}", self.cdi_name(gpu)?.replacen('=', "/", 1)),
                false => gpu.id().to_string(),
            };
            edit.mounts.push(Mount {
                source: "/dev/null".into(),
                destination: format!("{MOUNT_DIR}/{name}"),
                kind: "bind".into(),
                options: ["rbind", "rprivate", "ro"].map(String::from).into(),
            });
        }
        Ok(())
    }

    fn annotations(&self, edit: &mut Edit) -> Result<(), SwapError> {
        let lists =
            self.container.annotations.iter().filter(|(key, _)| key.starts_with(devices::CDI_ANNOTATION));
        let mut new = self.new.iter().map(|gpu| self.cdi_name(gpu)).collect::<Result<Vec<_>, _>>()?;
        for (key, list) in lists {
            let names: Vec<&str> = list.split(',').map(str::trim).collect();
            let goes = |name: &&str| devices::cdi_gpus(name, self.topology).iter().any(|id| self.is_gone(id));
            if names.iter().any(goes) {
                let kept = names.iter().filter(|name| !goes(name)).map(ToString::to_string);
                edit.annotations.push((key.clone(), kept.chain(new.drain(..)).collect::<Vec<_>>().join(",")));
            }
        }
        Ok(())
    }

    fn nodes(&self, edit: &mut Edit, ways: &BTreeSet<Strategy>) -> Result<(), SwapError> {
        let kept: BTreeSet<String> = self.all.iter().flat_map(|gpu| self.node_paths(gpu)).collect();
        for gpu in &self.gone {
            let own = self.node_paths(gpu);
            let gone = |node: &&DeviceNode| own.contains(&node.path) && !kept.contains(&node.path);
            let before = edit.remove_devices.len();
            edit.remove_devices.extend(self.container.devices.iter().filter(gone).cloned());
            if edit.remove_devices.len() > before && !self.features.remove_devices {
                return Err(SwapError::Stays { gpu: gpu.id() });
            }
        }
        let is_void = devices::env(self.container, VISIBLE).is_none_or(|value| value.trim() == "void");
        let by_cdi = ways.contains(&Strategy::Cdi) || ways.contains(&Strategy::Annotation) || is_void;
        if by_cdi && !self.features.add_cdi {
            return Err(SwapError::NoCdi);
        }
        for gpu in &self.new {
            match by_cdi {
                true => edit.cdi_devices.push(self.cdi_name(gpu)?),
                false => edit.devices.push(self.node(gpu, &edit.remove_devices)?),
            }
        }
        Ok(())
    }

    /// The node of a GPU that is new, with the major number of those that go.
    fn node(&self, gpu: &Gpu, gone: &[DeviceNode]) -> Result<DeviceNode, SwapError> {
        let number = gpu.minor.zip(gone.first());
        let (minor, like) = number.ok_or_else(|| SwapError::NoNode { gpu: gpu.id() })?;
        Ok(DeviceNode { path: format!("/dev/nvidia{minor}"), major: like.major, minor: i64::from(minor) })
    }

    /// The device nodes that are one GPU's: its own, and what its CDI device brings along.
    fn node_paths(&self, gpu: &Gpu) -> BTreeSet<String> {
        let own = gpu.minor.map(|minor| format!("/dev/nvidia{minor}"));
        let names = self.topology.cdi.iter().filter(|(name, _)| self.stands_for(name, gpu));
        names.flat_map(|(_, paths)| paths.iter().cloned()).chain(own).collect()
    }

    fn stands_for(&self, name: &str, gpu: &Gpu) -> bool {
        let gpus = devices::cdi_gpus(name, self.topology);
        gpus.len() == 1 && gpus.contains(&gpu.id())
    }

    /// The CDI name of a GPU: of the kind that the container's others are, else of any.
    fn cdi_name(&self, gpu: &Gpu) -> Result<String, SwapError> {
        let shown = self.container.cdi_devices.iter().map(String::as_str);
        let listed =
            self.container.annotations.iter().filter(|(key, _)| key.starts_with(devices::CDI_ANNOTATION));
        let listed = listed.flat_map(|(_, list)| list.split(',').map(str::trim));
        let kinds: BTreeSet<&str> =
            shown.chain(listed).filter_map(|name| Some(name.split_once('=')?.0)).collect();
        let names: Vec<&String> =
            self.topology.cdi.keys().filter(|name| self.stands_for(name, gpu)).collect();
        let same = |name: &&&String| name.split_once('=').is_some_and(|(kind, _)| kinds.contains(kind));
        let found = names.iter().find(same).or(names.first());
        found.map(|name| (*name).clone()).ok_or_else(|| SwapError::NoName { gpu: gpu.id() })
    }

    /// Reads what the container would show: nothing else than what was meant is good enough.
    fn check(&self, edit: &Edit) -> Result<(), SwapError> {
        let mut after = self.container.clone();
        let removed = |path: &String| edit.remove_devices.iter().any(|node| node.path == *path);
        after.env.extend(edit.env.iter().map(|(name, value)| format!("{name}={value}")));
        after.annotations.extend(edit.annotations.iter().cloned());
        after.mounts.retain(|mount| !edit.remove_mounts.contains(&mount.destination));
        let mount = |mount: &Mount| MountFacts {
            source: mount.source.clone(),
            destination: mount.destination.clone(),
        };
        after.mounts.extend(edit.mounts.iter().map(mount));
        let goes = |name: &String| devices::cdi_gpus(name, self.topology).iter().any(|id| self.is_gone(id));
        after.cdi_devices.retain(|name| !goes(name));
        after.cdi_devices.extend(edit.cdi_devices.iter().cloned());
        after.devices.retain(|node| !removed(&node.path));
        after.devices.extend(edit.devices.iter().cloned());
        let would = devices::claims(&after, self.topology).unwrap_or_default();
        let would: BTreeSet<DeviceId> = would.gpus().cloned().unwrap_or_default();
        let meant: BTreeSet<DeviceId> = self.all.iter().map(|gpu| gpu.id()).collect();
        let words = |ids: &BTreeSet<DeviceId>| {
            let all: Vec<&str> = ids.iter().map(DeviceId::as_str).collect();
            if all.is_empty() { "no GPU".to_owned() } else { all.join(", ") }
        };
        match would == meant {
            true => Ok(()),
            false => Err(SwapError::Half { would: words(&would), meant: words(&meant) }),
        }
    }
}
