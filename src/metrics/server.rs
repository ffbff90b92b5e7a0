//! The page over HTTP, on a thread and a reactor of its own: a scrape never waits for a decision, nor a decision for
//! a scrape.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Makes the page anew.
pub type Page = Arc<dyn Fn() -> String + Send + Sync>;

/// What Prometheus takes for OpenMetrics text.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Scrapers at once; one more waits.
const MOST: usize = 8;
/// How long a connection may be idle or slow.
const PATIENCE: Duration = Duration::from_secs(10);

/// Listens and serves until the process ends; the address it has, since a port of 0 is any.
///
/// # Errors
/// Nobody can listen there, or there is no thread for it.
pub fn serve(address: SocketAddr, page: Page) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        if let Err(error) = reactor.block_on(accept(listener, page)) {
            tracing::error!(%error, "metrics are served no more");
        }
    };
    std::thread::Builder::new().name("metrics".into()).spawn(run)?;
    Ok(address)
}

async fn accept(listener: TcpListener, page: Page) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let slots = Arc::new(Semaphore::new(MOST));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return Ok(()) };
        match listener.accept().await {
            Ok((stream, _)) => {
                let page = Arc::clone(&page);
                tokio::spawn(async move {
                    converse(stream, page).await;
                    drop(slot);
                });
            }
            // Out of descriptors, or a scraper that went away: the next may have more luck.
            Err(error) => {
                tracing::debug!(%error, "a scraper was not served");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// One connection. Whatever ends it is the scraper's affair.
async fn converse(stream: tokio::net::TcpStream, page: Page) {
    let answer = service_fn(move |request| {
        let answer = answer(&request, &page);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let connection = server.serve_connection(TokioIo::new(stream), answer);
    let _ = tokio::time::timeout(PATIENCE * 6, connection).await;
}

fn answer(request: &Request<Incoming>, page: &Page) -> Response<Full<Bytes>> {
    let text = |status, text: &str| {
        let mut response = Response::new(Full::from(text.to_owned()));
        *response.status_mut() = status;
        response
    };
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let mut response = Response::new(Full::from(page()));
            response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(OPENMETRICS));
            response
        }
        (&Method::GET | &Method::HEAD, "/") => text(StatusCode::OK, "maitred: see /metrics\n"),
        (&Method::GET | &Method::HEAD, _) => text(StatusCode::NOT_FOUND, "expected /metrics\n"),
        _ => {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "expected GET\n");
            response.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
            response
        }
    }
}
