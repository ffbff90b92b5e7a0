//! The calling thread's own memory policy: what a program that is exec'd next inherits.

// The one place that hands the kernel a node mask.
#![allow(unsafe_code)]

use crate::model::{Id, MemoryMode, MemoryPolicy, NodeId};
use std::io;

/// Bits of the mask: as many as a set of nodes can name.
const MOST_NODES: usize = <NodeId as Id>::LIMIT as usize;
const WORD: usize = u64::BITS as usize;
/// `MPOL_F_STATIC_NODES` of `include/uapi/linux/mempolicy.h`.
const STATIC_NODES: libc::c_ulong = 1 << 15;

/// A memory policy that could not be set.
///
/// The kernel says EINVAL where it does not know the mode, or none of the nodes is allowed here.
#[derive(Debug, thiserror::Error)]
#[error("set_mempolicy {policy}: {source}")]
pub struct MempolicyError {
    /// What was to be set.
    pub policy: MemoryPolicy,
    /// The kernel's reason.
    pub source: io::Error,
}

/// The newer modes, each as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelModes {
    /// `MPOL_PREFERRED_MANY`.
    pub preferred_many: bool,
    /// `MPOL_WEIGHTED_INTERLEAVE`.
    pub weighted_interleave: bool,
}

/// Sets the calling thread's policy, with the nodes as they are numbered whatever cpuset it enters later.
/// Whatever it forks or execs has it too, until it sets another.
///
/// # Errors
/// The kernel refuses.
pub fn set_own(policy: &MemoryPolicy) -> Result<(), MempolicyError> {
    let fixed = if policy.nodes.is_empty() { 0 } else { STATIC_NODES };
    call(number(policy.mode) | fixed, &mask(policy))
        .map_err(|source| MempolicyError { policy: policy.clone(), source })
}

/// Asks the kernel which of the newer modes it knows, by trying them on a thread that ends.
#[must_use]
pub fn kernel_modes() -> KernelModes {
    let probe = || {
        // Allowed whatever this process's cpuset is: an absent node would be EINVAL too.
        let here = super::allowed(std::path::Path::new("/"), std::process::id()).ok().flatten();
        let nodes = here.map(|allowed| allowed.mems).unwrap_or_default();
        let knows = |mode| set_own(&MemoryPolicy { mode, nodes: nodes.clone() }).is_ok();
        KernelModes {
            preferred_many: knows(MemoryMode::PreferredMany),
            weighted_interleave: knows(MemoryMode::WeightedInterleave),
        }
    };
    std::thread::scope(|scope| scope.spawn(probe).join().unwrap_or_default())
}

fn number(mode: MemoryMode) -> libc::c_ulong {
    match mode {
        MemoryMode::Preferred => 1,
        MemoryMode::Bind => 2,
        MemoryMode::Interleave => 3,
        MemoryMode::Local => 4,
        MemoryMode::PreferredMany => 5,
        MemoryMode::WeightedInterleave => 6,
    }
}

type Mask = [u64; MOST_NODES / WORD];

fn mask(policy: &MemoryPolicy) -> Mask {
    let mut mask = [0; MOST_NODES / WORD];
    for node in policy.nodes.iter() {
        // No set has a node beyond the limit, so the index fits.
        mask[node.0 as usize / WORD] |= 1 << (node.0 as usize % WORD);
    }
    mask
}

fn call(mode: libc::c_ulong, mask: &Mask) -> io::Result<()> {
    // One more than the bits there are: the kernel takes one off.
    let bits = MOST_NODES as libc::c_ulong + 1;
    // SAFETY: the kernel reads MOST_NODES bits of a mask that has them and is not changed meanwhile; it writes
    // nothing. The policy is this thread's alone.
    match unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask.as_ptr(), bits) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn policy(mode: MemoryMode, nodes: &str) -> MemoryPolicy {
        MemoryPolicy { mode, nodes: nodes.parse().unwrap() }
    }

    /// What a program started by a thread of that policy has, as the kernel prints it.
    fn inherited(policy: MemoryPolicy) -> Result<Vec<String>, MempolicyError> {
        let start = move || {
            set_own(&policy)?;
            let child = Command::new("cat").arg("/proc/self/numa_maps").output().unwrap();
            Ok(String::from_utf8(child.stdout).unwrap())
        };
        let maps = std::thread::spawn(start).join().unwrap()?;
        let mut words: Vec<_> = maps.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        words.sort_unstable();
        words.dedup();
        Ok(words.into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn a_program_has_the_policy_of_whoever_started_it() {
        if !std::path::Path::new("/proc/self/numa_maps").exists() {
            eprintln!("skipped: this kernel has no NUMA");
            return;
        }
        for (set, shown) in [
            (policy(MemoryMode::Bind, "0"), "bind=static:0"),
            (policy(MemoryMode::Preferred, "0"), "prefer=static:0"),
            (policy(MemoryMode::Interleave, "0"), "interleave=static:0"),
            (policy(MemoryMode::Local, ""), "local"),
        ] {
            assert_eq!(inherited(set).unwrap(), [shown]);
        }
    }

    #[test]
    fn a_refusal_names_the_policy() {
        let error = inherited(policy(MemoryMode::Bind, "")).unwrap_err().to_string();
        assert!(error.starts_with("set_mempolicy bind: "), "{error}");
        assert_eq!(mask(&policy(MemoryMode::Bind, "0,1023"))[15], 1 << 63);
    }

    /// Each mode is known from the kernel's release that brought it, unless a distribution brought it earlier.
    #[test]
    fn the_kernel_tells_what_it_knows_and_this_thread_keeps_its_own() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let modes = kernel_modes();
        if std::path::Path::new("/proc/self/numa_maps").exists() {
            assert!(modes.preferred_many || version < (5, 15), "{release}");
            assert!(modes.weighted_interleave || version < (6, 9), "{release}");
            let own = crate::host::numa_maps(std::path::Path::new("/"), std::process::id()).unwrap().unwrap();
            assert!(own.0.keys().any(|policy| policy == "default"), "{own:?}");
        }
    }
}
