//! Getting hold of the runtime's socket.

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// How long to wait for a change in the socket's directory before trying without one.
const RETRY: Duration = Duration::from_millis(100);

/// Connects as soon as somebody listens at `path`, for ever.
pub(super) async fn wait_for(path: &Path) -> UnixStream {
    let mut told = false;
    loop {
        // Watched before trying: what happens in between is not missed.
        let watch = Watch::nearest(path);
        match UnixStream::connect(path).await {
            Ok(stream) => return stream,
            Err(error) if !told => {
                tracing::info!(path = %path.display(), %error, "waiting for the runtime's socket");
                told = true;
            }
            Err(_) => {}
        }
        match watch {
            Ok(watch) => drop(tokio::time::timeout(RETRY, watch.changed()).await),
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

/// An inotify instance the reactor can wait for: to it, one more descriptor that becomes readable.
struct Watch(pipe::Receiver);

impl Watch {
    /// Watches the nearest directory above `path` that exists.
    fn nearest(path: &Path) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let changes = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_DELETE_SELF;
        let above = path.ancestors().skip(1).find(|directory| directory.is_dir());
        inotify.add_watch(above.unwrap_or(Path::new(".")), changes | AddWatchFlags::IN_ATTRIB)?;
        let descriptor = inotify.as_fd().try_clone_to_owned()?;
        Ok(Self(pipe::Receiver::from_owned_fd_unchecked(descriptor)?))
    }

    /// Returns once anything changed; what changed is seen by trying.
    async fn changed(&self) {
        let _ = self.0.readable().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tokio::net::UnixListener;

    #[tokio::test(flavor = "current_thread")]
    async fn connects_as_soon_as_the_socket_appears_in_a_new_directory() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run/nri/nri.sock");
        let directory = path.parent().unwrap().to_owned();
        let appear = async {
            tokio::time::sleep(Duration::from_millis(250)).await;
            std::fs::create_dir_all(&directory).unwrap();
            (UnixListener::bind(&path).unwrap(), Instant::now())
        };

        let (_stream, (_listener, appeared)) = tokio::join!(wait_for(&path), appear);

        assert!(appeared.elapsed() < RETRY * 3, "{:?}", appeared.elapsed());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_dead_socket_is_tried_until_it_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("nri.sock");
        drop(UnixListener::bind(&path).unwrap()); // the file stays, nobody listens
        let replace = async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            std::fs::remove_file(&path).unwrap();
            UnixListener::bind(&path).unwrap()
        };

        let joined =
            tokio::time::timeout(Duration::from_secs(5), async { tokio::join!(wait_for(&path), replace) });

        joined.await.unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_change_wakes_the_watch_at_once() {
        let root = tempfile::tempdir().unwrap();
        let watch = Watch::nearest(&root.path().join("missing/nri.sock")).unwrap();
        std::fs::create_dir(root.path().join("missing")).unwrap();

        tokio::time::timeout(Duration::from_millis(50), watch.changed()).await.unwrap();
    }
}
