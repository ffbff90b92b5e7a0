//! What scenarios expect, in words that show what was seen instead.

use crate::cri::Refused;
use crate::list::{self, Set};
use crate::machine::Machine;
use crate::observe::Seen;
use anyhow::{Context, Error, Result};

/// An expectation that was not met, as against a call or a file that failed: only this counts as
/// "fails without maitred".
#[derive(Debug)]
pub struct Unmet(pub String);

impl std::fmt::Display for Unmet {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Unmet {}

/// Whether somewhere below all context an expectation was not met.
pub fn is_unmet(error: &Error) -> bool {
    error.downcast_ref::<Unmet>().is_some()
}

/// As `anyhow::ensure!`, with `Unmet` as the error.
macro_rules! expected {
    ($met:expr, $($text:tt)*) => {
        if !$met {
            return Err($crate::expect::Unmet(format!($($text)*)).into());
        }
    };
}
pub(crate) use expected;

/// The call was refused, and the text the user gets has all these words.
pub fn refused<T>(outcome: Result<T>, words: &[&str]) -> Result<String> {
    let Err(error) = outcome else {
        return Err(Unmet(format!("started, though it was to be refused with {words:?}")).into());
    };
    let refusal = error.downcast_ref::<Refused>().with_context(|| format!("not refused but: {error:#}"))?;
    let text = refusal.message.clone();
    for word in words {
        expected!(text.contains(word), "the refusal does not say {word:?}: {text}");
    }
    Ok(text)
}

/// Pinned to `count` CPUs and the memory of the one node they lie on; returns the node.
pub fn seated(machine: &Machine, seen: &Seen, count: u64) -> Result<u32> {
    let cpus = list::show(&seen.cpus);
    expected!(seen.cpus.len() as u64 == count, "wanted {count} CPUs of its own, has {cpus}");
    expected!(seen.cpus.is_disjoint(&machine.reserved), "sits on reserved CPUs: {cpus}");
    let nodes = machine.nodes_of(&seen.cpus);
    expected!(nodes.len() == 1, "CPUs {cpus} lie on nodes {}", list::show(&nodes));
    expected!(
        seen.mems == nodes,
        "CPUs on node {}, memory from {}",
        list::show(&nodes),
        list::show(&seen.mems)
    );
    Ok(nodes.into_iter().next().unwrap_or_default())
}

/// No CPU in two of these.
pub fn apart(all: &[&Seen]) -> Result<()> {
    let mut taken = Set::new();
    for seen in all {
        let both: Set = &taken & &seen.cpus;
        expected!(
            both.is_empty(),
            "CPUs {} are in {} and in an earlier container",
            list::show(&both),
            seen.cgroup
        );
        taken.extend(&seen.cpus);
    }
    Ok(())
}

pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, wanted: &T, seen: &T) -> Result<()> {
    expected!(wanted == seen, "{what}: wanted {wanted:?}, has {seen:?}");
    Ok(())
}

pub fn cpus(what: &str, wanted: &Set, seen: &Set) -> Result<()> {
    expected!(wanted == seen, "{what}: wanted CPUs {}, has {}", list::show(wanted), list::show(seen));
    Ok(())
}
