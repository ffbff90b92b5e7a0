//! The file as it is typed: every key optional, every unknown key an error, every value with its place.

use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// A value that may be absent, with where it stands.
pub(super) type Typed<T> = Option<Spanned<T>>;
/// Words or names.
pub(super) type List = Typed<Vec<Spanned<String>>>;
/// `reserved`: node, then resource, then amount.
pub(super) type Reserved = BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Spanned<String>>>;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    pub version: Typed<i64>,
    pub mode: Typed<String>,
    pub authority: Typed<String>,
    pub policy: Policy,
    pub cpu: Cpu,
    pub memory: Memory,
    pub gpu: Gpu,
    pub nic: Nic,
    pub runtime: Runtime,
    pub annotations: Annotations,
    pub exempt: Exempt,
    pub failure: Failure,
    pub log: Log,
    pub metrics: Metrics,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Policy {
    pub topology: Typed<String>,
    pub scope: Typed<String>,
    pub ineligible: Typed<String>,
    pub unknown_locality: Typed<String>,
    pub prefer_closest_numa_nodes: Typed<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Cpu {
    pub reserved: Typed<String>,
    pub reserved_namespaces: List,
    pub options: List,
    pub drop_cfs_quota: Typed<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Memory {
    pub manager: Typed<String>,
    pub policy: Typed<String>,
    pub delivery: Typed<String>,
    pub prove_hugepages: Typed<bool>,
    pub reserved: Reserved,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Gpu {
    pub placement: Typed<String>,
    pub annotation_pool: Typed<Pool>,
    pub link: Typed<String>,
    pub unrequested: Typed<String>,
    pub driver_root: Typed<String>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected \"none\", \"all\" or a list of GPU UUIDs")]
pub(super) enum Pool {
    Word(String),
    Gpus(Vec<String>),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Nic {
    pub resources: List,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Runtime {
    pub path: Typed<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Annotations {
    pub trusted_namespaces: List,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Exempt {
    pub namespaces: List,
    pub runtime_handlers: List,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Failure {
    pub policy: Typed<String>,
    pub deadline_ms: Typed<i64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Log {
    pub level: Typed<String>,
    pub format: Typed<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Metrics {
    pub listen: Typed<String>,
}
