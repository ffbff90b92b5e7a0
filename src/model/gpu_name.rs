//! Which GPU an id names. Device plugins, environment variables and CDI names write the same GPU in many ways.

use super::{DeviceId, Gpu, Mig, Topology};

/// A GPU, or the part of one, that an id names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedGpu<'a> {
    /// The GPU.
    pub gpu: &'a Gpu,
    /// The MIG device on it that is meant, if it is one.
    pub mig: Option<&'a Mig>,
    /// The replica that is meant where the device plugin shares it: the N of `UUID::N`.
    pub replica: Option<&'a str>,
}

impl NamedGpu<'_> {
    /// The one spelling of what is named: the GPU's id or the MIG device's UUID, with `::N` behind it for a
    /// replica.
    #[must_use]
    pub fn id(&self) -> DeviceId {
        let whole = self.mig.map_or_else(|| self.gpu.id(), |mig| DeviceId::new(&*mig.uuid));
        match self.replica {
            Some(replica) => DeviceId::new(format!("{whole}::{replica}")),
            None => whole,
        }
    }
}

impl Gpu {
    /// The id it is counted under: its UUID, or its PCI address where that is unknown.
    #[must_use]
    pub fn id(&self) -> DeviceId {
        DeviceId::new(self.uuid.clone().unwrap_or_else(|| self.pci.to_string()))
    }

    fn is_called(&self, name: &str) -> bool {
        self.uuid.as_deref() == Some(name) || index(name) == Some(self.index) || self.id().as_str() == name
    }

    fn mig_called(&self, name: &str) -> Option<&Mig> {
        self.mig.iter().find(|mig| {
            let by_instance = mig.instance.is_some() && instance_of(name, self) == mig.instance;
            mig.uuid == name || of_index(name) == Some((self.index, mig.index)) || by_instance
        })
    }
}

impl Topology {
    /// What an id names: `GPU-…`, an index (never a minor number), `MIG-…`, the older `MIG-GPU-…/GI/CI`, the index
    /// form `G:M`, and a replica `…::N` of any of these. `None` where this machine has no such GPU.
    #[must_use]
    pub fn gpu_named<'a>(&'a self, id: &'a str) -> Option<NamedGpu<'a>> {
        let (name, replica) = id.split_once("::").map_or((id, None), |(name, n)| (name, Some(n)));
        self.gpus.iter().find_map(|gpu| {
            let mig = gpu.mig_called(name);
            (mig.is_some() || gpu.is_called(name)).then_some(NamedGpu { gpu, mig, replica })
        })
    }
}

fn index(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// `G:M`.
fn of_index(name: &str) -> Option<(u32, u32)> {
    let (gpu, mig) = name.split_once(':')?;
    Some((index(gpu)?, index(mig)?))
}

/// GPU instance and compute instance of `MIG-GPU-…/GI/CI`, if it is on that GPU.
fn instance_of(name: &str, gpu: &Gpu) -> Option<(u32, u32)> {
    let mut parts = name.strip_prefix("MIG-")?.split('/');
    let on_it = parts.next() == gpu.uuid.as_deref();
    let (gi, ci) = (index(parts.next()?)?, index(parts.next()?)?);
    (on_it && parts.next().is_none()).then_some((gi, ci))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn machine() -> Topology {
        let gpu = |number: u32, mig: Vec<Mig>| Gpu {
            index: number,
            uuid: (number < 2).then(|| format!("GPU-{number}")),
            pci: format!("0000:{:02x}:00.0", 0x20 + number).parse().unwrap(),
            minor: Some(7 - number),
            model: None,
            numa_node: None,
            memory_node: None,
            nvlinks: BTreeMap::new(),
            switch_links: 0,
            near: BTreeMap::new(),
            mig,
        };
        let mig = |index: u32, instance| Mig { index, uuid: format!("MIG-{index}"), instance };
        Topology {
            gpus: vec![
                gpu(0, Vec::new()),
                gpu(1, vec![mig(0, Some((7, 0))), mig(1, None)]),
                gpu(2, Vec::new()),
            ],
            ..Topology::default()
        }
    }

    #[test]
    fn every_spelling_has_one_id() {
        for (spelling, id) in [
            ("GPU-0", "GPU-0"),
            ("0", "GPU-0"),
            ("0::3", "GPU-0::3"),
            ("GPU-1::0", "GPU-1::0"),
            ("MIG-1", "MIG-1"),
            ("MIG-1::2", "MIG-1::2"),
            ("1:1", "MIG-1"),
            ("MIG-GPU-1/7/0", "MIG-0"),
            ("2", "0000:22:00.0"),
            ("0000:22:00.0", "0000:22:00.0"),
        ] {
            assert_eq!(machine().gpu_named(spelling).unwrap().id().as_str(), id, "{spelling}");
        }
    }

    #[test]
    fn what_no_gpu_has_is_none() {
        for spelling in
            ["", "GPU-9", "3", "+1", "1:2", "MIG-GPU-1/7/1", "MIG-GPU-1/0/0", "MIG-GPU-0/7/0", "all"]
        {
            assert_eq!(machine().gpu_named(spelling), None, "{spelling}");
        }
    }
}
