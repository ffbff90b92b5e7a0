//! What the suite's tests ask the engine for, in a few words.

use maitred::model::*;

pub const GIB: u64 = 1 << 30;

/// The daemon's defaults but for these.
pub fn policy(topology: TopologyPolicy, scope: Scope, options: &[CpuOption]) -> Policy {
    Policy {
        topology,
        scope,
        cpu: CpuOptions(options.iter().copied().collect()),
        prefer_closest: false,
        memory: MemoryManager::Static,
        unknown_locality: UnknownLocality::Reject,
    }
}

/// A Guaranteed container of whole CPUs.
pub fn container(name: &str, kind: ContainerKind, cpus: u64, gib: u64) -> ContainerRequest {
    let nothing = ContainerRequest::nothing(name.into(), kind, Qos::Guaranteed);
    ContainerRequest { cpu_milli: cpus * 1000, memory: Bytes(gib * GIB), ..nothing }
}
