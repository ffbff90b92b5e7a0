//! The configuration file: `raw` and strict as typed, checked by `check`, used as [`Config`].
//!
//! `packaging/config.toml` documents every key; a test keeps it complete and true.

mod check;
mod error;
mod field;
mod glob;
mod raw;
mod reserved;
mod set;

pub use error::{ConfigError, Place};
pub use glob::Glob;

use crate::decision::{
    AnnotationPool, CpuAuthority, Delivery, Exempt, FailurePolicy, Features, GpuPlacement, Ineligible, Mode,
    Settings, Unrequested,
};
use crate::engine::Reserve;
use crate::model::{
    Bytes, CpuOptions, CpuSet, MemoryKind, MemoryManager, MemoryMode, NodeId, Policy, ResourceName, Scope,
    TopologyPolicy, UnknownLocality,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the configuration lies unless said otherwise.
pub const DEFAULT_PATH: &str = "/etc/maitred/config.toml";

/// The configuration, validated and with every default filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Whether decisions are carried out.
    pub mode: Mode,
    /// Who picks exclusive CPUs.
    pub authority: Authority,
    /// `[policy]`, `[cpu] options` and `[memory] manager`: what the engine decides by.
    pub policy: Policy,
    /// What becomes of a container with devices but no exclusive CPUs.
    pub ineligible: Ineligible,
    /// `[cpu]`.
    pub cpu: CpuConfig,
    /// `[memory]`.
    pub memory: MemoryConfig,
    /// `[gpu]`.
    pub gpu: GpuConfig,
    /// Which resources of a pod spec are RDMA NICs.
    pub nic_resources: Vec<Glob>,
    /// The runtime the wrapper stands in front of; `None` is the first that is found.
    pub runtime: Option<PathBuf>,
    /// Namespaces whose annotations may also ask for more lenient treatment.
    pub trusted_namespaces: BTreeSet<String>,
    /// Who is never refused.
    pub exempt: Exempt,
    /// `[failure]`.
    pub failure: FailureConfig,
    /// `[log]`.
    pub log: LogConfig,
    /// Where metrics are served; `None` is nowhere.
    pub metrics: Option<SocketAddr>,
}

/// Who picks exclusive CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// The kubelet, where its CPU Manager policy is static; else maitred.
    Auto,
    /// maitred does.
    Maitred,
    /// The kubelet's static CPU Manager does.
    Kubelet,
}

/// `[cpu]`, without what is part of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuConfig {
    /// CPUs kept for the system; `None` is to be derived from the machine.
    pub reserved: Option<CpuSet>,
    /// Namespaces whose containers are put on the reserved CPUs.
    pub reserved_namespaces: BTreeSet<String>,
    /// Drop the CFS quota of containers with exclusive CPUs.
    pub drop_cfs_quota: bool,
}

/// `[memory]`, without what is part of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryConfig {
    /// The memory policy of placed containers; `None` leaves the kernel's default.
    pub mode: Option<MemoryMode>,
    /// How the memory policy reaches a container; `None` is the best that can be done. `cpuset.mems` is set in any
    /// case.
    pub delivery: Option<Delivery>,
    /// Whether the launcher is to map the promised huge pages before the command starts.
    pub prove_hugepages: bool,
    /// What each node keeps for the system.
    pub reserved: BTreeMap<(NodeId, MemoryKind), Bytes>,
}

/// `[gpu]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuConfig {
    /// What becomes of the GPUs a device plugin assigned.
    pub placement: GpuPlacement,
    /// The GPUs of a container must be connected by NVLink.
    pub linked: bool,
    /// What becomes of GPUs that a container sees without having asked for them.
    pub unrequested: Unrequested,
    /// The GPUs that annotations may ask for.
    pub annotation_pool: AnnotationPool,
    /// The root the driver's files lie under.
    pub driver_root: PathBuf,
}

/// `[failure]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureConfig {
    /// What becomes of a container about which nothing could be decided.
    pub policy: FailurePolicy,
    /// By when an answer is given.
    pub deadline: Duration,
}

/// `[log]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogConfig {
    /// The most detailed level written.
    pub level: LogLevel,
    /// What a line looks like.
    pub format: LogFormat,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The words are the field's own.
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// What a line of the log looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, else JSON.
    Auto,
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: Mode::Enforce,
            authority: Authority::Auto,
            policy: Policy {
                topology: TopologyPolicy::SingleNumaNode,
                scope: Scope::Pod,
                cpu: CpuOptions::default(),
                prefer_closest: false,
                memory: MemoryManager::Static,
                unknown_locality: UnknownLocality::Reject,
            },
            ineligible: Ineligible::Warn,
            cpu: CpuConfig { reserved: None, reserved_namespaces: BTreeSet::new(), drop_cfs_quota: true },
            memory: MemoryConfig {
                mode: Some(MemoryMode::Bind),
                delivery: None,
                prove_hugepages: false,
                reserved: BTreeMap::new(),
            },
            gpu: GpuConfig {
                placement: GpuPlacement::Keep,
                linked: false,
                unrequested: Unrequested::Leave,
                annotation_pool: AnnotationPool::None,
                driver_root: PathBuf::from("/"),
            },
            nic_resources: ["rdma/*", "nvidia.com/*nic*", "*/*rdma*"].map(Glob::from).to_vec(),
            runtime: None,
            trusted_namespaces: BTreeSet::new(),
            exempt: Exempt {
                namespaces: EXEMPT_NAMESPACES.map(String::from).into(),
                runtime_handlers: BTreeSet::new(),
            },
            failure: FailureConfig { policy: FailurePolicy::Reject, deadline: Duration::from_millis(1000) },
            log: LogConfig { level: LogLevel::Info, format: LogFormat::Auto },
            metrics: Some(METRICS),
        }
    }
}

