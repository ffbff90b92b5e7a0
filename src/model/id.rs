//! A newtype for every id: a CPU cannot be passed where a node is meant.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The kernel's number of a logical CPU (one hardware thread).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuId(pub u32);

/// The kernel's number of a NUMA node; sparse on some machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// `physical_package_id`; large and sparse on some architectures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PackageId(pub u32);

macro_rules! display_number {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}
display_number!(CpuId, NodeId, PackageId);

macro_rules! text_id {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes the text as it is.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }
            /// The text itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    )*};
}
text_id!(
    /// The pod's UID as the API server gave it. The sandbox id is another thing.
    PodUid,
    /// The container's name within its pod, stable over restarts.
    ContainerName,
    /// The runtime's id of one container attempt.
    ContainerId,
    /// A resource as the pod spec names it, such as `nvidia.com/gpu`.
    ResourceName,
    /// A device as its plugin names it; for GPUs the UUID.
    DeviceId,
);

impl PodUid {
    /// The pod that the kubelet names a cgroup by (pkg/kubelet/cm): `podUID` with cgroupfs, with systemd
    /// `kubepods-burstable-podUID.slice`, in which the UID's dashes are underscores. Whether that is a UID at all is not
    /// looked at: `podman` is of a pod `man`.
    #[must_use]
    pub fn of_cgroup(name: &str) -> Option<Self> {
        let uid = match name.strip_suffix(".slice") {
            Some(slice) => slice.rsplit('-').next()?.strip_prefix("pod")?.replace('_', "-"),
            None => name.strip_prefix("pod")?.to_owned(),
        };
        Some(Self(uid))
    }
}

/// What an allocation is held under: an attempt comes and goes, this stays.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerKey {
    /// The pod's UID.
    pub pod: PodUid,
    /// The container's name in that pod.
    pub container: ContainerName,
}

impl ContainerKey {
    /// The key of `container` in `pod`.
    #[must_use]
    pub fn new(pod: PodUid, container: ContainerName) -> Self {
        Self { pod, container }
    }
}

impl fmt::Display for ContainerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pod, self.container)
    }
}

/// A PCI function's address. The domain can exceed 16 bits (VMD, hypervisors): sysfs then prints
/// more than four hex digits, NVML always prints eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// PCI domain (segment).
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
    /// Device number, 0 to 31.
    pub device: u8,
    /// Function number, 0 to 7.
    pub function: u8,
}

/// A text that is no PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no PCI address: expected DOMAIN:BUS:DEVICE.FUNCTION in hex, such as 0000:3b:00.0")]
pub struct PciAddressError {
    /// What was found.
    pub text: String,
}

impl FromStr for PciAddress {
    type Err = PciAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_pci(text).ok_or_else(|| PciAddressError { text: text.to_owned() })
    }
}

fn parse_pci(text: &str) -> Option<PciAddress> {
    let (rest, function) = text.rsplit_once('.')?;
    let mut parts = rest.split(':');
    let (domain, bus, device) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let hex = |text: &str, most: usize| {
        let fine = (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        fine.then(|| u32::from_str_radix(text, 16).ok()).flatten()
    };
    let (device, function) = (hex(device, 2)?, hex(function, 1)?);
    if device > 31 || function > 7 {
        return None;
    }
    Some(PciAddress {
        domain: hex(domain, 8)?,
        bus: u8::try_from(hex(bus, 2)?).ok()?,
        device: u8::try_from(device).ok()?,
        function: u8::try_from(function).ok()?,
    })
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

impl Serialize for PciAddress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_a_domain_are_one_address() {
        let sysfs: PciAddress = "0000:3b:00.0".parse().unwrap();
        let nvml: PciAddress = "00000000:3B:00.0".parse().unwrap();
        assert_eq!(sysfs, nvml);
        assert_eq!(nvml.to_string(), "0000:3b:00.0");
    }

    #[test]
    fn a_wide_domain_keeps_its_digits() {
        let address: PciAddress = "10002:00:1f.7".parse().unwrap();
        assert_eq!(address.domain, 0x10002);
        assert_eq!(address.to_string(), "10002:00:1f.7");
    }

    #[test]
    fn no_address_is_an_error_with_the_text() {
        for text in ["", "3b:00.0", "0000:3b:00", "0000:3b:20.0", "0000:3b:00.8", "0:0:0:0.0", "+1:00:00.0"] {
            let error = text.parse::<PciAddress>().unwrap_err();
            assert_eq!(error.text, text);
        }
    }
}
