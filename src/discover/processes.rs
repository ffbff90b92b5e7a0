//! Processes by their names, as far as `/proc` was gathered.

use super::Root;

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// `comm`: the name of what it runs, at most 15 bytes of it.
    pub name: String,
}

/// Every process; `None` where there is no `/proc` with any. One that ends meanwhile is left out, and so is one that has
/// ended and waits for its parent to ask: it keeps its name, and does nothing any more.
#[must_use]
pub fn processes(root: &Root) -> Option<Vec<Process>> {
    let pids = root.numbered("proc", "").ok().flatten()?;
    let named = |pid: u32| {
        let name = root.read(&format!("proc/{pid}/comm")).ok().flatten()?;
        (!has_ended(root, pid)).then_some(Process { pid, name })
    };
    let found: Vec<_> = pids.into_iter().filter_map(named).collect();
    (!found.is_empty()).then_some(found)
}

/// By its state (`/proc/PID/stat`, proc_pid_stat(5)): a zombie, or dead. The name before it may have any character. Where
/// the state was not gathered, it is not known to have ended.
fn has_ended(root: &Root, pid: u32) -> bool {
    let stat = root.read(&format!("proc/{pid}/stat")).ok().flatten().unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, Some('Z' | 'X' | 'x'))
}

impl Process {
    /// Its command line; empty where it cannot be read.
    #[must_use]
    pub fn line(&self, root: &Root) -> Vec<String> {
        let line = root.read(&format!("proc/{}/cmdline", self.pid)).ok().flatten().unwrap_or_default();
        line.split('\0').map(str::to_owned).collect()
    }

    /// The process that started it, or took it over.
    #[must_use]
    pub fn parent(&self, root: &Root) -> Option<u32> {
        let status = root.read(&format!("proc/{}/status", self.pid)).ok().flatten()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_process_that_has_ended_is_none_although_it_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let states = [(7, Some("7 (10-maitred) Z 1 7")), (8, Some("8 (a) Z b) S 1 8")), (9, None)];
        for (pid, stat) in states {
            let proc = dir.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&proc).unwrap();
            fs::write(proc.join("comm"), "10-maitred\n").unwrap();
            if let Some(stat) = stat {
                fs::write(proc.join("stat"), stat).unwrap();
            }
        }
        let found = processes(&Root::gathered(dir.path()).unwrap()).unwrap();
        assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [8, 9]);
    }
}
