//! A CRI client: gRPC by hand, one unary call at a time over HTTP/2 on containerd's socket.
//!
//! Each call makes its own connection: it costs well under a millisecond, survives a restarted
//! containerd without any care, and lets threads call in parallel.

use crate::messages::cri::*;
use anyhow::{Context, Result, anyhow, bail};
use bytes::{BufMut, Bytes, BytesMut};
use protobuf::Message;
use std::path::PathBuf;
use std::time::Duration;

/// gRPC's length-prefix: one byte of compression flag, four of length.
const PREFIX: usize = 5;

/// What containerd answered when it did not do what was asked.
#[derive(Debug)]
pub struct Refused {
    pub method: &'static str,
    pub code: u32,
    pub message: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(out, "{} answered code {}: {}", self.method, self.code, self.message)
    }
}

impl std::error::Error for Refused {}

#[derive(Clone)]
pub struct Cri {
    socket: PathBuf,
    limit: Duration,
}

impl Cri {
    pub fn new(socket: impl Into<PathBuf>, limit: Duration) -> Cri {
        Cri { socket: socket.into(), limit }
    }

    fn call<Answer: Message>(&self, method: &'static str, request: &impl Message) -> Result<Answer> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let body = request.write_to_bytes()?;
        let answer = runtime
            .block_on(async { tokio::time::timeout(self.limit, exchange(&self.socket, method, body)).await });
        let bytes = answer.map_err(|_| anyhow!("{method}: no answer in {:?}", self.limit))??;
        Answer::parse_from_bytes(&bytes).with_context(|| format!("{method}: answer"))
    }

    pub fn list_images(&self) -> Result<Vec<String>> {
        let answer: ListImagesResponse = self.call("ListImages", &Empty::default())?;
        Ok(answer.images.into_iter().flat_map(|image| image.repo_tags).collect())
    }

    pub fn version(&self) -> Result<VersionResponse> {
        self.call("Version", &VersionRequest::default())
    }

    /// Whether the runtime calls itself ready to run pods.
    pub fn ready(&self) -> Result<bool> {
        let answer: StatusResponse = self.call("Status", &Empty::default())?;
        let conditions = &answer.status.conditions;
        Ok(conditions.iter().any(|condition| condition.type_ == "RuntimeReady" && condition.status))
    }

    pub fn run_pod_sandbox(&self, config: &PodSandboxConfig, handler: &str) -> Result<String> {
        let request = RunPodSandboxRequest {
            config: Some(config.clone()).into(),
            runtime_handler: handler.to_owned(),
            ..Default::default()
        };
        let answer: RunPodSandboxResponse = self.call("RunPodSandbox", &request)?;
        Ok(answer.pod_sandbox_id)
    }

    pub fn stop_pod_sandbox(&self, id: &str) -> Result<()> {
        let _: Empty = self.call("StopPodSandbox", &sandbox_id(id))?;
        Ok(())
    }

    pub fn remove_pod_sandbox(&self, id: &str) -> Result<()> {
        let _: Empty = self.call("RemovePodSandbox", &sandbox_id(id))?;
        Ok(())
    }

    pub fn list_pod_sandboxes(&self) -> Result<Vec<PodSandbox>> {
        let answer: ListPodSandboxResponse = self.call("ListPodSandbox", &Empty::default())?;
        Ok(answer.items)
    }

    pub fn create_container(&self, request: &CreateContainerRequest) -> Result<String> {
        let answer: ContainerId = self.call("CreateContainer", request)?;
        Ok(answer.container_id)
    }

    pub fn start_container(&self, id: &str) -> Result<()> {
        let _: Empty = self.call("StartContainer", &container_id(id))?;
        Ok(())
    }

    /// Kills at once: the test image has nothing to save.
    pub fn stop_container(&self, id: &str) -> Result<()> {
        let request = StopContainerRequest { container_id: id.to_owned(), timeout: 0, ..Default::default() };
        let _: Empty = self.call("StopContainer", &request)?;
        Ok(())
    }

    pub fn remove_container(&self, id: &str) -> Result<()> {
        let _: Empty = self.call("RemoveContainer", &container_id(id))?;
        Ok(())
    }

    pub fn update_container(&self, id: &str, linux: LinuxContainerResources) -> Result<()> {
        let request = UpdateContainerResourcesRequest {
            container_id: id.to_owned(),
            linux: Some(linux).into(),
            ..Default::default()
        };
        let _: Empty = self.call("UpdateContainerResources", &request)?;
        Ok(())
    }

    pub fn container_status(&self, id: &str, verbose: bool) -> Result<ContainerStatusResponse> {
        let request = ContainerStatusRequest { container_id: id.to_owned(), verbose, ..Default::default() };
        self.call("ContainerStatus", &request)
    }
}

fn sandbox_id(id: &str) -> PodSandboxId {
    PodSandboxId { pod_sandbox_id: id.to_owned(), ..Default::default() }
}

fn container_id(id: &str) -> ContainerId {
    ContainerId { container_id: id.to_owned(), ..Default::default() }
}

async fn exchange(socket: &PathBuf, method: &'static str, message: Vec<u8>) -> Result<Bytes> {
    let stream = tokio::net::UnixStream::connect(socket)
        .await
        .with_context(|| format!("{method}: connecting to {}", socket.display()))?;
    let (client, connection) = h2::client::handshake(stream).await.context(method)?;
    let driver = tokio::spawn(connection);
    let answer = unary(client, method, message).await;
    driver.abort();
    answer
}

async fn unary(
    client: h2::client::SendRequest<Bytes>,
    method: &'static str,
    message: Vec<u8>,
) -> Result<Bytes> {
    let service = if method.ends_with("Images") { "ImageService" } else { "RuntimeService" };
    let request = http::Request::post(format!("http://localhost/runtime.v1.{service}/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?;
    let (response, mut to_send) = client.ready().await.context(method)?.send_request(request, false)?;
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len().try_into()?);
    framed.extend_from_slice(&message);
    to_send.send_data(framed.freeze(), true)?;

    let (head, mut body) = response.await.context(method)?.into_parts();
    let mut received = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.context(method)?;
        body.flow_control().release_capacity(chunk.len())?;
        received.extend_from_slice(&chunk);
    }
    // An error with no message at all comes as headers alone.
    let trailers = body.trailers().await.context(method)?.unwrap_or(head.headers);
    check_status(method, &trailers)?;
    if received.len() < PREFIX {
        bail!("{method}: an answer of {} bytes", received.len());
    }
    Ok(received.split_off(PREFIX).freeze())
}

fn check_status(method: &'static str, trailers: &http::HeaderMap) -> Result<()> {
    let text = |name| trailers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let code: u32 = text("grpc-status").parse().unwrap_or(2);
    if code == 0 {
        return Ok(());
    }
    Err(Refused { method, code, message: percent_decoded(text("grpc-message")) }.into())
}

/// gRPC writes bytes outside printable ASCII, and `%`, as `%XX`.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let coded = (*first == b'%').then(|| tail.get(..2)).flatten();
        let coded = coded.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(coded.unwrap_or(*first));
        rest = if coded.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
