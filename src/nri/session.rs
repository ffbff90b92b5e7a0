//! One connection to the runtime, from registration to its end.

use super::decider::Decider;
use super::fault::Fault;
use super::mux::{self, MuxError};
use super::plugin::Service;
use super::proto::RegisterPluginRequest;
use super::proto::nri_ttrpc::{RuntimeClient, create_plugin};
use futures::StreamExt;
use futures::stream;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::net::UnixStream;
use ttrpc::asynchronous::transport::{Listener, Socket};
use ttrpc::asynchronous::{Client, Server};

/// How long RegisterPlugin may take; the runtime itself gives up on a silent plugin after as long.
const REGISTRATION: Duration = Duration::from_secs(5);

/// Who we say we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub name: String,
    pub index: String,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The runtime closed it between two frames.
    #[error("the runtime closed the connection")]
    Closed,
    /// The transport failed.
    #[error(transparent)]
    Mux(#[from] MuxError),
    /// The runtime did not take us.
    #[error("cannot register with the runtime as {index}-{name}: {source}")]
    Register { index: String, name: String, source: ttrpc::Error },
    /// Our service did not start.
    #[error("cannot serve the plugin service: {0}")]
    Serve(ttrpc::Error),
    /// We ended it ourselves, to register again.
    #[error("closed to register again")]
    Again,
}

/// How a connection went.
#[derive(Debug)]
pub(super) struct End {
    /// Whether it got as far as a ledger.
    pub synchronized: bool,
    pub why: SessionError,
}

/// Serves one connection until it ends. Dropping the future ends it too.
pub(super) async fn attend(
    stream: UnixStream,
    identity: &Identity,
    decider: &Arc<Decider>,
    deadline: Duration,
    fault: Option<Fault>,
) -> End {
    let service = Arc::new(Service::new(Arc::clone(decider), deadline, fault));
    let why = match converse(stream, identity, &service).await {
        Err(why) => why,
        Ok(()) => SessionError::Closed,
    };
    service.end();
    End { synchronized: service.synchronized(), why }
}

async fn converse(
    stream: UnixStream,
    identity: &Identity,
    service: &Arc<Service>,
) -> Result<(), SessionError> {
    let (near, carry) = mux::open(stream);
    let mut carry = std::pin::pin!(carry);
    // Serve first: Configure may arrive before RegisterPlugin has returned. The server ends with this scope.
    let _server = serve(near.plugin, service).await?;
    let runtime = RuntimeClient::new(Client::new(Socket::new(near.runtime)));
    tokio::select! {
        end = &mut carry => return Ok(end?),
        registered = register(&runtime, identity) => registered?,
    }
    let closing = service.closing();
    tokio::select! {
        end = &mut carry => Ok(end?),
        () = closing.notified() => Err(SessionError::Again),
    }
}

async fn serve(connection: DuplexStream, service: &Arc<Service>) -> Result<Server, SessionError> {
    // One connection and then none, but no end either: a listener that ends breaks the server's shutdown.
    let accepted = stream::once(async move { Ok(connection) }).chain(stream::pending());
    let mut server = Server::new()
        .add_listener(Listener::new(accepted))
        .register_service(create_plugin(Arc::clone(service) as _));
    server.start().await.map_err(SessionError::Serve)?;
    Ok(server)
}

async fn register(runtime: &RuntimeClient, identity: &Identity) -> Result<(), SessionError> {
    let request = RegisterPluginRequest {
        plugin_name: identity.name.clone(),
        plugin_idx: identity.index.clone(),
        ..Default::default()
    };
    let registered = runtime.register_plugin(ttrpc::context::with_duration(REGISTRATION), &request).await;
    registered.map(drop).map_err(|source| SessionError::Register {
        index: identity.index.clone(),
        name: identity.name.clone(),
        source,
    })
}
