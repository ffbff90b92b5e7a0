//! The multiplexer: two logical connections over one stream socket, in frames of an 8-byte header
//! (connection id and payload length, both u32 big-endian) and a payload.
//!
//! Each connection is handed out as a bounded in-memory pipe, which is what ttrpc takes as a socket;
//! the future returned beside them carries bytes between the pipes and the socket until one side is
//! through. A full pipe stops the reading of the socket, so nothing here grows with the peer's haste.

use std::future::Future;
use std::io;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadHalf,
    WriteHalf,
};
use tokio::sync::Mutex;

/// Connection of the Plugin service: the runtime calls us.
pub const PLUGIN_SERVICE: u32 = 1;
/// Connection of the Runtime service: we call the runtime.
pub const RUNTIME_SERVICE: u32 = 2;
/// Bytes of a frame's header.
pub const FRAME_HEADER: usize = 8;
/// The largest payload of one frame: the largest ttrpc message with its header.
pub const MAX_PAYLOAD: u32 = MAX_MESSAGE + MESSAGE_HEADER as u32;

/// Bytes of a ttrpc header: length u32 big-endian, stream id u32, type u8, flags u8.
const MESSAGE_HEADER: usize = 10;
/// The largest ttrpc message, header not counted.
const MAX_MESSAGE: u32 = 4 << 20;
/// How much of a message may be in its first frame: the Go reader fills a buffer of this size and
/// fails on a frame that does not fit. What follows it reads straight into the message.
const FIRST_FRAME: usize = 4096;
/// Bytes a pipe holds before its writer has to wait.
const PIPE: usize = 64 << 10;

/// Why a connection to the runtime ended other than by the runtime's closing it between two frames.
#[derive(Debug, thiserror::Error)]
pub enum MuxError {
    /// A frame over the limit.
    #[error(
        "the runtime sent a frame of {length} bytes on connection {id}: at most {MAX_PAYLOAD} are allowed"
    )]
    FrameTooLarge { id: u32, length: u32 },
    /// A ttrpc message over the limit.
    #[error(
        "the runtime sent a message of {length} bytes on connection {id}: at most {MAX_MESSAGE} are allowed"
    )]
    MessageTooLarge { id: u32, length: u32 },
    /// The socket ended within a frame.
    #[error("the runtime's stream ended within a frame's {part}")]
    Truncated { part: &'static str },
    /// Our own message is over the limit.
    #[error(
        "our message of {length} bytes on connection {id} is not sent: at most {MAX_MESSAGE} are allowed"
    )]
    ReplyTooLarge { id: u32, length: u32 },
    /// Our service gave up its end.
    #[error("the plugin service closed connection {id}")]
    ServiceEnded { id: u32 },
    /// The socket failed.
    #[error("cannot {verb} the runtime's socket: {source}")]
    Io { verb: &'static str, source: io::Error },
}

impl MuxError {
    fn reading(part: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated { part },
            _ => Self::Io { verb: "read", source },
        }
    }

    fn writing(source: io::Error) -> Self {
        Self::Io { verb: "write to", source }
    }
}

/// The near ends of both connections.
#[derive(Debug)]
pub struct Connections {
    /// [`PLUGIN_SERVICE`].
    pub plugin: DuplexStream,
    /// [`RUNTIME_SERVICE`].
    pub runtime: DuplexStream,
}

/// Splits `socket`. Nothing moves unless the future is polled; it ends with `Ok` when the runtime
/// closed the socket between two frames.
pub fn open<S>(socket: S) -> (Connections, impl Future<Output = Result<(), MuxError>> + Send)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (plugin, far_plugin) = tokio::io::duplex(PIPE);
    let (runtime, far_runtime) = tokio::io::duplex(PIPE);
    let carry = async move {
        let (reader, writer) = tokio::io::split(socket);
        let writer = Mutex::new(writer);
        let (plugin_out, plugin_in) = tokio::io::split(far_plugin);
        let (runtime_out, runtime_in) = tokio::io::split(far_runtime);
        let incoming = demultiplex(reader, plugin_in, runtime_in);
        let plugin_outgoing = multiplex(PLUGIN_SERVICE, plugin_out, &writer);
        let runtime_outgoing = multiplex(RUNTIME_SERVICE, runtime_out, &writer);
        tokio::select! {
            end = incoming => end,
            end = plugin_outgoing => end.and(Err(MuxError::ServiceEnded { id: PLUGIN_SERVICE })),
            // A client that has said what it had to say may go.
            end = async { runtime_outgoing.await?; std::future::pending().await } => end,
        }
    };
    (Connections { plugin, runtime }, carry)
}

/// One incoming connection: where its bytes go and where in a message they are.
struct Incoming {
    id: u32,
    pipe: WriteHalf<DuplexStream>,
    messages: MessageWatch,
}

impl Incoming {
    async fn take(&mut self, bytes: &[u8]) -> Result<(), MuxError> {
        self.messages.advance(bytes).map_err(|length| MuxError::MessageTooLarge { id: self.id, length })?;
        // A near end that is gone has no use for what still arrives.
        let _ = self.pipe.write_all(bytes).await;
        Ok(())
    }
}

async fn demultiplex(
    socket: impl AsyncRead + Unpin,
    plugin: WriteHalf<DuplexStream>,
    runtime: WriteHalf<DuplexStream>,
) -> Result<(), MuxError> {
    let mut socket = BufReader::with_capacity(2 * FRAME_HEADER + FIRST_FRAME, socket);
    let incoming = |id, pipe| Incoming { id, pipe, messages: MessageWatch::default() };
    let mut plugin = incoming(PLUGIN_SERVICE, plugin);
    let mut runtime = incoming(RUNTIME_SERVICE, runtime);
    while let Some((id, length)) = read_header(&mut socket).await? {
        let target = match id {
            PLUGIN_SERVICE => Some(&mut plugin),
            RUNTIME_SERVICE => Some(&mut runtime),
            // As the runtime does with ids it does not know.
            _ => None,
        };
        deliver(&mut socket, length, target).await?;
    }
    Ok(())
}