/// Loopback, and a port that no other exporter is known to take.
const METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9733);

/// Control plane, device plugins and CNI of an RKE2 node.
const EXEMPT_NAMESPACES: [&str; 5] =
    ["kube-system", "gpu-operator", "calico-system", "tigera-operator", "cattle-system"];

impl Config {
    /// Reads `path`, or [`DEFAULT_PATH`], which may be absent: then everything is at its default.
    ///
    /// # Errors
    /// The file cannot be read (also: one named explicitly is absent), or [`Config::parse`] refuses it.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let file = path.unwrap_or(Path::new(DEFAULT_PATH));
        match std::fs::read_to_string(file) {
            Ok(text) => Self::parse(&text, &file.display().to_string()),
            Err(error) if path.is_none() && error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ConfigError::Read { path: file.to_owned(), source }),
        }
    }

    /// `[runtime] path` alone, whatever is wrong with the rest: a container must be killed and deleted by the runtime
    /// that made it, also with a configuration nobody can use.
    #[must_use]
    pub fn runtime_path(text: &str) -> Option<PathBuf> {
        // Most files say nothing of it, and need not be parsed.
        if !text.contains("[runtime]") && !text.contains("runtime.path") {
            return None;
        }
        let table: toml::Table = text.parse().ok()?;
        table.get("runtime")?.get("path")?.as_str().filter(|path| *path != "auto").map(PathBuf::from)
    }

    /// The same with some keys set to other values, `policy.topology=restricted` or `memory.reserved.1.memory="8Gi"`:
    /// what would be, under another configuration.
    ///
    /// # Errors
    /// As for [`Config::load`], or what is set is no key and value, or not one of the configuration.
    pub fn load_with(path: Option<&Path>, sets: &[String]) -> Result<Self, ConfigError> {
        let config = Self::load(path)?;
        if sets.is_empty() {
            return Ok(config);
        }
        let file = path.unwrap_or(Path::new(DEFAULT_PATH));
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if path.is_none() && error.kind() == ErrorKind::NotFound => "version = 1".into(),
            Err(source) => return Err(ConfigError::Read { path: file.to_owned(), source }),
        };
        set::set(&text, sets)
    }

    /// Reads the text of a file; `origin` is its name in errors.
    ///
    /// # Errors
    /// Anything unknown, malformed, contradictory or not supported by this version.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ConfigError> {
        check::check(text, origin)
    }

    /// What governs the reducer where maitred picks the CPUs unless told otherwise, with the reserved CPUs as
    /// resolved against the machine and what the runtime can do. Where the launcher lies is filled in by whoever has
    /// put it there.
    #[must_use]
    pub fn settings(&self, reserved: CpuSet, features: Features) -> Settings {
        Settings {
            mode: self.mode,
            authority: match self.authority {
                Authority::Kubelet => CpuAuthority::Kubelet,
                Authority::Auto | Authority::Maitred => CpuAuthority::Maitred,
            },
            policy: self.policy.clone(),
            ineligible: self.ineligible,
            failure: self.failure.policy,
            drop_cfs_quota: self.cpu.drop_cfs_quota,
            reserved_namespaces: self.cpu.reserved_namespaces.clone(),
            reserved,
            memory_policy: self.memory.mode,
            delivery: self.memory.delivery,
            launcher: None,
            prove_hugepages: self.memory.prove_hugepages,
            annotation_pool: self.gpu.annotation_pool.clone(),
            gpu_placement: self.gpu.placement,
            gpus_linked: self.gpu.linked,
            unrequested: self.gpu.unrequested,
            trusted_namespaces: self.trusted_namespaces.clone(),
            exempt: self.exempt.clone(),
            features,
        }
    }

    /// What is kept for the system: CPUs, if the owner named them, and memory by node.
    #[must_use]
    pub fn reserve(&self) -> Reserve {
        Reserve { cpus: self.cpu.reserved.clone(), memory: self.memory.reserved.clone() }
    }

    /// Whether a resource of a pod spec is an RDMA NIC.
    #[must_use]
    pub fn is_nic(&self, resource: &ResourceName) -> bool {
        self.nic_resources.iter().any(|pattern| pattern.matches(resource.as_str()))
    }
}
