//! The description file: what machine the stand-in pretends to see, and how it misbehaves.

use serde::Deserialize;
use std::collections::HashMap;

/// NVML's return code; 0 is success (`nvmlReturn_t` in nvml.h).
pub type Code = u32;

pub const SUCCESS: Code = 0;
pub const UNINITIALIZED: Code = 1;
pub const INVALID_ARGUMENT: Code = 2;
pub const NOT_SUPPORTED: Code = 3;
pub const NOT_FOUND: Code = 6;
pub const INSUFFICIENT_SIZE: Code = 7;
pub const UNKNOWN: Code = 999;

/// Names accepted for injected codes, so that a test reads as what it tests.
const NAMES: &[(&str, Code)] = &[
    ("UNINITIALIZED", 1),
    ("INVALID_ARGUMENT", 2),
    ("NOT_SUPPORTED", 3),
    ("NO_PERMISSION", 4),
    ("NOT_FOUND", 6),
    ("INSUFFICIENT_SIZE", 7),
    ("DRIVER_NOT_LOADED", 9),
    ("TIMEOUT", 10),
    ("LIBRARY_NOT_FOUND", 12),
    ("FUNCTION_NOT_FOUND", 13),
    ("GPU_IS_LOST", 15),
    ("RESET_REQUIRED", 16),
    ("OPERATING_SYSTEM", 17),
    ("LIB_RM_VERSION_MISMATCH", 18),
    ("IN_USE", 19),
    ("NOT_READY", 27),
    ("UNKNOWN", 999),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    #[serde(default = "default_driver")]
    pub driver_version: String,
    /// Where the count of inits and shutdowns is written after each of them.
    pub state_file: Option<String>,
    /// Function name, or `*` for all but init, shutdown and the error's text → code it answers with,
    /// for every device.
    #[serde(default)]
    pub errors: HashMap<String, Injected>,
    /// Function name → milliseconds it takes.
    #[serde(default)]
    pub delays_ms: HashMap<String, u64>,
    #[serde(default)]
    pub gpus: Vec<Gpu>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    pub uuid: String,
    /// `DDDD:BB:dd.f`, the domain in any number of hex digits.
    pub pci: String,
    /// Device minor; the index in this list where absent.
    pub minor: Option<u32>,
    #[serde(default = "default_name")]
    pub name: String,
    /// The host's NUMA node next to the GPU; absent = NVML does not know.
    pub numa_node: Option<u32>,
    /// CPUs next to the GPU as a kernel list; absent = NVML does not know.
    pub cpus: Option<String>,
    /// The GPU's own memory node (Grace only); absent = NOT_SUPPORTED.
    pub own_numa_node: Option<u32>,
    #[serde(default)]
    pub nvlinks: Vec<NvLink>,
    /// Other GPU's index → `internal`, `single`, `multiple`, `hostbridge`, `node` or `system`.
    /// Absent: `node` where the two share a NUMA node, else `system`.
    #[serde(default)]
    pub ancestors: HashMap<u32, Level>,
    /// MIG devices; absent = the GPU has no MIG, empty = MIG is off.
    pub mig: Option<Vec<Mig>>,
    /// Function name, or `*` for all that take this device's handle → code it answers with for this
    /// device alone.
    #[serde(default)]
    pub errors: HashMap<String, Injected>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvLink {
    /// PCI address of the other end.
    pub remote: String,
    #[serde(default = "default_active")]
    pub active: bool,
    /// How many links in a row are like this one.
    #[serde(default = "default_count")]
    pub count: u32,
    /// `gpu`, `processor` or `switch`.
    #[serde(default = "default_remote_type", rename = "type")]
    pub remote_type: RemoteType,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mig {
    pub uuid: String,
    pub name: Option<String>,
    /// Its slot on its GPU; its position in the list where absent.
    pub index: Option<u32>,
    /// Absent = NOT_SUPPORTED, as is the next.
    pub gpu_instance: Option<u32>,
    pub compute_instance: Option<u32>,
}

impl Gpu {
    /// The MIG device in `slot`.
    pub fn mig_at(&self, slot: usize) -> Option<&Mig> {
        let mut all = self.mig.iter().flatten().enumerate();
        all.find(|(position, mig)| mig.slot(*position) == slot).map(|(_, mig)| mig)
    }

    /// One past the highest slot, and at least the seven of the GPUs there are.
    pub fn mig_slots(&self) -> usize {
        let all = self.mig.iter().flatten().enumerate();
        let highest = all.map(|(position, mig)| mig.slot(position) + 1).max();
        if self.mig.is_some() { highest.unwrap_or(0).max(MIG_SLOTS) } else { 0 }
    }

    /// The link of that number.
    pub fn nvlink(&self, number: u32) -> Option<&NvLink> {
        let mut all = self.nvlinks.iter().flat_map(|link| (0..link.count).map(move |_| link));
        all.nth(number as usize)
    }
}

/// Slots of every GPU with MIG so far.
const MIG_SLOTS: usize = 7;

impl Mig {
    pub fn slot(&self, position: usize) -> usize {
        self.index.map_or(position, |index| index as usize)
    }
}

/// What a table of injected errors says of `function`: its own entry, else the one for all.
pub fn injected(errors: &HashMap<String, Injected>, function: &str) -> Option<Code> {
    errors.get(function).or_else(|| errors.get("*")).map(Injected::code)
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RemoteType {
    Gpu = 0,
    Processor = 1,
    Switch = 2,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Internal = 0,
    Single = 10,
    Multiple = 20,
    Hostbridge = 30,
    Node = 40,
    System = 50,
}

/// A code by number or by name without its `NVML_ERROR_` prefix.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Injected {
    Number(Code),
    Name(String),
}

impl Injected {
    pub fn code(&self) -> Code {
        match self {
            Injected::Number(code) => *code,
            Injected::Name(name) => {
                NAMES.iter().find(|(known, _)| known == name).map_or(UNKNOWN, |(_, code)| *code)
            }
        }
    }
}

fn default_driver() -> String {
    "575.0-fake".to_owned()
}

fn default_name() -> String {
    "Stand-in GPU".to_owned()
}

fn default_active() -> bool {
    true
}

fn default_count() -> u32 {
    1
}

fn default_remote_type() -> RemoteType {
    RemoteType::Gpu
}

/// A PCI address as numbers, so that `0000:21:00.0` and `00000000:21:00.0` are the same device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pci {
    pub domain: u32,
    pub bus: u32,
    pub device: u32,
    pub function: u32,
}

impl Pci {
    pub fn parse(text: &str) -> Option<Pci> {
        let (rest, function) = text.rsplit_once('.')?;
        let mut parts = rest.rsplitn(3, ':');
        let device = parts.next()?;
        let bus = parts.next()?;
        let domain = parts.next().unwrap_or("0");
        let hex = |digits| u32::from_str_radix(digits, 16).ok();
        Some(Pci { domain: hex(domain)?, bus: hex(bus)?, device: hex(device)?, function: hex(function)? })
    }
}

/// Bits of a kernel list such as `0-3,8`.
pub fn list_bits(list: &str) -> Option<Vec<u32>> {
    let mut bits = Vec::new();
    for range in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        bits.extend(low.parse::<u32>().ok()?..=high.parse::<u32>().ok()?);
    }
    Some(bits)
}
