//! Files that people name on the command line; `-` is standard input.

use super::CliError;
use std::io::Read;
use std::path::Path;

/// Whether that is standard input.
pub(super) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Its name in errors, and the text.
pub(super) fn read(path: &Path) -> Result<(String, String), CliError> {
    let mut text = String::new();
    let (name, result) = match is_standard(path) {
        true => ("standard input".into(), std::io::stdin().read_to_string(&mut text).map(drop)),
        false => (path.display().to_string(), std::fs::read_to_string(path).map(|read| text = read)),
    };
    result.map_err(|source| CliError::Read { path: (&name).into(), source })?;
    Ok((name, text))
}
