//! The executables in containerd's NRI plugin directory.

use super::{DiscoverError, Root};
use std::os::unix::fs::PermissionsExt;

/// Something in the plugin directory that containerd takes for a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFile {
    /// Its name there.
    pub name: String,
    /// Whether it leads to an executable file; a link may lead nowhere.
    pub runs: bool,
}

impl PluginFile {
    /// Index and name, where it is called as a plugin must be: `NN-NAME`.
    #[must_use]
    pub fn parts(&self) -> Option<(&str, &str)> {
        let (index, name) = self.name.split_once('-')?;
        let is_index = index.len() == 2 && index.bytes().all(|byte| byte.is_ascii_digit());
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte);
        (is_index && !name.is_empty() && name.bytes().all(allowed)).then_some((index, name))
    }
}

/// What containerd would start, by name; `None` where there is no such directory. Directories and files that nobody
/// may execute are passed over, as it does; a link counts wherever it leads.
///
/// # Errors
/// The directory cannot be read.
pub fn nri_plugins(root: &Root, dir: &str) -> Result<Option<Vec<PluginFile>>, DiscoverError> {
    let Some(names) = root.names(dir)? else { return Ok(None) };
    let place = root.place(dir)?.unwrap_or_else(|| root.full(dir));
    let mut plugins = Vec::new();
    for name in names {
        let Ok(about) = place.join(&name).symlink_metadata() else { continue };
        let executes = |about: &std::fs::Metadata| about.is_file() && about.permissions().mode() & 0o111 != 0;
        if about.is_symlink() {
            let target = root.place(&format!("{dir}/{name}"))?;
            let runs = target.and_then(|target| target.metadata().ok()).is_some_and(|about| executes(&about));
            plugins.push(PluginFile { name, runs });
        } else if executes(&about) {
            plugins.push(PluginFile { name, runs: true });
        }
    }
    Ok(Some(plugins))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_containerd_takes_for_a_plugin() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::gathered(dir.path()).unwrap();
        assert_eq!(nri_plugins(&root, "opt").unwrap(), None);
        fs::create_dir_all(dir.path().join("opt/90-directory")).unwrap();
        for (name, mode) in [("10-one", 0o755), ("README", 0o644), ("helper.sh", 0o700)] {
            let path = dir.path().join("opt").join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("/usr/bin/maitred", dir.path().join("opt/90-maitred")).unwrap();
        let found = nri_plugins(&root, "opt").unwrap().unwrap();
        let seen: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.runs, one.parts())).collect();
        let expected = [
            ("10-one", true, Some(("10", "one"))),
            ("90-maitred", false, Some(("90", "maitred"))),
            ("helper.sh", true, None),
        ];
        assert_eq!(seen, expected);
    }
}
