//! Frames as containerd's Go code writes and reads them.

use std::future::Future;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::UnixStream;
use tokio::sync::{Mutex, mpsc};

/// What Go's bufio reads and writes at a time.
const BUFIO: usize = 4096;
/// Frames the runtime queues for one connection; one more and it closes everything.
const QUEUE: usize = 256;

/// The near ends of connections 1 and 2, and what carries the bytes until the plugin is gone.
pub fn open(socket: UnixStream) -> (DuplexStream, DuplexStream, impl Future<Output = ()>) {
    let (near_1, far_1) = tokio::io::duplex(64 << 10);
    let (near_2, far_2) = tokio::io::duplex(64 << 10);
    let carry = async move {
        let (reader, writer) = socket.into_split();
        let writer = Mutex::new(writer);
        let (out_1, in_1) = tokio::io::split(far_1);
        let (out_2, in_2) = tokio::io::split(far_2);
        let (queue_1, frames_1) = mpsc::channel(QUEUE);
        let (queue_2, frames_2) = mpsc::channel(QUEUE);
        tokio::select! {
            () = split(reader, [queue_1, queue_2]) => {}
            () = read_as_go(frames_1, in_1) => {}
            () = read_as_go(frames_2, in_2) => {}
            () = write_as_go(1, out_1, &writer) => {}
            () = write_as_go(2, out_2, &writer) => {}
        }
    };
    (near_1, near_2, carry)
}

/// Queues whole frames by connection.
async fn split(mut socket: impl AsyncRead + Unpin, queues: [mpsc::Sender<Vec<u8>>; 2]) {
    loop {
        let (Ok(id), Ok(length)) = (socket.read_u32().await, socket.read_u32().await) else { return };
        let mut payload = vec![0; length as usize];
        if socket.read_exact(&mut payload).await.is_err() {
            return;
        }
        let queue = queues.get(id as usize - 1).unwrap_or_else(|| panic!("a frame for connection {id}"));
        queue.try_send(payload).expect("the plugin must not overflow the runtime's queue");
    }
}

/// Reads messages through a 4096-byte buffer that a frame must fit, or straight into the rest of a message
/// at least as long.
async fn read_as_go(mut frames: mpsc::Receiver<Vec<u8>>, mut to: WriteHalf<DuplexStream>) {
    let mut buffered = Vec::new();
    loop {
        let mut head = Vec::new();
        if !fill(&mut head, 10, &mut buffered, &mut frames).await {
            return std::future::pending().await;
        }
        let length = u32::from_be_bytes(head[..4].try_into().unwrap()) as usize;
        let mut message = head;
        if !fill(&mut message, 10 + length, &mut buffered, &mut frames).await {
            return;
        }
        assert!(buffered.is_empty(), "two messages in one frame");
        if to.write_all(&message).await.is_err() {
            return;
        }
    }
}

async fn fill(
    target: &mut Vec<u8>,
    wanted: usize,
    buffered: &mut Vec<u8>,
    frames: &mut mpsc::Receiver<Vec<u8>>,
) -> bool {
    while target.len() < wanted {
        let missing = wanted - target.len();
        if buffered.is_empty() {
            let Some(frame) = frames.recv().await else { return false };
            let space = if missing >= BUFIO { missing } else { BUFIO };
            assert!(frame.len() <= space, "a frame of {} bytes into a buffer of {space}", frame.len());
            *buffered = frame;
        }
        let piece = missing.min(buffered.len());
        target.extend(buffered.drain(..piece));
    }
    true
}

/// One frame for each write of Go's buffered writer: 4096 bytes, then the rest at once.
async fn write_as_go(
    id: u32,
    mut from: ReadHalf<DuplexStream>,
    socket: &Mutex<tokio::net::unix::OwnedWriteHalf>,
) {
    loop {
        let mut message = vec![0; 10];
        if from.read_exact(&mut message).await.is_err() {
            return std::future::pending().await;
        }
        let length = u32::from_be_bytes(message[..4].try_into().unwrap()) as usize;
        message.resize(10 + length, 0);
        if from.read_exact(&mut message[10..]).await.is_err() {
            return;
        }
        let (first, rest) = message.split_at(message.len().min(BUFIO));
        for payload in [first, rest].into_iter().filter(|payload| !payload.is_empty()) {
            let mut socket = socket.lock().await;
            let header = [id.to_be_bytes(), u32::try_from(payload.len()).unwrap().to_be_bytes()].concat();
            // Two writes, as the Go mux does it.
            if socket.write_all(&header).await.is_err() || socket.write_all(payload).await.is_err() {
                return;
            }
        }
    }
}
