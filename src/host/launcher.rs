//! The launcher on this host: a file that a container's runtime can mount into it.

use super::HostError;
use super::error::io;
use nix::sys::statvfs::{FsFlags, statvfs};
use std::fs::Permissions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The program of `src/launcher`, static and a few kilobytes long.
pub const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launcher"));

/// Where a package may put it.
pub const PACKAGED: &str = "/usr/libexec/maitred/launcher";
/// Where it goes unless it can lie in the store: some systems let nothing be run below /run.
pub const FALLBACK_DIR: &str = "/var/lib/maitred";

const NAME: &str = "launcher";

/// Puts the launcher into the first of `dirs` from which a program can be run, unless it lies at `packaged` or there
/// already; its path. A file that differs is replaced whole: containers that run keep the one they were given.
///
/// # Errors
/// Why the last of them would not do.
pub fn install(packaged: &Path, dirs: &[&Path]) -> Result<PathBuf, HostError> {
    if is_it(packaged) {
        return Ok(packaged.to_owned());
    }
    let mut last = Err(io("find", packaged)(ErrorKind::NotFound.into()));
    for dir in dirs {
        last = put(dir);
        if last.is_ok() {
            break;
        }
    }
    last
}

fn is_it(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes == PROGRAM)
}

fn put(dir: &Path) -> Result<PathBuf, HostError> {
    match std::fs::DirBuilder::new().mode(0o755).create(dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists && !dir.is_dir() => {
            return Err(io("make", dir)(error));
        }
        _ => {}
    }
    let mounted = statvfs(dir).map_err(|error| io("look at", dir)(error.into()))?;
    if mounted.flags().contains(FsFlags::ST_NOEXEC) {
        return Err(HostError::NoExec { dir: dir.to_owned() });
    }
    let path = dir.join(NAME);
    if !is_it(&path) {
        replace(dir, &path).map_err(io("write", &path))?;
    }
    Ok(path)
}

fn replace(dir: &Path, path: &Path) -> std::io::Result<()> {
    let mut new = tempfile::NamedTempFile::new_in(dir)?;
    new.write_all(PROGRAM)?;
    new.as_file().set_permissions(Permissions::from_mode(0o555))?;
    new.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn it_is_put_where_it_can_run_and_left_there() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("maitred");
        let path = install(Path::new("/nowhere"), &[Path::new("/proc/nowhere"), &home]).unwrap();
        assert_eq!(path, home.join("launcher"));
        let first = path.metadata().unwrap();
        assert_eq!(first.mode() & 0o7777, 0o555);
        install(Path::new("/nowhere"), &[&home]).unwrap();
        assert_eq!(path.metadata().unwrap().ino(), first.ino());
        // An older version's is replaced.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "older").unwrap();
        install(Path::new("/nowhere"), &[&home]).unwrap();
        assert!(is_it(&path));
    }

    #[test]
    fn the_packages_own_goes_first_if_it_is_this_one() {
        let dir = tempfile::tempdir().unwrap();
        let packaged = dir.path().join("packaged");
        std::fs::write(&packaged, PROGRAM).unwrap();
        assert_eq!(install(&packaged, &[dir.path()]).unwrap(), packaged);
        std::fs::write(&packaged, "another version's").unwrap();
        assert_eq!(install(&packaged, &[dir.path()]).unwrap(), dir.path().join("launcher"));
    }

    #[test]
    fn where_nothing_can_be_run_is_said() {
        let error = install(Path::new("/nowhere"), &[]).unwrap_err().to_string();
        assert!(error.starts_with("cannot find /nowhere"), "{error}");
        let noexec = |dir: &&str| statvfs(*dir).is_ok_and(|found| found.flags().contains(FsFlags::ST_NOEXEC));
        let Some(dir) = ["/dev/shm", "/run", "/sys", "/proc", "/dev/pts"].into_iter().find(|dir| noexec(dir))
        else {
            return eprintln!("skipped: nothing is mounted noexec here");
        };
        let error = install(Path::new("/nowhere"), &[Path::new(dir)]).unwrap_err();
        assert_eq!(error.to_string(), format!("{dir} is mounted noexec: no program can be run from there"));
    }
}
