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
    /// `panic:create`, `delay:create:MS`: offered by debug builds of maitred only.
    pub fault: Option<&'static str>,
}

/// Whose pods may ask for looser treatment than the node's.
pub const TRUSTED: &str = "trusted";

impl Settings {
    pub const ENFORCE: Settings =
        Settings { mode: "enforce", topology: "single-numa-node", ineligible: "warn", fault: None };
    pub const AUDIT: Settings = Settings { mode: "audit", ..Settings::ENFORCE };

    pub const fn fault(fault: &'static str) -> Settings {
        Settings { fault: Some(fault), ..Settings::ENFORCE }
    }

    pub const fn ineligible(ineligible: &'static str) -> Settings {
        Settings { ineligible, ..Settings::ENFORCE }
    }

    pub fn toml(&self, machine: &Machine, lane: Lane) -> String {
        format!(
            r#"version = 1
mode = "{mode}"
authority = "maitred"
[policy]
topology = "{topology}"
ineligible = "{ineligible}"
[cpu]
reserved = "{reserved}"
[gpu]
annotation_pool = "all"
[annotations]
trusted_namespaces = ["{TRUSTED}"]
[failure]
deadline_ms = {deadline}
"#,
            deadline = lane.deadline_ms(),
            mode = self.mode,
            topology = self.topology,
            ineligible = self.ineligible,
            reserved = list::show(&machine.reserved),
        )
    }
}