/// The next frame's id and length; `None` when the socket ended where a frame may end.
async fn read_header(socket: &mut BufReader<impl AsyncRead + Unpin>) -> Result<Option<(u32, u32)>, MuxError> {
    let waiting = socket.fill_buf().await.map_err(MuxError::reading("header"))?;
    if waiting.is_empty() {
        return Ok(None);
    }
    let id = socket.read_u32().await.map_err(MuxError::reading("header"))?;
    let length = socket.read_u32().await.map_err(MuxError::reading("header"))?;
    if length > MAX_PAYLOAD {
        return Err(MuxError::FrameTooLarge { id, length });
    }
    Ok(Some((id, length)))
}

/// Passes a payload on in pieces, never holding it whole.
async fn deliver(
    socket: &mut BufReader<impl AsyncRead + Unpin>,
    length: u32,
    mut target: Option<&mut Incoming>,
) -> Result<(), MuxError> {
    let mut left = length as usize;
    while left > 0 {
        let waiting = socket.fill_buf().await.map_err(MuxError::reading("payload"))?;
        if waiting.is_empty() {
            return Err(MuxError::Truncated { part: "payload" });
        }
        let piece = waiting.len().min(left);
        if let Some(incoming) = target.as_deref_mut() {
            incoming.take(&waiting[..piece]).await?;
        }
        socket.consume(piece);
        left -= piece;
    }
    Ok(())
}

/// Sends what comes out of a pipe, message by message, until the near end is closed.
async fn multiplex<W: AsyncWrite>(
    id: u32,
    mut pipe: ReadHalf<DuplexStream>,
    socket: &Mutex<WriteHalf<W>>,
) -> Result<(), MuxError> {
    let mut buffer = Vec::with_capacity(FRAME_HEADER + FIRST_FRAME);
    loop {
        let mut head = [0; MESSAGE_HEADER];
        if pipe.read_exact(&mut head).await.is_err() {
            return Ok(());
        }
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        if length > MAX_MESSAGE {
            return Err(MuxError::ReplyTooLarge { id, length });
        }
        let [first, rest] = frame_lengths(length);
        let mut socket = socket.lock().await;
        frame_start(&mut buffer, id, first);
        buffer.extend_from_slice(&head);
        buffer.resize(FRAME_HEADER + first as usize, 0);
        if pipe.read_exact(&mut buffer[FRAME_HEADER + MESSAGE_HEADER..]).await.is_err() {
            return Ok(());
        }
        socket.write_all(&buffer).await.map_err(MuxError::writing)?;
        if rest > 0 {
            send_rest(id, rest, &mut buffer, &mut pipe, &mut *socket).await?;
        }
        socket.flush().await.map_err(MuxError::writing)?;
    }
}

/// The second frame of a long message, in pieces.
async fn send_rest(
    id: u32,
    length: u32,
    buffer: &mut Vec<u8>,
    pipe: &mut ReadHalf<DuplexStream>,
    socket: &mut (impl AsyncWrite + Unpin),
) -> Result<(), MuxError> {
    frame_start(buffer, id, length);
    let mut left = length as usize;
    while left > 0 {
        let kept = buffer.len();
        let piece = left.min(FIRST_FRAME);
        buffer.resize(kept + piece, 0);
        // A near end that dies within a message leaves nothing that could be sent in its place.
        if pipe.read_exact(&mut buffer[kept..]).await.is_err() {
            return Err(MuxError::ServiceEnded { id });
        }
        socket.write_all(buffer).await.map_err(MuxError::writing)?;
        buffer.clear();
        left -= piece;
    }
    Ok(())
}

fn frame_start(buffer: &mut Vec<u8>, id: u32, length: u32) {
    buffer.clear();
    buffer.extend_from_slice(&id.to_be_bytes());
    buffer.extend_from_slice(&length.to_be_bytes());
}

/// The payload lengths of the one or two frames of a message of that length; the second may be zero.
fn frame_lengths(message: u32) -> [u32; 2] {
    let total = message + MESSAGE_HEADER as u32;
    let first = total.min(FIRST_FRAME as u32);
    [first, total - first]
}

/// Follows the message boundaries within one connection's bytes, so that garbage is noticed where it
/// starts: ttrpc itself would read on to the end of a message of up to 4 GiB and swallow what follows.
#[derive(Debug, Default)]
struct MessageWatch {
    head: [u8; MESSAGE_HEADER],
    have: usize,
    left: usize,
}

impl MessageWatch {
    /// Takes the next bytes; the error is a length over the limit.
    fn advance(&mut self, mut bytes: &[u8]) -> Result<(), u32> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let skip = self.left.min(bytes.len());
                (self.left, bytes) = (self.left - skip, &bytes[skip..]);
                continue;
            }
            let piece = (MESSAGE_HEADER - self.have).min(bytes.len());
            self.head[self.have..self.have + piece].copy_from_slice(&bytes[..piece]);
            (self.have, bytes) = (self.have + piece, &bytes[piece..]);
            if self.have == MESSAGE_HEADER {
                self.start_body()?;
            }
        }
        Ok(())
    }

    fn start_body(&mut self) -> Result<(), u32> {
        let length = u32::from_be_bytes([self.head[0], self.head[1], self.head[2], self.head[3]]);
        if length > MAX_MESSAGE {
            return Err(length);
        }
        (self.have, self.left) = (0, length as usize);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
