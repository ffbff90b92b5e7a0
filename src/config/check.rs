//! From the file as typed to a configuration: words, ranges, exclusions, and what is not built yet.

use super::field::{Checked, Field, File, Words, names};
use super::raw::{self, Raw};
use super::{
    Authority, Config, ConfigError, CpuConfig, FailureConfig, Glob, GpuConfig, LogConfig, LogFormat,
    LogLevel, MemoryConfig,
};
use crate::decision::{
    AnnotationPool, Delivery, Exempt, FailurePolicy, GpuPlacement, Ineligible, Mode, Unrequested,
};
use crate::model::{
    CpuOption, CpuOptions, CpuSet, DeviceId, MemoryMode, Policy, TopologyPolicy, UnknownLocality,
};
use crate::model::{MemoryManager, Scope};
use std::net::SocketAddr;
use std::time::Duration;

const MODES: &Words<Mode> = &[("enforce", Mode::Enforce), ("audit", Mode::Audit)];
const AUTHORITIES: &Words<Authority> =
    &[("auto", Authority::Auto), ("maitred", Authority::Maitred), ("kubelet", Authority::Kubelet)];
const PLACEMENTS: &Words<GpuPlacement> =
    &[("keep", GpuPlacement::Keep), ("repair", GpuPlacement::Repair), ("choose", GpuPlacement::Choose)];
const LINKS: &Words<bool> = &[("any", false), ("nvlink", true)];
const UNREQUESTED: &Words<Unrequested> = &[("leave", Unrequested::Leave), ("hide", Unrequested::Hide)];
const LOCALITIES: &Words<Option<UnknownLocality>> =
    &[("auto", None), ("reject", Some(UnknownLocality::Reject)), ("ignore", Some(UnknownLocality::Ignore))];
const INELIGIBLE: &Words<Ineligible> =
    &[("warn", Ineligible::Warn), ("align", Ineligible::Align), ("reject", Ineligible::Reject)];
const MEMORY_MODES: &Words<Option<MemoryMode>> = &[
    ("bind", Some(MemoryMode::Bind)),
    ("preferred", Some(MemoryMode::Preferred)),
    ("preferred-many", Some(MemoryMode::PreferredMany)),
    ("interleave", Some(MemoryMode::Interleave)),
    ("weighted-interleave", Some(MemoryMode::WeightedInterleave)),
    ("local", Some(MemoryMode::Local)),
    (MemoryMode::NONE, None),
];
const DELIVERIES: &Words<Option<Delivery>> = &[
    ("auto", None),
    ("native", Some(Delivery::Native)),
    ("inherited", Some(Delivery::Inherited)),
    ("launcher", Some(Delivery::Launcher)),
    ("cpuset", Some(Delivery::Cpuset)),
];
const FAILURES: &Words<FailurePolicy> = &[("reject", FailurePolicy::Reject), ("admit", FailurePolicy::Admit)];
const LEVELS: &Words<LogLevel> = &[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];
const FORMATS: &Words<LogFormat> =
    &[("auto", LogFormat::Auto), ("json", LogFormat::Json), ("text", LogFormat::Text)];

/// In milliseconds: no decision is surely made sooner, and no runtime waits longer.
const DEADLINES: std::ops::RangeInclusive<i64> = 10..=60_000;

/// The text of a file, checked; `origin` is its name.
pub(super) fn check(text: &str, origin: &str) -> Checked<Config> {
    checked(File { text, origin, edited: false })
}

/// A file, checked.
pub(super) fn checked(file: File<'_>) -> Checked<Config> {
    let text = file.text;
    let raw: Raw = toml::from_str(text).map_err(|error| file.syntax(error))?;
    version(file, &raw)?;
    let default = Config::default();
    let config = Config {
        mode: file.at("mode", &raw.mode).word(MODES, default.mode)?,
        authority: file.at("authority", &raw.authority).word(AUTHORITIES, default.authority)?,
        policy: policy(file, &raw, default.policy)?,
        ineligible: file
            .at("policy.ineligible", &raw.policy.ineligible)
            .word(INELIGIBLE, default.ineligible)?,
        cpu: cpu(file, &raw.cpu, default.cpu)?,
        memory: memory(file, &raw.memory, default.memory)?,
        gpu: gpu(file, &raw.gpu, default.gpu)?,
        nic_resources: nic(file, &raw.nic, default.nic_resources)?,
        runtime: file.at("runtime.path", &raw.runtime.path).program(default.runtime)?,
        trusted_namespaces: names(
            file,
            "annotations.trusted_namespaces",
            &raw.annotations.trusted_namespaces,
            default.trusted_namespaces,
        )?,
        exempt: exempt(file, &raw.exempt, default.exempt)?,
        failure: failure(file, &raw.failure, default.failure)?,
        log: log(file, &raw.log, default.log)?,
        metrics: metrics(file, &raw.metrics, default.metrics)?,
    };
    Ok(config)
}

