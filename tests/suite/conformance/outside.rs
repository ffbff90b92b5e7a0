//! Rows of a single manager's unit tests that are about something the engine has no notion of. Each is
//! known by what the row says, never by its number.

use serde_json::Value;
use std::fmt;

/// Why a row cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outside {
    /// Whole CPUs or memory of a Guaranteed pod, nothing allocated and no error. The kubelet skips pods
    /// with pod-level resources so, but the row does not say that of its pod.
    Skipped,
    /// The container holds other memory than it asks for now. A kubelet's manager keeps what it once
    /// allocated, because a pod's spec did not change in those days; here a changed request is a resize
    /// and is seated anew (`engine::tests::a_restart_gets_what_it_held`).
    HeldOtherwise,
    /// The fixture's cores lie in two sockets at once, which no machine's do.
    TornCores,
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Skipped => {
                "outside: the pod was passed over for a reason the row does not tell (pod-level resources)"
            }
            Self::HeldOtherwise => {
                "outside: what was allocated stays although the request changed; here that is a resize"
            }
            Self::TornCores => "outside: cores of the fixture lie in two sockets at once",
        })
    }
}

/// What the row's container holds before or after.
pub fn held<'a>(row: &'a Value, when: &str) -> &'a Value {
    let (pod, container) = (&row["pod"], &row["container"]);
    let name = |value: &'a Value| value.as_str().unwrap_or_default();
    &row[when]["assignments"][name(pod)][name(container)]
}

/// Whether something was wanted, nothing came of it, and nobody complained.
pub fn skipped(row: &Value, wanted: bool) -> bool {
    wanted && row["error"].is_null() && held(row, "after").is_null()
}
