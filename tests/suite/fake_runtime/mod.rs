//! Plays containerd's side of NRI: frames as its Go code writes and reads them, the Plugin service called
//! on connection 1, the Runtime service served on connection 2. Shares no code with the mux under test.

mod daemon;
mod frames;
mod messages;
mod spec;

pub use daemon::{Daemon, Place, Scripted, Seen, rejection};
pub use messages::{container, guaranteed_pod, pod_request};
pub use spec::{Cdi, Numbers, Open, Spec};

use futures::{StreamExt, stream};
use maitred::nri::proto::nri_ttrpc::{PluginClient, Runtime, create_runtime};
use maitred::nri::proto::{
    ConfigureRequest, ConfigureResponse, Container, ContainerRequest, CreateContainerRequest,
    CreateContainerResponse, Empty, PodSandbox, RegisterPluginRequest, SynchronizeRequest,
    SynchronizeResponse,
};
use protobuf::MessageField;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use ttrpc::asynchronous::transport::{Listener, Socket};
use ttrpc::asynchronous::{Client, Server, TtrpcContext};
use ttrpc::context::Context;

/// What containerd waits by default.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// One plugin's connection, from the runtime's side.
pub struct FakeRuntime {
    /// Calls the plugin.
    pub plugin: PluginClient,
    /// What it registered as.
    pub registered: RegisterPluginRequest,
    _server: Server,
    frames: JoinHandle<()>,
}

impl Drop for FakeRuntime {
    /// As a runtime that dies: the socket closes whatever is under way.
    fn drop(&mut self) {
        self.frames.abort();
    }
}

struct Registry(mpsc::UnboundedSender<RegisterPluginRequest>);

#[async_trait::async_trait]
impl Runtime for Registry {
    async fn register_plugin(
        &self,
        _: &TtrpcContext,
        request: RegisterPluginRequest,
    ) -> ttrpc::Result<Empty> {
        self.0.send(request).unwrap();
        Ok(Empty::default())
    }
}

/// A context with containerd's timeout.
pub fn patience() -> Context {
    ttrpc::context::with_duration(REQUEST_TIMEOUT)
}

/// The text of a refused call.
pub fn refused<T: std::fmt::Debug>(result: ttrpc::Result<T>) -> String {
    match result.unwrap_err() {
        ttrpc::Error::RpcStatus(status) => status.message().to_owned(),
        other => panic!("no status: {other}"),
    }
}

impl FakeRuntime {
    /// Serves one accepted connection up to the plugin's registration.
    pub async fn over(stream: UnixStream) -> Self {
        let (near_plugin, near_runtime, carry) = frames::open(stream);
        let frames = tokio::spawn(carry);
        let (register, mut registrations) = mpsc::unbounded_channel();
        let accepted = stream::once(async move { Ok(near_runtime) }).chain(stream::pending());
        let mut server = Server::new()
            .add_listener(Listener::new(accepted))
            .register_service(create_runtime(Arc::new(Registry(register))));
        server.start().await.unwrap();
        let plugin = PluginClient::new(Client::new(Socket::new(near_plugin)));
        let registered = tokio::time::timeout(Duration::from_secs(5), registrations.recv());
        let registered = registered.await.expect("the plugin registers").expect("the plugin registers");
        Self { plugin, registered, _server: server, frames }
    }

    /// Configures the plugin as a containerd of that version would.
    pub async fn configure(&self, version: &str) -> ttrpc::Result<ConfigureResponse> {
        self.configure_with(ConfigureRequest {
            runtime_name: "containerd".into(),
            runtime_version: version.into(),
            ..Default::default()
        })
        .await
    }

    /// Configures the plugin; the usual timeouts are added.
    pub async fn configure_with(&self, mut request: ConfigureRequest) -> ttrpc::Result<ConfigureResponse> {
        request.registration_timeout = 5000;
        if request.request_timeout == 0 {
            request.request_timeout = 2000;
        }
        self.plugin.configure(patience(), &request).await
    }

    /// Synchronizes a runtime with nothing on it.
    pub async fn synchronize_nothing(&self) -> SynchronizeResponse {
        self.plugin.synchronize(patience(), &SynchronizeRequest::default()).await.unwrap()
    }

    /// The handshake of a containerd 2.1.9 with nothing on it.
    pub async fn welcome(stream: UnixStream) -> Self {
        let runtime = Self::over(stream).await;
        runtime.configure("v2.1.9").await.unwrap();
        runtime.synchronize_nothing().await;
        runtime
    }

    /// CreateContainer.
    pub async fn create(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> ttrpc::Result<CreateContainerResponse> {
        let request = CreateContainerRequest {
            pod: MessageField::some(pod),
            container: MessageField::some(container),
            ..Default::default()
        };
        self.plugin.create_container(patience(), &request).await
    }

    /// CreateContainer of a Guaranteed pod's container of that id.
    pub async fn create_id(&self, id: &str) -> ttrpc::Result<CreateContainerResponse> {
        self.create(guaranteed_pod("p"), container(id)).await
    }
}

/// A request about a container of a Guaranteed pod.
pub fn container_request(id: &str) -> ContainerRequest {
    ContainerRequest {
        pod: MessageField::some(guaranteed_pod("p")),
        container: MessageField::some(container(id)),
        ..Default::default()
    }
}
