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

/// Every process; `None` where there is no `/proc` with any. One that ends meanwhile is left out.
#[must_use]
pub fn processes(root: &Root) -> Option<Vec<Process>> {
    let pids = root.numbered("proc", "").ok().flatten()?;
    let named = |pid: u32| {
        let name = root.read(&format!("proc/{pid}/comm")).ok().flatten()?;
        Some(Process { pid, name })
    };
    let found: Vec<_> = pids.into_iter().filter_map(named).collect();
    (!found.is_empty()).then_some(found)
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
