//! containerd's configuration by its versions: tables that are passed over, and devices that CDI hands over.

use super::Check;
use super::facts::Facts;
use super::finding::Finding;
use crate::discover::containerd::{CRI, PassedOver};
use crate::discover::{Place, Said};

pub(super) const CHECKS: &[Check] = &[tables, cdi];

/// Where CDI specs lie unless containerd is told otherwise.
const SPECS: [&str; 3] = ["etc/cdi", "var/run/cdi", "run/cdi"];

/// Snippets for version 3 in a file of version 2, and the other way round.
fn tables(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "containerd.tables";
    let passed_over = facts.containerd.passed_over.iter().map(|PassedOver { table, belongs, version, place }| {
        let title = "containerd passes over a table of its configuration, which is another version's: what stands in it \
                     does not count";
        let finding = Finding::warning(CHECK, title).seen(place, format!("[plugins.{table:?}]"));
        finding.seen_in(&place.file, format!("version = {version}")).fix(format!(
            "in {}: [plugins.{belongs:?}] in its place, then restart containerd",
            place.file
        ))
    });
    passed_over.collect()
}

/// Before 2.0 it is off, and then neither an annotation nor the CRI's field brings a device.
fn cdi(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "containerd.cdi";
    let has_some = |dir: &str| matches!(facts.root.names(dir), Ok(Some(names)) if !names.is_empty());
    let Some(dir) = SPECS.into_iter().find(|dir| has_some(dir)) else { return Vec::new() };
    let told = facts.containerd.truth(CRI, &["enable_cdi"]);
    let (on, place) = match (told, facts.containerd_is(2, 0)) {
        (Some(Said { value, place }), _) => (value, place),
        (None, Some(on)) => (on, Place::words("containerd's default")),
        (None, None) => return vec![Finding::not_checked(CHECK, "CDI: containerd's version is not known")],
    };
    if on {
        return vec![
            Finding::ok(CHECK, "containerd hands over CDI devices").seen(&place, "enable_cdi = true"),
        ];
    }
    let title = "containerd hands over no CDI devices: a GPU or NIC that comes by an annotation or the CRI's field reaches no \
                 container, which is placed beside it all the same";
    let lines = format!("  {}\n    enable_cdi = true", facts.cri_table());
    vec![
        Finding::note(CHECK, title)
            .seen(&place, "enable_cdi = false")
            .seen_in(dir, "CDI specs")
            .fix(facts.tell_containerd(&lines)),
    ]
}
