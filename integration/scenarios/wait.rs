//! Waiting for a condition, never for a time: under emulation everything takes as long as it takes.

use crate::expect::Unmet;
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

const BETWEEN_LOOKS: Duration = Duration::from_millis(25);

/// Looks until `condition` holds; its last error, if any, explains why it never did.
pub fn until(limit: Duration, what: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let begin = Instant::now();
    loop {
        let look = condition();
        if matches!(look, Ok(true)) {
            return Ok(());
        }
        if begin.elapsed() > limit {
            look.with_context(|| format!("waited {limit:?} for: {what}"))?;
            return Err(Unmet(format!("waited {limit:?} in vain for: {what}")).into());
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// `until`, given up at once when what it waits for has died.
pub fn until_alive(
    limit: Duration,
    what: &str,
    mut alive: impl FnMut() -> Result<()>,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let mut dead = None;
    until(limit, what, || {
        dead = alive().err();
        Ok(dead.is_some() || condition()?)
    })?;
    dead.map_or(Ok(()), |error| Err(error.context(format!("waiting for: {what}"))))
}

/// `until` for a condition that says in words what it still sees.
pub fn until_seen(
    limit: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<Option<String>>,
) -> Result<()> {
    let mut still = String::new();
    let waited = until(limit, what, || {
        still = look()?.unwrap_or_default();
        Ok(still.is_empty())
    });
    waited.with_context(|| if still.is_empty() { what.to_owned() } else { format!("last seen: {still}") })
}
