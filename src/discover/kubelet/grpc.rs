//! One unary gRPC call over HTTP/2 on a Unix socket. A connection a call: it costs a fraction of a millisecond and
//! survives a restarted kubelet without any care.

use bytes::{BufMut, Bytes, BytesMut};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// gRPC's prefix of a message: a compression flag and four bytes of length.
const PREFIX: usize = 5;
/// The most that is taken of an answer: what the kubelet limits its own client to.
const MOST: usize = 16 << 20;

/// A method that the server does not have.
pub(super) const UNIMPLEMENTED: u32 = 12;
/// What was asked for is not there.
pub(super) const NOT_FOUND: u32 = 5;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum GrpcError {
    /// There is a socket, and nobody listens, or we may not.
    #[error("cannot connect to {}: {source}", path.display())]
    Connect { path: PathBuf, source: io::Error },
    /// HTTP/2 broke down.
    #[error("{method}: {source}")]
    Http2 { method: &'static str, source: h2::Error },
    /// A request that cannot be written.
    #[error("{method}: {source}")]
    Request { method: &'static str, source: http::Error },
    /// The server says no.
    #[error("{method} answered code {code}: {message}")]
    Refused { method: &'static str, code: u32, message: String },
    /// An answer that is none.
    #[error("{method} answered {bytes} bytes: expected one message of at most {MOST} bytes")]
    Size { method: &'static str, bytes: usize },
    /// A message that does not read as what it should be.
    #[error("{method}: {source}")]
    Message { method: &'static str, source: protobuf::Error },
    /// No answer within the budget.
    #[error("no answer within {} ms", after.as_millis())]
    Late { after: Duration },
    /// No reactor to wait with.
    #[error("cannot start a reactor: {0}")]
    Reactor(io::Error),
}

/// Which method of which service.
#[derive(Debug, Clone, Copy)]
pub(super) struct Method {
    pub service: &'static str,
    pub name: &'static str,
}

/// Runs calls to their end, or until the budget is used up.
pub(super) fn within<T>(
    budget: Duration,
    calls: impl Future<Output = Result<T, GrpcError>>,
) -> Result<T, GrpcError> {
    let reactor = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let reactor = reactor.map_err(GrpcError::Reactor)?;
    let done = reactor.block_on(async { tokio::time::timeout(budget, calls).await });
    done.unwrap_or(Err(GrpcError::Late { after: budget }))
}

/// Calls a method with one message and takes one back.
pub(super) async fn unary(socket: &Path, method: Method, message: &[u8]) -> Result<Bytes, GrpcError> {
    let broken = |source| GrpcError::Http2 { method: method.name, source };
    let stream = tokio::net::UnixStream::connect(socket).await;
    let stream = stream.map_err(|source| GrpcError::Connect { path: socket.into(), source })?;
    let (client, connection) = h2::client::handshake(stream).await.map_err(broken)?;
    let driver = tokio::spawn(connection);
    let answer = exchange(client, method, message).await;
    driver.abort();
    answer
}

async fn exchange(
    client: h2::client::SendRequest<Bytes>,
    method: Method,
    message: &[u8],
) -> Result<Bytes, GrpcError> {
    let name = method.name;
    let broken = |source| GrpcError::Http2 { method: name, source };
    let request = http::Request::post(format!("http://localhost/{}/{name}", method.service))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .map_err(|source| GrpcError::Request { method: name, source })?;
    let mut client = client.ready().await.map_err(broken)?;
    let (response, mut to_send) = client.send_request(request, false).map_err(broken)?;
    to_send.send_data(framed(message), true).map_err(broken)?;
    let (head, mut body) = response.await.map_err(broken)?.into_parts();
    let mut received = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(broken)?;
        body.flow_control().release_capacity(chunk.len()).map_err(broken)?;
        received.extend_from_slice(&chunk);
        if received.len() > MOST + PREFIX {
            return Err(GrpcError::Size { method: name, bytes: received.len() });
        }
    }
    // An error without any message comes as headers alone.
    let trailers = body.trailers().await.map_err(broken)?.unwrap_or(head.headers);
    refusal(name, &trailers)?;
    unframed(name, received)
}

fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.extend_from_slice(message);
    framed.freeze()
}

/// The message behind its prefix, which must say how long it is and that it is not compressed.
fn unframed(method: &'static str, mut received: BytesMut) -> Result<Bytes, GrpcError> {
    let bytes = received.len();
    let wrong = || GrpcError::Size { method, bytes };
    let length = received.get(1..PREFIX).and_then(|length| length.try_into().ok());
    let length = u32::from_be_bytes(length.ok_or_else(wrong)?) as usize;
    match received[0] == 0 && bytes == PREFIX + length {
        true => Ok(received.split_off(PREFIX).freeze()),
        false => Err(wrong()),
    }
}

fn refusal(method: &'static str, trailers: &http::HeaderMap) -> Result<(), GrpcError> {
    let text = |name| trailers.get(name).and_then(|value| value.to_str().ok());
    // A server that does not say how it ended has not ended well: 2 is "unknown".
    match text("grpc-status").and_then(|code| code.parse().ok()).unwrap_or(2) {
        0 => Ok(()),
        code => {
            let message = text("grpc-message").unwrap_or("no message").to_owned();
            Err(GrpcError::Refused { method, code, message })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_must_be_as_long_as_it_says() {
        let read = |bytes: &[u8]| unframed("Get", BytesMut::from(bytes)).ok();
        assert_eq!(read(&framed(b"hello")).as_deref(), Some(&b"hello"[..]));
        assert_eq!(read(&framed(b"")).as_deref(), Some(&b""[..]));
        for bad in [&b""[..], &[0, 0, 0], &[0, 0, 0, 0, 2, 1], &[0, 0, 0, 0, 1, 1, 1], &[1, 0, 0, 0, 1, 1]] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn an_end_without_a_status_is_no_answer() {
        let error = refusal("Get", &http::HeaderMap::new()).unwrap_err().to_string();
        assert_eq!(error, "Get answered code 2: no message");
    }

    #[test]
    fn waiting_ends_with_the_budget() {
        let late = within(Duration::from_millis(1), std::future::pending::<Result<(), GrpcError>>());
        assert_eq!(late.unwrap_err().to_string(), "no answer within 1 ms");
    }
}
