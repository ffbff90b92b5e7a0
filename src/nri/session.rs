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

/// What every connection needs.
pub(super) struct Registrar {
    /// Who we say we are.
    pub name: String,
    pub index: String,
    pub decider: Arc<Decider>,
    /// `failure.deadline_ms`.
    pub deadline: Duration,
    /// Whether a closed connection can be followed by another.
    pub can_return: bool,
    pub fault: Option<Fault>,
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
    /// What we were told to do cannot be done with this runtime.
    #[error("{0}")]
    Unusable(String),
    /// We ended it ourselves, to register again.
    #[error("closed to register again")]
    Again,
    /// We ended it ourselves: without the containers that run there is no ledger.
    #[error("the runtime that launched us does not tell which containers run")]
    Untold,
}

/// How a connection went.
#[derive(Debug)]
pub(super) struct End {
    /// Whether it got as far as a ledger.
    pub synchronized: bool,
    pub why: SessionError,
}

impl Registrar {
    /// Serves one connection until it ends. Dropping the future ends it too.
    pub async fn attend(&self, stream: UnixStream) -> End {
        self.attend_as(stream, false).await
    }

    /// `attend` with the connection of a runtime that launched us. One that does not tell of its containers there does
    /// so to a plugin that comes by its socket: that connection is left.
    pub async fn attend_launched(&self, stream: UnixStream) -> End {
        self.attend_as(stream, self.can_return).await
    }

    async fn attend_as(&self, stream: UnixStream, may_leave: bool) -> End {
        let decider = Arc::clone(&self.decider);
        let service = Arc::new(Service::new(decider, self.deadline, self.can_return, self.fault));
        let why = self.converse(stream, &service, may_leave).await.err().unwrap_or(SessionError::Closed);
        // The runtime closes after our answer, which only its own log has.
        let why = service.unusable().map_or(why, SessionError::Unusable);
        service.end();
        if service.synchronized() {
            self.decider.witness().disconnected();
        }
        End { synchronized: service.synchronized(), why }
    }

    async fn converse(
        &self,
        stream: UnixStream,
        service: &Arc<Service>,
        may_leave: bool,
    ) -> Result<(), SessionError> {
        let (near, carry) = mux::open(stream);
        let mut carry = std::pin::pin!(carry);
        // Serve first: Configure may come before RegisterPlugin has returned. The server ends with this scope.
        let _server = serve(near.plugin, service).await?;
        let runtime = RuntimeClient::new(Client::new(Socket::new(near.runtime)));
        tokio::select! {
            end = &mut carry => return Ok(end?),
            registered = self.register(&runtime) => registered?,
        }
        let closing = service.closing();
        tokio::select! {
            end = &mut carry => Ok(end?),
            () = closing.notified() => Err(SessionError::Again),
            () = service.left_untold(), if may_leave => Err(SessionError::Untold),
        }
    }

    async fn register(&self, runtime: &RuntimeClient) -> Result<(), SessionError> {
        let request = RegisterPluginRequest {
            plugin_name: self.name.clone(),
            plugin_idx: self.index.clone(),
            ..Default::default()
        };
        let registered = runtime.register_plugin(ttrpc::context::with_duration(REGISTRATION), &request).await;
        registered.map(drop).map_err(|source| SessionError::Register {
            index: self.index.clone(),
            name: self.name.clone(),
            source,
        })
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
