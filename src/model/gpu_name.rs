//! Which GPU an id names. Device plugins, environment variables and CDI names write the same GPU in many ways, and
//! NVIDIA's runtime takes more of them than anybody documents (`src/cli/common.c` of libnvidia-container): whatever it
//! understands must be understood here, or a GPU could be had under a name that nobody watches.

use super::{DeviceId, Gpu, Mig, PciAddress, Topology};

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
        let by_uuid = self.uuid.as_deref().is_some_and(|uuid| uuid.eq_ignore_ascii_case(name));
        by_uuid || index(name) == Some(self.index) || is_address(name, self.pci) || self.id().as_str() == name
    }

    fn mig_called(&self, name: &str) -> Option<&Mig> {
        self.mig.iter().find(|mig| {
            let by_instance = mig.instance.is_some() && instance_of(name, self) == mig.instance;
            mig.uuid.eq_ignore_ascii_case(name)
                || of_index(name) == Some((self.index, mig.index))
                || by_instance
        })
    }
}

impl Topology {
    /// What an id names: `GPU-…` in small or capital letters, an index (never a minor number), a PCI address,
    /// `MIG-…`, the older `MIG-GPU-…/GI/CI`, the index form `G:M`, and a replica `…::N` of any of these. `None` where
    /// this machine has no such GPU.
    #[must_use]
    pub fn gpu_named<'a>(&'a self, id: &'a str) -> Option<NamedGpu<'a>> {
        let (name, replica) = id.split_once("::").map_or((id, None), |(name, n)| (name, Some(n)));
        self.gpus.iter().find_map(|gpu| {
            let mig = gpu.mig_called(name);
            (mig.is_some() || gpu.is_called(name)).then_some(NamedGpu { gpu, mig, replica })
        })
    }
}

/// A number as C's `strtoumax` reads it to the end: spaces and a sign may come first, and less than none counts from
/// the largest down.
fn index(text: &str) -> Option<u32> {
    let text = text.trim_ascii_start();
    let (minus, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let number: u64 = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()?;
    u32::try_from(if minus { number.wrapping_neg() } else { number }).ok()
}

/// `G:M`; C's `sscanf` does not mind what comes after.
fn of_index(name: &str) -> Option<(u32, u32)> {
    let (gpu, mig) = name.split_once(':')?;
    Some((
        index(gpu)?,
        index(leading(mig.trim_ascii_start(), |b| b.is_ascii_digit() || matches!(b, b'+' | b'-')))?,
    ))
}

/// Whether it is the address of a GPU: domain, bus and device in hexadecimal digits, however many of them, and
/// whatever comes after.
fn is_address(name: &str, pci: PciAddress) -> bool {
    let mut parts = name.split(':').map(str::trim_ascii_start);
    let mut hex = |most: usize, to_the_end: bool| {
        let part = parts.next()?;
        let part = part.strip_prefix("0x").or_else(|| part.strip_prefix("0X")).unwrap_or(part);
        let digits = leading(part, |b| b.is_ascii_hexdigit());
        let digits = if to_the_end { digits.get(..most.min(digits.len()))? } else { digits };
        let fits = !digits.is_empty() && (to_the_end || (digits.len() == part.len() && digits.len() <= most));
        fits.then(|| u32::from_str_radix(digits.trim_start_matches('0'), 16).or(Ok::<u32, ()>(0)).ok())
            .flatten()
    };
    let found = (hex(usize::MAX, false), hex(2, false), hex(2, true));
    found == (Some(pci.domain), Some(pci.bus.into()), Some(pci.device.into()))
}

/// What of a text all is of one kind, from its beginning.
fn leading(text: &str, kind: impl Fn(u8) -> bool) -> &str {
    let end = text.bytes().position(|b| !kind(b)).unwrap_or(text.len());
    &text[..end]
}

/// GPU instance and compute instance of `MIG-GPU-…/GI/CI`, if it is on that GPU.
fn instance_of(name: &str, gpu: &Gpu) -> Option<(u32, u32)> {
    let prefix = name.get(..4).filter(|prefix| prefix.eq_ignore_ascii_case("MIG-"))?;
    let mut parts = name[prefix.len()..].split('/');
    let on_it =
        parts.next().zip(gpu.uuid.as_deref()).is_some_and(|(name, uuid)| uuid.eq_ignore_ascii_case(name));
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
            // As NVIDIA's runtime reads it too.
            ("gpu-0", "GPU-0"),
            ("mig-1", "MIG-1"),
            ("mig-gpu-1/7/0", "MIG-0"),
            ("00", "GPU-0"),
            (" +1", "GPU-1"),
            ("-18446744073709551615", "GPU-1"),
            ("1:1x", "MIG-1"),
            ("0000:20:00.0", "GPU-0"),
            ("00000000:20:00.0", "GPU-0"),
            ("0:21:0", "GPU-1"),
            ("0x0:21:00.0 and more", "GPU-1"),
            ("0000:20:00.0::3", "GPU-0::3"),
        ] {
            assert_eq!(machine().gpu_named(spelling).unwrap().id().as_str(), id, "{spelling}");
        }
    }

    #[test]
    fn what_no_gpu_has_is_none() {
        for spelling in [
            "",
            "+",
            "-1",
            "1 ",
            "GPU-9",
            "GPU-",
            "GPU-00",
            "3",
            "1:2",
            "1:",
            "0001:20:00.0",
            "0000:20:01.0",
            ":20:00.0",
            "0000:020:00.0",
            "20:00.0",
            "MIG-GPU-1/7/1",
            "MIG-GPU-1/0/0",
            "MIG-GPU-0/7/0",
            "all",
        ] {
            assert_eq!(machine().gpu_named(spelling), None, "{spelling}");
        }
    }
}
