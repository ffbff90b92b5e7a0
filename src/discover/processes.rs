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

    /// Whether it is root's, and the host's own: a name is anybody's to take (`prctl(PR_SET_NAME)`), and what a kubelet
    /// or containerd is told decides who picks CPUs. What was not gathered speaks against nobody.
    #[must_use]
    pub fn is_the_hosts(&self, root: &Root) -> bool {
        let read =
            |file: &str| root.read(&format!("proc/{}/{file}", self.pid)).ok().flatten().unwrap_or_default();
        let (status, cgroups) = (read("status"), read("cgroup"));
        let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
        // Real, effective, saved and of the file system; and one number in each namespace from here inwards.
        let is_roots = field("Uid:").is_none_or(|uids| uids.split_whitespace().all(|uid| uid == "0"));
        let is_outside = field("NSpid:").is_none_or(|pids| pids.split_whitespace().count() == 1);
        // With `hostPID` a pod has no namespace of its own, and still its cgroup.
        is_roots && is_outside && !cgroups.contains("kubepods")
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

    #[test]
    fn whoever_calls_itself_kubelet_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let roots = "Uid:\t0\t0\t0\t0\nNSpid:\t7\n";
        let cases = [
            (true, roots, "0::/system.slice/kubelet.service\n"),
            (true, "", ""),
            (false, "Uid:\t1000\t1000\t1000\t1000\nNSpid:\t7\n", "0::/user.slice\n"),
            (false, "Uid:\t1000\t0\t0\t0\nNSpid:\t7\n", "0::/user.slice\n"),
            (false, "Uid:\t0\t0\t0\t0\nNSpid:\t7\t1\n", "0::/a\n"),
            (false, roots, "0::/kubepods.slice/kubepods-burstable.slice/x.scope\n"),
            (false, roots, "4:cpuset:/kubepods/podu/c1\n0::/\n"),
        ];
        let proc = dir.path().join("proc/7");
        fs::create_dir_all(&proc).unwrap();
        let root = Root::gathered(dir.path()).unwrap();
        for (expected, status, cgroup) in cases {
            fs::write(proc.join("status"), status).unwrap();
            fs::write(proc.join("cgroup"), cgroup).unwrap();
            let process = Process { pid: 7, name: "kubelet".into() };
            assert_eq!(process.is_the_hosts(&root), expected, "{status}{cgroup}");
        }
    }
}