fn version(file: File<'_>, raw: &Raw) -> Checked<()> {
    let version = file.at("version", &raw.version);
    match version.get() {
        Some(1) => Ok(()),
        Some(_) => Err(version.wrong("1, the only version of this file there is")),
        None => Err(ConfigError::Version { origin: file.origin.to_owned() }),
    }
}

fn policy(file: File<'_>, raw: &Raw, default: Policy) -> Checked<Policy> {
    let typed = &raw.policy;
    let topology = file.at("policy.topology", &typed.topology).word(TopologyPolicy::ALL, default.topology)?;
    let strict = topology == TopologyPolicy::SingleNumaNode;
    let unset = if strict { UnknownLocality::Reject } else { UnknownLocality::Ignore };
    let unknown = file.at("policy.unknown_locality", &typed.unknown_locality).word(LOCALITIES, None)?;
    Ok(Policy {
        topology,
        scope: file.at("policy.scope", &typed.scope).word(Scope::ALL, default.scope)?,
        cpu: cpu_options(file, &raw.cpu, topology)?,
        prefer_closest: file
            .at("policy.prefer_closest_numa_nodes", &typed.prefer_closest_numa_nodes)
            .get()
            .copied()
            .unwrap_or(default.prefer_closest),
        memory: file.at("memory.manager", &raw.memory.manager).word(MemoryManager::ALL, default.memory)?,
        unknown_locality: unknown.unwrap_or(unset),
    })
}

fn cpu_options(file: File<'_>, typed: &raw::Cpu, topology: TopologyPolicy) -> Checked<CpuOptions> {
    let words: Vec<_> = CpuOption::ALL.iter().map(|(word, option)| (*word, Some(*option))).collect();
    let mut options = CpuOptions::default();
    for item in typed.options.iter().flat_map(|list| list.get_ref()) {
        let field = file.is("cpu.options", item);
        let Some(option) = field.word(&words, None)? else { continue };
        exclusions(&field, &options, option, topology)?;
        options.0.insert(option);
    }
    Ok(options)
}

/// What the kubelet, too, refuses to start with.
fn exclusions(
    field: &Field<'_, String>,
    before: &CpuOptions,
    new: CpuOption,
    topology: TopologyPolicy,
) -> Checked<()> {
    if new == CpuOption::AlignBySocket && topology == TopologyPolicy::SingleNumaNode {
        return Err(field.exclusive(new, format!("policy.topology = \"{topology}\"")));
    }
    before.rival(new).map_or(Ok(()), |other| Err(field.exclusive(new, other)))
}

fn cpu(file: File<'_>, typed: &raw::Cpu, default: CpuConfig) -> Checked<CpuConfig> {
    let reserved = file.at("cpu.reserved", &typed.reserved);
    let cpus = match reserved.get().map(String::as_str) {
        None | Some("auto") => None,
        Some(list) => Some(list.parse::<CpuSet>().map_err(|error| reserved.wrong(cpu_list(&error)))?),
    };
    if cpus.as_ref().is_some_and(CpuSet::is_empty) {
        return Err(reserved.wrong("at least one CPU, or \"auto\""));
    }
    let namespaces = &typed.reserved_namespaces;
    Ok(CpuConfig {
        reserved: cpus,
        reserved_namespaces: names(file, "cpu.reserved_namespaces", namespaces, default.reserved_namespaces)?,
        drop_cfs_quota: file
            .at("cpu.drop_cfs_quota", &typed.drop_cfs_quota)
            .get()
            .copied()
            .unwrap_or(default.drop_cfs_quota),
    })
}

fn cpu_list(error: &crate::model::ListError) -> String {
    format!("a CPU list such as \"0-1,64-65\", or \"auto\" ({error})")
}

