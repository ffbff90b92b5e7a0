//! Whether what was started still lives: processes by number and start, cgroups by what runs in them.

use super::cgroups::absent;
use super::error::{io, read};
use super::{Cgroups, HostError};
use std::path::Path;

/// When a process started, in clock ticks since the boot (`/proc/PID/stat`, field 22); `None` is no such process, or one
/// that has ended and that its parent has not asked about yet.
#[must_use]
pub fn start_time(root: &Path, pid: u32) -> Option<u64> {
    let stat = read(&root.join(format!("proc/{pid}/stat"))).ok()??;
    // The name stands in parentheses and may hold any character, these too.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let lives = fields.next().is_some_and(|state| !matches!(state, "Z" | "X" | "x"));
    fields.nth(18).filter(|_| lives)?.parse().ok()
}

/// In `/proc` every architecture counts time so (`USER_HZ`).
pub const TICKS_A_SECOND: u64 = 100;

/// The time since the boot, in the ticks of [`start_time`]; `None` where it cannot be read.
#[must_use]
pub fn now(root: &Path) -> Option<u64> {
    let uptime = read(&root.join("proc/uptime")).ok()??;
    let (seconds, hundredths) = uptime.split_whitespace().next()?.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * TICKS_A_SECOND + hundredths.parse::<u64>().ok()?)
}

/// A process's name; `None` is no such process.
#[must_use]
pub fn name(root: &Path, pid: u32) -> Option<String> {
    let name = read(&root.join(format!("proc/{pid}/comm"))).ok()??;
    Some(name.trim_end().to_owned())
}

impl Cgroups {
    /// The cgroup a process is in, as `cgroupsPath` spells it; `None` is no such process.
    ///
    /// # Errors
    /// The file cannot be read, or names no cgroup of the cpuset hierarchy.
    pub fn of_process(&self, root: &Path, pid: &str) -> Result<Option<String>, HostError> {
        let path = root.join(format!("proc/{pid}/cgroup"));
        let Some(text) = read(&path)? else { return Ok(None) };
        let line = text.lines().find_map(|line| {
            let (controllers, cgroup) = line.split_once(':')?.1.split_once(':')?;
            let ours = match self.cpuset.v2 {
                true => controllers.is_empty(),
                false => controllers.split(',').any(|controller| controller == "cpuset"),
            };
            ours.then(|| cgroup.to_owned())
        });
        let expected = "a line of the cpuset hierarchy";
        line.map(Some).ok_or(HostError::Malformed { path, text, expected })
    }

    /// Whether a container's cgroup is there.
    #[must_use]
    pub fn is_there(&self, cgroups_path: &str) -> bool {
        self.cpuset.container(cgroups_path).is_ok_and(|dir| dir.is_dir())
    }

    /// The absolute path within the hierarchy of what `cgroupsPath` spells; `None` is no such spelling.
    #[must_use]
    pub fn path_of(&self, cgroups_path: &str) -> Option<String> {
        let dir = self.cpuset.container(cgroups_path).ok()?;
        Some(format!("/{}", dir.strip_prefix(&self.cpuset.mount).unwrap_or(&dir).display()))
    }

    /// Whether two spellings of `cgroupsPath` name the same cgroup.
    #[must_use]
    pub fn is_same(&self, one: &str, other: &str) -> bool {
        let dirs = [one, other].map(|path| self.cpuset.container(path).ok());
        dirs[0].is_some() && dirs[0] == dirs[1]
    }

    /// Whether a cgroup is another, or lies below it.
    #[must_use]
    pub fn is_within(&self, one: &str, other: &str) -> bool {
        let dirs = [one, other].map(|path| self.cpuset.container(path));
        matches!(dirs, [Ok(one), Ok(other)] if one.starts_with(&other))
    }

    /// Whether a pod's cgroup is there.
    #[must_use]
    pub fn pod_is_there(&self, cgroup_parent: &str) -> bool {
        self.cpuset.pod(cgroup_parent).is_ok_and(|dir| dir.is_dir())
    }

