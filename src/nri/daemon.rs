//! `maitred nri`: registers, serves, and registers again for as long as it lives.

use super::connect;
use super::decider::{Decider, Handler};
use super::fault::Fault;
use super::inherited;
use super::notify;
use super::session::{End, Registrar, SessionError};
use super::watchdog;
use nix::sys::signal::Signal;
use std::cell::Cell;
use std::future::Future;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};

/// Where containerd listens for plugins.
pub const DEFAULT_SOCKET: &str = "/var/run/nri/nri.sock";
/// Late among the plugins, so that we see what the others have added.
pub const DEFAULT_INDEX: &str = "90";
/// What we register as.
pub const DEFAULT_NAME: &str = "maitred";
/// The signal by which a daemon that a runtime has launched has another one end, and not be started again.
pub const MAKE_ROOM: Signal = Signal::SIGUSR1;
/// How often a plugin whose connection was closed looks whether its runtime still lives.
const LAUNCHER_CHECK: Duration = Duration::from_millis(500);
/// Between two registrations of which none led to a ledger; the socket itself is tried more often.
const BACK_OFF: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// How to reach the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// Through its socket; registers again whenever the runtime comes back.
    Socket(PathBuf),
    /// It launched us and left us a descriptor; we end with the runtime, and the next one launches the next of us.
    Inherited {
        /// The connected socket.
        fd: RawFd,
        /// Where to register again if the runtime closes that one and lives on, as it does with a plugin that
        /// was late once. `None` ends with it in any case.
        again: Option<PathBuf>,
    },
}

/// What the daemon is told at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Plugin name: letters, digits, `_`, `.`, `+`, `-`.
    pub name: String,
    /// Plugin index: two digits.
    pub index: String,
    /// How to reach the runtime.
    pub transport: Transport,
    /// `failure.deadline_ms`: how long a decision may take.
    pub deadline: Duration,
}

/// Why the daemon did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum NriError {
    /// A plugin index that no runtime takes.
    #[error("the plugin index is {0:?}: expected two digits, such as 90")]
    Index(String),
    /// A plugin name that no runtime takes.
    #[error("the plugin name is {0:?}: expected letters, digits and any of _ . + -")]
    Name(String),
    /// No number of a file descriptor.
    #[error("NRI_PLUGIN_SOCKET is {0:?}: expected the number of a file descriptor")]
    Descriptor(String),
    /// The descriptor the runtime left us is none.
    #[error("cannot use file descriptor {fd} as the runtime's socket: {source}")]
    Inherited { fd: RawFd, source: io::Error },
    /// The reactor, its signals or the decision thread.
    #[error("cannot start {what}: {source}")]
    Start { what: &'static str, source: io::Error },
    /// The only connection there was failed.
    #[error("the connection the runtime gave us ended: {0}")]
    Session(SessionError),
}

/// A plugin name that a runtime takes.
///
/// # Errors
/// [`NriError::Name`].
pub fn plugin_name(text: &str) -> Result<String, NriError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_.+-".contains(&b);
    match !text.is_empty() && text.bytes().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err(NriError::Name(text.to_owned())),
    }
}

/// A plugin index that a runtime takes.
///
/// # Errors
/// [`NriError::Index`].
pub fn plugin_index(text: &str) -> Result<String, NriError> {
    match text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit()) {
        true => Ok(text.to_owned()),
        false => Err(NriError::Index(text.to_owned())),
    }
}

impl Transport {
    /// Pre-launched where containerd has set `NRI_PLUGIN_SOCKET`, of which `inherited` is the value; else
    /// through `socket`.
    ///
    /// # Errors
    /// [`NriError::Descriptor`].
    pub fn new(inherited: Option<&str>, socket: &Path) -> Result<Self, NriError> {
        let Some(text) = inherited else { return Ok(Self::Socket(socket.to_owned())) };
        let fd = text.parse().map_err(|_| NriError::Descriptor(text.to_owned()))?;
        Ok(Self::Inherited { fd, again: Some(socket.to_owned()) })
    }
}

/// Why a daemon has ended, where nothing was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was told to, or went with the runtime that launched it.
    Stopped,
    /// Another one takes its place, which a runtime has launched.
    MadeRoom,
}

/// Runs the daemon until SIGTERM, SIGINT or [`MAKE_ROOM`]; a pre-launched one also ends with the
/// runtime that launched it.
///
/// # Errors
/// It could not start, or the one connection of a pre-launched plugin broke.
pub fn run(options: &Options, handler: impl Handler) -> Result<Ending, NriError> {
    let start = |what| move |source| NriError::Start { what, source };
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let reactor = reactor.map_err(start("the reactor"))?;
    let result = reactor.block_on(async {
        let hear = |kind| signal(kind).map_err(start("the signal handlers"));
        let mut terminate = hear(SignalKind::terminate())?;
        let mut interrupt = hear(SignalKind::interrupt())?;
        let mut make_room = hear(SignalKind::from_raw(MAKE_ROOM as i32))?;
        let ending = Cell::new(Ending::Stopped);
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => tracing::info!("SIGTERM: ending"),
                _ = interrupt.recv() => tracing::info!("SIGINT: ending"),
                _ = make_room.recv() => {
                    tracing::warn!("ending: a runtime has launched another maitred, which takes over");
                    ending.set(Ending::MadeRoom);
                }
            }
        };
        serve(options, handler, stop).await?;
        Ok(ending.get())
    });
    notify::stopping();
    result
}

