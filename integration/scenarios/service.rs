//! Starting, killing and reading the log of one service: containerd or maitred.

use anyhow::{Context, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

pub struct Service {
    name: &'static str,
    log: PathBuf,
    child: Option<Child>,
}

impl Service {
    pub fn new(name: &'static str) -> Service {
        Service { name, log: PathBuf::from(format!("/var/log/{name}.log")), child: None }
    }

    /// Starts `command` with its output appended to the service's log.
    pub fn start(&mut self, command: &mut Command) -> Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.with_context(|| format!("opening {}", self.log.display()))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.child = Some(command.spawn().with_context(|| format!("starting {}: {command:?}", self.name))?);
        Ok(())
    }

    /// An error once the process has ended by itself.
    pub fn check_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.as_mut().map(Child::try_wait).transpose()?.flatten() {
            anyhow::bail!("{} ended with {status}", self.name);
        }
        Ok(())
    }

    pub fn is_running(&mut self) -> bool {
        self.child.is_some() && self.check_alive().is_ok()
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// SIGKILL, as a crash does it: no goodbye to anyone.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            // Dead already is fine: killing is what was wanted.
            let _ = child.kill();
            child.wait().with_context(|| format!("waiting for {}", self.name))?;
        }
        Ok(())
    }

    /// How much has been logged so far: a mark to read from.
    pub fn mark(&self) -> u64 {
        fs::metadata(&self.log).map_or(0, |metadata| metadata.len())
    }

    pub fn since(&self, mark: u64) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(&self.log)?;
            file.seek(SeekFrom::Start(mark))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_default()
    }

    /// The last lines since `mark`, for a failure's report.
    pub fn tail(&self, mark: u64, lines: usize) -> String {
        let text = self.since(mark);
        let all: Vec<&str> = text.lines().collect();
        let shown = &all[all.len().saturating_sub(lines)..];
        shown.iter().map(|line| format!("    {}| {line}\n", self.name)).collect()
    }
}
