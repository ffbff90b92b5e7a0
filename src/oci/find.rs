//! Which runtime the wrapper stands in front of: the one that is configured, else the first found on PATH.

use std::env;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The runtimes that are looked for, in this order.
const KNOWN: [&str; 3] = ["runc", "crun", "youki"];

/// Where commands are looked for when nobody says so: a pre-launched process may have no PATH.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The configured runtime by name or path, else the first of those known; `None` is none. Never this program: it
/// would call itself for ever.
pub(super) fn runtime(configured: Option<&Path>) -> Option<PathBuf> {
    match configured {
        Some(path) if path.is_absolute() => Some(path.to_owned()),
        Some(name) => on_path(name),
        None => KNOWN.iter().find_map(|name| on_path(Path::new(name))),
    }
}

fn on_path(name: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    let own = env::current_exe().and_then(std::fs::metadata).ok();
    env::split_paths(&path).map(|directory| directory.join(name)).find(|candidate| {
        let Ok(found) = candidate.metadata() else { return false };
        let own = own.as_ref().is_some_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()));
        found.is_file() && found.permissions().mode() & 0o111 != 0 && !own
    })
}
