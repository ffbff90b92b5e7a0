//! The node of the story: what systemd runs on it, and the containers.

use super::tenants::Tenants;
use super::{containerd, daemon, systemd};
use crate::expect::{self, expected};
use crate::node::{MAITRED_CONFIG, Node};
use crate::options::Options;
use crate::settings::Settings;
use crate::wait;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The three packages of the lane, by the names it gave them.
pub const OLDER: &str = "older";
pub const THIS: &str = "this";
pub const NEWER: &str = "newer";

pub struct Host {
    pub node: Node,
    pub tenants: Tenants,
    payload: PathBuf,
    /// containerd's process: nobody but the story itself ends it.
    containerd: u32,
    /// When systemd last read its units: nobody but the story itself has it do so.
    units_read: String,
}

impl Host {
    pub fn set_up(options: &Options) -> Result<Host> {
        ensure!(
            fs::metadata("/run/systemd/system").is_ok(),
            "process 1 is not systemd: MAITRED_GUEST=systemd"
        );
        let node = Node::new(options)?;
        // The lanes have no use for man pages; a node has.
        for entry in fs::read_dir("/etc/dpkg/dpkg.cfg.d").into_iter().flatten().flatten() {
            fs::remove_file(entry.path())?;
        }
        containerd::configure()?;
        let mut host = Host {
            node,
            tenants: Tenants::default(),
            payload: options.payload.clone(),
            containerd: 0,
            units_read: String::new(),
        };
        let before = systemd::units_read()?;
        host.reload()?;
        ensure!(
            host.units_read != before,
            "a daemon-reload is not seen: UnitsLoadTimestampMonotonic stays {before}"
        );
        host.restart_containerd()?;
        host.node.import_images()?;
        // systemd has been asked for the unit before there is one, as a monitoring agent may do it.
        expect::same(
            "the unit before its package",
            &"not-found".to_owned(),
            &systemd::property("LoadState")?,
        )?;
        let version = host.node.cri.version()?;
        println!("{} {}, {}", version.runtime_name, version.runtime_version, first_line("systemctl")?);
        Ok(host)
    }

    pub fn patience(&self) -> Duration {
        self.node.patience()
    }

    /// The story's own daemon-reload.
    pub fn reload(&mut self) -> Result<()> {
        systemd::done("systemctl", &["daemon-reload"])?;
        self.units_read = systemd::units_read()?;
        Ok(())
    }

    /// The story's own restart of containerd.
    pub fn restart_containerd(&mut self) -> Result<()> {
        systemd::done("systemctl", &["restart", containerd::UNIT])?;
        self.containerd_is_new()
    }

    /// containerd has been started by the story: from now on this is the one nobody ends.
    pub fn containerd_is_new(&mut self) -> Result<()> {
        let cri = &self.node.cri;
        wait::until(self.patience(), "containerd is ready for pods", || cri.ready())?;
        let pid = systemd::main_pid(containerd::UNIT)?.context("containerd has a process")?;
        ensure!(pid != self.containerd, "containerd is still the process {pid}");
        self.containerd = pid;
        Ok(())
    }

    pub fn containerd(&self) -> u32 {
        self.containerd
    }

    /// Containers are as they were, containerd too, and nobody had systemd read its units.
    pub fn is_undisturbed(&self) -> Result<()> {
        let pid = systemd::main_pid(containerd::UNIT)?;
        expect::same("containerd's process", &Some(self.containerd), &pid)?;
        expect::same("when systemd read its units", &self.units_read, &systemd::units_read()?)?;
        self.tenants.undisturbed(&self.node)
    }

    /// `dpkg --install` of one of the lane's packages; what it said.
    pub fn install(&self, which: &str) -> Result<String> {
        let deb = self.payload.join(format!("{which}.deb"));
        let deb = deb.to_string_lossy();
        systemd::done("dpkg", &["--install", "--force-confdef", "--force-confold", &deb])
    }

    /// The owner's configuration, with more at its end.
    pub fn write_config(&self, more: &str) -> Result<()> {
        let text = Settings::ENFORCE.toml(&self.node.machine, self.node.lane) + more;
        fs::write(MAITRED_CONFIG, text).with_context(|| format!("writing {MAITRED_CONFIG}"))
    }

    /// Waits until the unit runs as another process than `before` and containerd has that.
    pub fn returned(&self, before: u32) -> Result<u32> {
        wait::until_seen(self.patience(), "systemd has started maitred again", || {
            let (state, pid) = (systemd::property("ActiveState")?, systemd::main_pid(systemd::UNIT)?);
            let is_new = state == "active" && pid.is_some_and(|pid| pid != before);
            Ok((!is_new).then(|| format!("{state}, process {pid:?}, before it {before}")))
        })?;
        daemon::registered(self.patience(), 1)?;
        daemon::only()
    }

    pub fn show_logs(&self) {
        for arguments in [
            ["status", "--no-pager", "--lines=0", "--full", systemd::UNIT].as_slice(),
            ["--unit=maitred", "--no-pager", "--lines=20", "--output=short-monotonic"].as_slice(),
            ["--unit=containerd", "--no-pager", "--lines=12", "--output=short-monotonic"].as_slice(),
        ] {
            let program = if arguments[0] == "status" { "systemctl" } else { "journalctl" };
            if let Ok(said) = systemd::tell(program, arguments) {
                said.text.lines().for_each(|line| println!("    | {line}"));
            }
        }
    }
}

fn first_line(program: &str) -> Result<String> {
    let text = systemd::done(program, &["--version"])?;
    let line = text.lines().next();
    expected!(line.is_some(), "{program} --version says nothing");
    Ok(line.unwrap_or_default().to_owned())
}
