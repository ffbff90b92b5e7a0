//! Memory that a registration took and nothing needs any more.

#![allow(unsafe_code)]

/// Gives back to the kernel what is free of the heap: the specifications of all containers of a node came in at once,
/// and a few facts of each are kept.
pub(super) fn give_back() {
    // SAFETY: no pointer is passed, and malloc_trim(3) may be called by any thread at any time.
    #[cfg(target_env = "gnu")]
    let _ = unsafe { libc::malloc_trim(0) };
}
