//! The kubelet's podresources service, played: gRPC on its socket, answered from a book of allotments.
//!
//! One thread with a reactor of its own for as long as it stands. It can also be an older kubelet (List
//! alone), a slow one, one that talks nonsense, and it counts what it is asked.

use crate::allotted::Book;
use anyhow::{Context, Result};
use bytes::{BufMut, Bytes, BytesMut};
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use maitred::discover::kubelet::proto::*;
use protobuf::Message;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;

pub const SOCKET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";
const SERVICE: &str = "/v1.PodResourcesLister/";
/// gRPC's codes for "unknown", which is what the kubelet answers for a pod it does not know, and for
/// "unimplemented".
const UNKNOWN: u16 = 2;
const UNIMPLEMENTED: u16 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Get and List, at once.
    Current,
    /// As before 1.34: Get is not implemented.
    ListOnly,
    /// Current, but each answer takes this long.
    Slow(Duration),
    /// Answers every call with bytes that are no message.
    Garbage,
}

/// A running server; its socket goes with it.
pub struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    calls: Arc<AtomicU32>,
}

struct Desk {
    manner: Manner,
    book: Arc<Mutex<Book>>,
    calls: Arc<AtomicU32>,
}

impl Server {
    pub fn start(manner: Manner, book: Arc<Mutex<Book>>) -> Result<Server> {
        let path = Path::new(SOCKET);
        std::fs::create_dir_all(path.parent().context("the socket lies in a directory")?)?;
        let _ = std::fs::remove_file(path);
        let calls = Arc::new(AtomicU32::new(0));
        let desk = Arc::new(Desk { manner, book, calls: calls.clone() });
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = reactor.enter();
            UnixListener::bind(path).with_context(|| format!("listening on {SOCKET}"))?
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            reactor.block_on(async {
                tokio::select! {
                    () = accept(&listener, &desk) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Server { stop: Some(stop), thread: Some(thread), calls })
    }

    /// How many calls have come so far.
    pub fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(SOCKET);
    }
}

async fn accept(listener: &UnixListener, desk: &Arc<Desk>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, desk.clone()));
    }
}

/// A client that goes away in the middle of a call is no fault of ours.
async fn serve(stream: UnixStream, desk: Arc<Desk>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let desk = desk.clone();
        tokio::spawn(async move {
            let _ = answer(request, respond, &desk).await;
        });
    }
}

async fn answer(request: Request<h2::RecvStream>, respond: SendResponse<Bytes>, desk: &Desk) -> Result<()> {
    desk.calls.fetch_add(1, Ordering::Relaxed);
    let method = request.uri().path().strip_prefix(SERVICE).unwrap_or_default().to_owned();
    let mut body = request.into_body();
    let mut received = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        received.extend_from_slice(&chunk);
    }
    if let Manner::Slow(by) = desk.manner {
        tokio::time::sleep(by).await;
    }
    let message = received.get(5..).unwrap_or_default();
    send(respond, desk.reply(&method, message))
}

impl Desk {
    /// The message, or the code and text of a refusal.
    fn reply(&self, method: &str, message: &[u8]) -> Result<Vec<u8>, (u16, String)> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let internal = |error: protobuf::Error| (UNKNOWN, error.to_string());
        match method {
            _ if self.manner == Manner::Garbage => Ok(vec![0xff; 7]),
            "List" => book.list().write_to_bytes().map_err(internal),
            "Get" if self.manner != Manner::ListOnly => {
                let asked = GetPodResourcesRequest::parse_from_bytes(message).map_err(internal)?;
                let (namespace, name) = (asked.pod_namespace, asked.pod_name);
                let found = book.get(&namespace, &name);
                let found = found
                    .ok_or_else(|| (UNKNOWN, format!("pod {name} in namespace {namespace} not found")))?;
                let answer =
                    GetPodResourcesResponse { pod_resources: Some(found).into(), ..Default::default() };
                answer.write_to_bytes().map_err(internal)
            }
            _ => Err((UNIMPLEMENTED, format!("unknown method {method}"))),
        }
    }
}

fn send(mut respond: SendResponse<Bytes>, reply: Result<Vec<u8>, (u16, String)>) -> Result<()> {
    let head = Response::builder().header("content-type", "application/grpc").body(())?;
    let mut stream = respond.send_response(head, false)?;
    let mut trailers = HeaderMap::new();
    match reply {
        Ok(message) => {
            let mut framed = BytesMut::with_capacity(5 + message.len());
            framed.put_u8(0);
            framed.put_u32(message.len().try_into()?);
            framed.extend_from_slice(&message);
            stream.send_data(framed.freeze(), false)?;
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
        }
        Err((code, text)) => {
            trailers.insert("grpc-status", HeaderValue::from(code));
            trailers.insert("grpc-message", HeaderValue::from_str(&text)?);
        }
    }
    stream.send_trailers(trailers)?;
    Ok(())
}
