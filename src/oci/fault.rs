//! Death on demand, for the tests' debug builds: `MAITRED_FAULT` = `kill:STEP` ends the process like SIGKILL does
//! when it has come to that step. A release build has no such thing.

/// Where a process can die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It is its turn, nothing has been decided.
    Locked,
    /// Decided, nothing has been written.
    Decided,
    /// The allocation is in the store, the container has not been changed.
    Recorded,
    /// The container has been changed, others have not.
    Changed,
    /// All is done but handing over to the runtime.
    Done,
}

impl Step {
    /// Dies here if it is told to.
    #[cfg(debug_assertions)]
    pub fn strike(self) {
        let name = match self {
            Self::Locked => "kill:locked",
            Self::Decided => "kill:decided",
            Self::Recorded => "kill:recorded",
            Self::Changed => "kill:changed",
            Self::Done => "kill:done",
        };
        if std::env::var_os("MAITRED_FAULT").is_some_and(|fault| fault == name) {
            // Nothing is cleaned up and nobody is told, as when the kernel does it.
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
        }
    }

    #[cfg(not(debug_assertions))]
    pub fn strike(self) {}
}
