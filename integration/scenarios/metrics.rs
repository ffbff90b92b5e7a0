//! The daemon's metrics, as Prometheus asks for them.

use crate::expect::Unmet;
use anyhow::Result;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The page; a page of nothing where nobody serves it.
pub fn page() -> Result<String> {
    let Ok(mut stream) = TcpStream::connect("127.0.0.1:9733") else { return Ok(String::new()) };
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

pub fn value(page: &str, series: &str) -> Result<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let Some(line) = line else { return Err(Unmet(format!("nobody serves {series}: {page}")).into()) };
    Ok(line.trim().parse()?)
}
