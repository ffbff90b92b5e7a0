//! Unix sockets, from `/proc/net/unix`: who listens where, and how many are connected.

use super::{DiscoverError, Process, Root};
use std::collections::BTreeSet;

const SOCKETS: &str = "proc/net/unix";
/// A node with many pods has tens of thousands, a line each.
const MOST: u64 = 64 << 20;
/// `__SO_ACCEPTCON` of the kernel's flags.
const LISTENS: u32 = 1 << 16;
/// `SS_CONNECTED`.
const CONNECTED: &str = "03";
/// `SOCK_STREAM`.
const STREAM: &str = "0001";
/// The first descriptors may be connected to the journal.
const STANDARD: u32 = 2;

/// The stream sockets there are.
#[derive(Debug, Default)]
pub struct Sockets {
    listening: BTreeSet<String>,
    /// By the path their peer connected to.
    accepted: Vec<String>,
    /// Inodes of connected ones that have no path: the side that connected.
    clients: BTreeSet<u64>,
}

impl Sockets {
    /// Reads them; `None` where the file is not there.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn read(root: &Root) -> Result<Option<Self>, DiscoverError> {
        let Some(text) = root.text_up_to(SOCKETS, MOST)? else { return Ok(None) };
        let mut sockets = Self::default();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, _, _, flags, STREAM, state, inode, path @ ..] = &words[..] else { continue };
            let listens = u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & LISTENS != 0);
            match (path.first(), *state) {
                (Some(path), _) if listens => drop(sockets.listening.insert(plain(path))),
                (Some(path), CONNECTED) => sockets.accepted.push(plain(path)),
                (None, CONNECTED) => sockets.clients.extend(inode.parse::<u64>()),
                _ => {}
            }
        }
        Ok(Some(sockets))
    }

    /// Whether somebody listens at that path.
    #[must_use]
    pub fn listens(&self, path: &str) -> bool {
        self.listening.contains(&plain(path))
    }

    /// How many are connected to it.
    #[must_use]
    pub fn connections(&self, path: &str) -> usize {
        let path = plain(path);
        self.accepted.iter().filter(|accepted| **accepted == path).count()
    }

    /// Whether a process has connected itself to anything, beside its standard streams; `None` where its descriptors
    /// cannot be seen.
    #[must_use]
    pub fn has_connected(&self, root: &Root, process: &Process) -> Option<bool> {
        let dir = format!("proc/{}/fd", process.pid);
        let descriptors = root.numbered(&dir, "").ok().flatten().filter(|all| !all.is_empty())?;
        let inode = |descriptor: u32| {
            let target = std::fs::read_link(root.full(&format!("{dir}/{descriptor}"))).ok()?;
            target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok()
        };
        let mut inodes =
            descriptors.into_iter().filter(|descriptor| *descriptor > STANDARD).filter_map(inode);
        Some(inodes.any(|inode| self.clients.contains(&inode)))
    }
}

/// `/var/run` is `/run` on every machine with a runtime that still names it.
fn plain(path: &str) -> String {
    path.strip_prefix("/var/run/").map_or_else(|| path.to_owned(), |rest| format!("/run/{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    const UNIX: &str = "Num       RefCount Protocol Flags    Type St Inode Path
ffff0: 00000002 00000000 00010000 0001 01 100 /var/run/nri/nri.sock
ffff1: 00000003 00000000 00000000 0001 03 101 /run/nri/nri.sock
ffff2: 00000003 00000000 00000000 0001 03 102
ffff3: 00000002 00000000 00000000 0002 01 103 /run/systemd/notify
broken
";

    #[test]
    fn listeners_and_connections_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("proc/net")).unwrap();
        fs::create_dir_all(dir.path().join("proc/7/fd")).unwrap();
        let root = Root::gathered(dir.path()).unwrap();
        assert!(Sockets::read(&root).unwrap().is_none());
        fs::write(dir.path().join("proc/net/unix"), UNIX).unwrap();
        let sockets = Sockets::read(&root).unwrap().unwrap();
        assert!(sockets.listens("/run/nri/nri.sock") && !sockets.listens("/run/systemd/notify"));
        assert_eq!(sockets.connections("/var/run/nri/nri.sock"), 1);
        let process = Process { pid: 7, name: "maitred".into() };
        assert_eq!(sockets.has_connected(&root, &process), None);
        symlink("socket:[102]", dir.path().join("proc/7/fd/2")).unwrap();
        assert_eq!(sockets.has_connected(&root, &process), Some(false), "standard error may be the journal");
        symlink("socket:[102]", dir.path().join("proc/7/fd/9")).unwrap();
        assert_eq!(sockets.has_connected(&root, &process), Some(true));
    }
}
