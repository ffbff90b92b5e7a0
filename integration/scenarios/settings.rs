//! The configuration maitred runs with, as far as scenarios vary it.

use crate::list;
use crate::machine::Machine;
use crate::options::Lane;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub mode: &'static str,
    pub topology: &'static str,
    /// What becomes of devices and hugepages without exclusive CPUs.
    pub ineligible: &'static str,
    /// Who picks the CPUs: maitred or the kubelet.
    pub authority: &'static str,
    pub gpus: Gpus,
    /// `panic:create`, `delay:create:MS`: offered by debug builds of maitred only.
    pub fault: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpus {
    /// What becomes of the GPUs a device plugin chose.
    pub placement: &'static str,
    /// Whose GPUs are maitred's to give to pods that ask by annotation: `all`, or none.
    pub pool: &'static str,
    /// What becomes of `NVIDIA_VISIBLE_DEVICES=all` where no GPU was asked for.
    pub unrequested: &'static str,
}

/// Whose pods may ask for looser treatment than the node's.
pub const TRUSTED: &str = "trusted";

impl Settings {
    pub const ENFORCE: Settings = Settings {
        mode: "enforce",
        topology: "single-numa-node",
        ineligible: "warn",
        authority: "maitred",
        gpus: Gpus { placement: "keep", pool: "all", unrequested: "leave" },
        fault: None,
    };
    pub const AUDIT: Settings = Settings { mode: "audit", ..Settings::ENFORCE };

    pub const fn fault(fault: &'static str) -> Settings {
        Settings { fault: Some(fault), ..Settings::ENFORCE }
    }

    pub const fn ineligible(ineligible: &'static str) -> Settings {
        Settings { ineligible, ..Settings::ENFORCE }
    }

    /// A node whose GPUs are a device plugin's, with this said about its choice.
    pub const fn plugin_gpus(placement: &'static str) -> Settings {
        Settings { gpus: Gpus { placement, pool: "none", unrequested: "leave" }, ..Settings::ENFORCE }
    }

    pub const fn authority(authority: &'static str) -> Settings {
        Settings { authority, ..Settings::plugin_gpus("keep") }
    }

    pub fn toml(&self, machine: &Machine, lane: Lane) -> String {
        format!(
            r#"version = 1
mode = "{mode}"
authority = "{authority}"
[policy]
topology = "{topology}"
ineligible = "{ineligible}"
[cpu]
reserved = "{reserved}"
[gpu]
placement = "{placement}"
annotation_pool = "{pool}"
unrequested = "{unrequested}"
[annotations]
trusted_namespaces = ["{TRUSTED}"]
[failure]
deadline_ms = {deadline}
"#,
            deadline = lane.deadline_ms(),
            mode = self.mode,
            authority = self.authority,
            placement = self.gpus.placement,
            pool = self.gpus.pool,
            unrequested = self.gpus.unrequested,
            topology = self.topology,
            ineligible = self.ineligible,
            reserved = list::show(&machine.reserved),
        )
    }
}