fn memory(file: File<'_>, typed: &raw::Memory, default: MemoryConfig) -> Checked<MemoryConfig> {
    let prove = file.at("memory.prove_hugepages", &typed.prove_hugepages);
    Ok(MemoryConfig {
        mode: file.at("memory.policy", &typed.policy).word(MEMORY_MODES, default.mode)?,
        delivery: file.at("memory.delivery", &typed.delivery).word(DELIVERIES, default.delivery)?,
        prove_hugepages: prove.get().copied().unwrap_or(default.prove_hugepages),
        reserved: super::reserved::reserved(file, &typed.reserved)?,
    })
}

fn gpu(file: File<'_>, typed: &raw::Gpu, default: GpuConfig) -> Checked<GpuConfig> {
    Ok(GpuConfig {
        placement: file.at("gpu.placement", &typed.placement).word(PLACEMENTS, default.placement)?,
        linked: file.at("gpu.link", &typed.link).word(LINKS, default.linked)?,
        unrequested: file.at("gpu.unrequested", &typed.unrequested).word(UNREQUESTED, default.unrequested)?,
        annotation_pool: pool(&file.at("gpu.annotation_pool", &typed.annotation_pool))?
            .unwrap_or(default.annotation_pool),
        driver_root: file.at("gpu.driver_root", &typed.driver_root).path(default.driver_root)?,
    })
}

fn pool(field: &Field<'_, raw::Pool>) -> Checked<Option<AnnotationPool>> {
    let expected = || field.wrong("\"none\", \"all\" or a list of UUIDs such as [\"GPU-…\"]");
    match field.get() {
        None => Ok(None),
        Some(raw::Pool::Word(word)) => match word.as_str() {
            "none" => Ok(Some(AnnotationPool::None)),
            "all" => Ok(Some(AnnotationPool::All)),
            _ => Err(expected()),
        },
        Some(raw::Pool::Gpus(gpus)) => match gpus.iter().all(|gpu| gpu.starts_with("GPU-")) {
            true => Ok(Some(AnnotationPool::Only(gpus.iter().map(DeviceId::new).collect()))),
            false => Err(expected()),
        },
    }
}

fn nic(file: File<'_>, typed: &raw::Nic, default: Vec<Glob>) -> Checked<Vec<Glob>> {
    let Some(list) = &typed.resources else { return Ok(default) };
    let patterns: Vec<String> = names(file, "nic.resources", &typed.resources, Vec::new())?;
    for (item, pattern) in list.get_ref().iter().zip(&patterns) {
        if !pattern.contains('/') {
            return Err(file
                .is("nic.resources", item)
                .wrong("a resource with its domain, such as \"rdma/*\""));
        }
    }
    Ok(patterns.iter().map(|pattern| Glob::from(pattern.as_str())).collect())
}

fn exempt(file: File<'_>, typed: &raw::Exempt, default: Exempt) -> Checked<Exempt> {
    let handlers = &typed.runtime_handlers;
    Ok(Exempt {
        namespaces: names(file, "exempt.namespaces", &typed.namespaces, default.namespaces)?,
        runtime_handlers: names(file, "exempt.runtime_handlers", handlers, default.runtime_handlers)?,
    })
}

fn failure(file: File<'_>, typed: &raw::Failure, default: FailureConfig) -> Checked<FailureConfig> {
    let deadline = file.at("failure.deadline_ms", &typed.deadline_ms);
    let millis = match deadline.get() {
        Some(millis) if !DEADLINES.contains(millis) => {
            let (least, most) = DEADLINES.into_inner();
            return Err(deadline.wrong(format!("milliseconds from {least} to {most}")));
        }
        millis => millis.and_then(|millis| u64::try_from(*millis).ok()),
    };
    Ok(FailureConfig {
        policy: file.at("failure.policy", &typed.policy).word(FAILURES, default.policy)?,
        deadline: millis.map_or(default.deadline, Duration::from_millis),
    })
}

fn log(file: File<'_>, typed: &raw::Log, default: LogConfig) -> Checked<LogConfig> {
    Ok(LogConfig {
        level: file.at("log.level", &typed.level).word(LEVELS, default.level)?,
        format: file.at("log.format", &typed.format).word(FORMATS, default.format)?,
    })
}

fn metrics(file: File<'_>, typed: &raw::Metrics, default: Option<SocketAddr>) -> Checked<Option<SocketAddr>> {
    let listen = file.at("metrics.listen", &typed.listen);
    match listen.get().map(String::as_str) {
        None => Ok(default),
        Some("off") => Ok(None),
        Some(text) => {
            let address = text.parse();
            address
                .map(Some)
                .map_err(|_| listen.wrong("an address with a port, such as \"127.0.0.1:9733\", or \"off\""))
        }
    }
}