    /// Whether anything runs in a container's cgroup or below it. A cgroup that was left behind is not life.
    ///
    /// # Errors
    /// It is there and cannot be read: nobody may take that for death.
    pub fn is_populated(&self, cgroups_path: &str) -> Result<bool, HostError> {
        let dir = self.cpuset.container(cgroups_path)?;
        match self.cpuset.v2 {
            true => {
                let events = read(&dir.join("cgroup.events"))?.unwrap_or_default();
                Ok(events.lines().any(|line| line == "populated 1"))
            }
            false => populated(&dir),
        }
    }
}

fn populated(dir: &Path) -> Result<bool, HostError> {
    let processes = read(&dir.join("cgroup.procs"))?;
    if processes.is_some_and(|processes| !processes.trim().is_empty()) {
        return Ok(true);
    }
    let entries = match std::fs::read_dir(dir) {
        Err(_) if absent(dir).is_some() => return Ok(false),
        entries => entries.map_err(io("list", dir))?,
    };
    for entry in entries {
        let entry = entry.map_err(io("list", dir))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && populated(&entry.path())? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::super::mounts::Hierarchy;
    use super::*;
    use std::fs;

    fn machine(v2: bool) -> (tempfile::TempDir, Cgroups) {
        let root = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy { mount: root.path().to_owned(), v2 };
        (root, Cgroups { cpuset: hierarchy, cpu: None, hugetlb: None })
    }

    #[test]
    fn this_process_has_a_start_a_name_and_a_cgroup() {
        let pid = std::process::id();
        assert!(start_time(Path::new("/"), pid).unwrap() > 0);
        assert!(name(Path::new("/"), pid).is_some());
        assert_eq!(start_time(Path::new("/"), u32::MAX), None);
        let cgroups = Cgroups::find(Path::new("/")).unwrap();
        assert!(cgroups.of_process(Path::new("/"), "self").unwrap().unwrap().starts_with('/'));
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/7")).unwrap();
        let fields: Vec<String> = (3..=40).map(|field| field.to_string()).collect();
        fs::write(root.path().join("proc/7/stat"), format!("7 (a) R 1 (b)) {}\n", fields.join(" "))).unwrap();
        assert_eq!(start_time(root.path(), 7), Some(22));
    }

    #[test]
    fn the_hierarchys_own_line_counts() {
        let (root, mut cgroups) = machine(false);
        fs::create_dir_all(root.path().join("proc/7")).unwrap();
        let text = "9:memory:/m\n5:cpuset,cpu:/c:d/e\n0::/u\n";
        fs::write(root.path().join("proc/7/cgroup"), text).unwrap();
        assert_eq!(cgroups.of_process(root.path(), "7").unwrap().as_deref(), Some("/c:d/e"));
        cgroups.cpuset.v2 = true;
        assert_eq!(cgroups.of_process(root.path(), "7").unwrap().as_deref(), Some("/u"));
        assert_eq!(cgroups.of_process(root.path(), "8").unwrap(), None);
    }

    #[test]
    fn an_empty_cgroup_is_there_and_not_alive() {
        let (root, cgroups) = machine(false);
        fs::create_dir_all(root.path().join("a/nested")).unwrap();
        fs::write(root.path().join("a/cgroup.procs"), "\n").unwrap();
        assert!(cgroups.is_there("/a") && !cgroups.is_populated("/a").unwrap());
        fs::write(root.path().join("a/nested/cgroup.procs"), "12\n").unwrap();
        assert!(cgroups.is_populated("/a").unwrap());
        assert!(!cgroups.is_there("/b") && !cgroups.is_populated("/b").unwrap());
        let (root, cgroups) = machine(true);
        fs::create_dir_all(root.path().join("a")).unwrap();
        fs::write(root.path().join("a/cgroup.events"), "populated 0\nfrozen 0\n").unwrap();
        assert!(!cgroups.is_populated("/a").unwrap());
        fs::write(root.path().join("a/cgroup.events"), "populated 1\nfrozen 0\n").unwrap();
        assert!(cgroups.is_populated("/a").unwrap());
    }
}
