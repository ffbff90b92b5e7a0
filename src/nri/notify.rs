//! What systemd is told; nothing where it does not listen.

use sd_notify::NotifyState;

/// The daemon runs. Not "registered": a unit ordered before containerd must not wait for containerd.
pub(super) fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// One line for `systemctl status`.
pub(super) fn status(status: &str) {
    send(&[NotifyState::Status(status)]);
}

/// The daemon lives: what the unit's watchdog waits for.
pub(super) fn alive() {
    send(&[NotifyState::Watchdog]);
}

/// The daemon is about to end.
pub(super) fn stopping() {
    send(&[NotifyState::Stopping]);
}

fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "systemd was not notified");
    }
}