/// [`run`] on a reactor and with an end of the caller's.
///
/// # Errors
/// As [`run`].
pub async fn serve(
    options: &Options,
    handler: impl Handler,
    stop: impl Future<Output = ()>,
) -> Result<(), NriError> {
    let fault = Fault::from_env();
    let decider = Decider::spawn(handler, fault)
        .map_err(|source| NriError::Start { what: "the decision thread", source })?;
    let registrar = Registrar {
        name: options.name.clone(),
        index: options.index.clone(),
        decider: Arc::new(decider),
        deadline: options.deadline,
        can_return: !matches!(options.transport, Transport::Inherited { again: None, .. }),
        fault,
    };
    tokio::select! {
        () = stop => Ok(()),
        () = watchdog::keep_alive(&registrar.decider) => Ok(()),
        ended = attend(&registrar, &options.transport) => ended,
    }
}

async fn attend(registrar: &Registrar, transport: &Transport) -> Result<(), NriError> {
    match transport {
        Transport::Inherited { fd, again: None } => once(registrar, *fd).await,
        Transport::Inherited { fd, again: Some(path) } => while_launched(registrar, *fd, path).await,
        Transport::Socket(path) => for_ever(registrar, path).await,
    }
}

async fn once(registrar: &Registrar, fd: RawFd) -> Result<(), NriError> {
    let unusable = |source| NriError::Inherited { fd, source };
    let stream = inherited::socket(fd).and_then(UnixStream::from_std).map_err(unusable)?;
    notify::ready("launched by the runtime");
    match registrar.attend_launched(stream).await.why {
        SessionError::Closed => Ok(()),
        why => Err(NriError::Session(why)),
    }
}

/// The connection left to us, and after it the socket for as long as the runtime that launched us lives: nothing
/// else would bring us back before its next start.
async fn while_launched(registrar: &Registrar, fd: RawFd, path: &Path) -> Result<(), NriError> {
    let launcher = nix::unistd::getppid();
    let ended = once(registrar, fd).await;
    match &ended {
        Err(NriError::Inherited { .. }) => return ended,
        Err(NriError::Session(why @ SessionError::Untold)) => {
            tracing::info!(reason = %why, "registering again")
        }
        _ => {}
    }
    // A runtime that ends closes its sockets a moment before it is gone.
    tokio::time::sleep(LAUNCHER_CHECK).await;
    let gone = async {
        while nix::unistd::getppid() == launcher {
            tokio::time::sleep(LAUNCHER_CHECK).await;
        }
    };
    tokio::select! {
        biased;
        () = gone => ended,
        again = for_ever(registrar, path) => again,
    }
}

async fn for_ever(registrar: &Registrar, path: &Path) -> Result<(), NriError> {
    let waiting = format!("waiting for {}", path.display());
    notify::ready(&waiting);
    let mut back_off = BackOff::default();
    loop {
        let stream = connect::wait_for(path).await;
        let end = registrar.attend(stream).await;
        back_off.report(&end);
        notify::status(&waiting);
        tokio::time::sleep(back_off.next(&end)).await;
    }
}

/// Patience with a runtime that lets us connect and then will not have us.
#[derive(Default)]
struct BackOff {
    failed: u32,
    said: String,
}

impl BackOff {
    /// Nothing after a connection that worked, then ever longer.
    fn next(&mut self, end: &End) -> Duration {
        if end.synchronized {
            self.failed = 0;
            return Duration::ZERO;
        }
        let [first, most] = BACK_OFF;
        let pause = first.saturating_mul(1 << self.failed.min(16)).min(most);
        self.failed += 1;
        pause
    }

    /// Says why, unless it is what the last failure said.
    fn report(&mut self, end: &End) {
        let why = end.why.to_string();
        if !end.synchronized && why == self.said {
            tracing::debug!(reason = why, "not registered");
            return;
        }
        match end.why {
            SessionError::Unusable(_) => tracing::error!(
                reason = why,
                "the configuration cannot be used with this runtime: no container is seated; trying again"
            ),
            _ => tracing::warn!(
                reason = why,
                synchronized = end.synchronized,
                "the runtime is gone; registering again"
            ),
        }
        self.said = why;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containerds_variable_makes_it_a_launched_plugin() {
        let transport = |inherited| Transport::new(inherited, Path::new(DEFAULT_SOCKET));
        assert_eq!(transport(None).unwrap(), Transport::Socket(DEFAULT_SOCKET.into()));
        let launched = Transport::Inherited { fd: 3, again: Some(DEFAULT_SOCKET.into()) };
        assert_eq!(transport(Some("3")).unwrap(), launched);
        let error = transport(Some("/x")).unwrap_err().to_string();
        assert_eq!(error, r#"NRI_PLUGIN_SOCKET is "/x": expected the number of a file descriptor"#);
    }

    #[test]
    fn a_name_or_index_that_containerd_would_refuse_is_refused() {
        for name in [DEFAULT_NAME, "a_b.c+d-9"] {
            assert_eq!(plugin_name(name).unwrap(), name);
        }
        for index in [DEFAULT_INDEX, "00", "99"] {
            assert_eq!(plugin_index(index).unwrap(), index);
        }
        assert!(["", "a b", "ä"].iter().all(|name| plugin_name(name).is_err()));
        assert!(["5", "100", "+1", ""].iter().all(|index| plugin_index(index).is_err()));
        let error = plugin_index("7").unwrap_err().to_string();
        assert_eq!(error, r#"the plugin index is "7": expected two digits, such as 90"#);
    }

    #[test]
    fn patience_grows_and_is_restored_by_a_ledger() {
        let end = |synchronized| End { synchronized, why: SessionError::Closed };
        let mut back_off = BackOff::default();
        let pauses: Vec<u128> = (0..8).map(|_| back_off.next(&end(false)).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 1000, 1000, 1000]);
        assert_eq!(back_off.next(&end(true)), Duration::ZERO);
        assert_eq!(back_off.next(&end(false)).as_millis(), 100);
    }
}
