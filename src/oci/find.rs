//! Which runtime the wrapper stands in front of: the one that is configured, else the first found on PATH.

use super::OciError;
use std::env;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The runtimes that are looked for, in this order.
const KNOWN: [&str; 3] = ["runc", "crun", "youki"];

/// Where commands are looked for when nobody says so: a pre-launched process may have no PATH.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The configured runtime by name or path, else the first of those known. Never this program: it would call itself
/// for ever.
///
/// # Errors
/// There is none, or it is this program.
pub(super) fn runtime(configured: Option<&Path>) -> Result<PathBuf, OciError> {
    match configured {
        Some(path) if path.is_absolute() => match path.metadata().is_ok_and(|found| is_own(&found)) {
            true => Err(OciError::Itself { path: path.to_owned() }),
            false => Ok(path.to_owned()),
        },
        Some(name) => on_path(name).ok_or(OciError::NoRuntime),
        None => KNOWN.iter().find_map(|name| on_path(Path::new(name))).ok_or(OciError::NoRuntime),
    }
}

fn is_own(found: &Metadata) -> bool {
    let own = env::current_exe().and_then(std::fs::metadata);
    own.is_ok_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()))
}

fn on_path(name: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    env::split_paths(&path).map(|directory| directory.join(name)).find(|candidate| {
        let Ok(found) = candidate.metadata() else { return false };
        found.is_file() && found.permissions().mode() & 0o111 != 0 && !is_own(&found)
    })
}
