//! Lines that nobody waits for: a thread of their own writes them. Whoever reads standard error can be stuck and the
//! disk can be full; containers are answered all the same. What finds no room is lost and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

/// How many lines may wait: a stuck reader costs no more than some hundred kilobytes.
const QUEUE: usize = 1024;
/// How long the end of the process waits for its last lines.
const FAREWELL: Duration = Duration::from_millis(500);

enum Item {
    Line(Vec<u8>),
    /// Everything before it has been written.
    Written(Sender<()>),
}

/// Takes lines; any number of clones may.
#[derive(Clone)]
pub(super) struct Aside {
    items: SyncSender<Item>,
    lost: Arc<AtomicU64>,
}

/// The other end. Dropped, it waits a moment for what has been said to be written.
pub struct Writing {
    items: SyncSender<Item>,
    lost: Arc<AtomicU64>,
    /// What has not been begun yet.
    queue: Option<Receiver<Item>>,
}

/// A pair of ends.
pub(super) fn pair() -> (Aside, Writing) {
    let (items, queue) = sync_channel(QUEUE);
    let lost = Arc::new(AtomicU64::new(0));
    let aside = Aside { items: items.clone(), lost: Arc::clone(&lost) };
    (aside, Writing { items, lost, queue: Some(queue) })
}

impl Write for Aside {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.items.try_send(Item::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writing {
    /// Begins to write. Not before the process has given up its capabilities: each thread has its own.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn begin(&mut self, to: impl Write + Send + 'static) -> io::Result<()> {
        let Some(queue) = self.queue.take() else { return Ok(()) };
        let lost = Arc::clone(&self.lost);
        std::thread::Builder::new().name("log".into()).spawn(move || write(&queue, &lost, to)).map(drop)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            // It ends before it has begun, and this thread has nothing else to do.
            queue.try_iter().for_each(|item| put(&mut io::stderr(), item));
            return;
        }
        let (written, wait) = channel();
        if self.items.try_send(Item::Written(written)).is_ok() {
            let _ = wait.recv_timeout(FAREWELL);
        }
    }
}

fn write(queue: &Receiver<Item>, lost: &AtomicU64, mut to: impl Write) {
    while let Ok(item) = queue.recv() {
        put(&mut to, item);
        let missing = lost.swap(0, Ordering::Relaxed);
        if missing > 0 {
            // Through the log itself, for its format; in the queue behind what is there already.
            tracing::warn!(lost = missing, "lines of this log are lost: whoever reads it was stuck");
        }
    }
}

/// A line that cannot be written is lost, no more.
fn put(to: &mut impl Write, item: Item) {
    match item {
        Item::Line(line) => drop(to.write_all(&line)),
        Item::Written(tell) => drop(tell.send(())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Writes nothing before it is told to.
    struct Stuck(Receiver<()>, Sender<Vec<u8>>);

    impl Write for Stuck {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.send(line.to_vec()).map_err(io::Error::other)?;
            Ok(line.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stuck_reader_costs_lines_and_no_time() {
        let (mut aside, mut writing) = pair();
        let ((go_on, wait), (written, seen)) = (channel(), channel());
        writing.begin(Stuck(wait, written)).unwrap();
        for number in 0..3 * QUEUE {
            aside.write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        let lost = aside.lost.load(Ordering::Relaxed);
        assert!(lost >= 2 * QUEUE as u64 - 1, "{lost}");
        drop(go_on);
        drop((aside, writing));
        let lines: Vec<_> = seen.iter().collect();
        assert_eq!(lines.first().unwrap(), b"0\n");
        assert_eq!(lines.len() as u64 + lost, 3 * QUEUE as u64);
    }

    #[test]
    fn a_full_disk_costs_lines_only() {
        let (mut aside, mut writing) = pair();
        writing.begin(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap()).unwrap();
        for _ in 0..10 {
            aside.write_all(b"a line\n").unwrap();
        }
        drop(writing);
        assert_eq!(aside.lost.load(Ordering::Relaxed), 0, "taken and thrown away");
    }
}
