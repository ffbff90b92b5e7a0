//! maitred on the node: as a plugin, in the plugin directory, and its own commands.

use super::{MAITRED_CONFIG, MAITRED_RUN, NRI_SOCKET, Node, PLUGINS};
use crate::classes;
use crate::settings::Settings;
use crate::wait;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

impl Node {
    /// Takes away what maitred remembers outside the containers.
    pub(super) fn forget(&self) {
        let _ = fs::remove_dir_all(MAITRED_RUN);
    }

    pub fn write_maitred_config(&self, settings: &Settings) -> Result<()> {
        fs::create_dir_all("/etc/maitred")?;
        fs::write(MAITRED_CONFIG, settings.toml(&self.machine, self.lane))?;
        classes::write_configs()
    }

    /// Starts maitred as an external plugin and waits until containerd has taken it in.
    pub fn start_maitred(&mut self, settings: &Settings) -> Result<()> {
        let mark = self.containerd.mark();
        self.launch_maitred(settings)?;
        self.wait_registered(mark)
    }

    /// `start_maitred`, and no waiting.
    pub fn launch_maitred(&mut self, settings: &Settings) -> Result<()> {
        self.write_maitred_config(settings)?;
        self.running = Some(settings.clone());
        self.launch(settings.fault)
    }

    /// `start_maitred` with a configuration of the scenario's own.
    pub fn start_maitred_by(&mut self, config: &str) -> Result<()> {
        let mark = self.containerd.mark();
        fs::create_dir_all("/etc/maitred")?;
        fs::write(MAITRED_CONFIG, config)?;
        self.launch(None)?;
        self.wait_registered(mark)
    }

    fn launch(&mut self, fault: Option<&str>) -> Result<()> {
        if !self.with_maitred {
            return Ok(());
        }
        let mut command = Command::new(self.payload.join("maitred"));
        command.args(["nri", "--config", MAITRED_CONFIG]);
        if let Some(fault) = fault {
            command.env("MAITRED_FAULT", fault);
        }
        self.maitred.start(&mut command)
    }

    /// In maitred's place a plugin that does nothing; `stop_maitred` ends it.
    pub fn start_idle_plugin(&mut self) -> Result<()> {
        let mark = self.containerd.mark();
        let mut command = Command::new(self.payload.join("scenarios"));
        self.maitred.start(command.args(["--idle-plugin", NRI_SOCKET]))?;
        self.wait_plugin("idle", mark)
    }

    pub fn wait_registered(&mut self, mark: u64) -> Result<()> {
        self.wait_plugin("maitred", mark)
    }

    /// containerd says so in its log since `mark`, and only there.
    fn wait_plugin(&mut self, name: &str, mark: u64) -> Result<()> {
        if !self.with_maitred {
            return Ok(());
        }
        let (limit, said) = (self.patience(), self.version.registered());
        let (containerd, maitred) = (&self.containerd, &mut self.maitred);
        wait::until_alive(
            limit,
            "containerd has registered the plugin",
            || maitred.check_alive(),
            || {
                let log = containerd.since(mark);
                Ok(log.lines().any(|line| line.contains(name) && line.contains(said)))
            },
        )
    }

    /// Puts maitred into the plugin directory (it starts with containerd) or takes it out again.
    pub fn prelaunch(&mut self, settings: Option<&Settings>) -> Result<()> {
        let link = Path::new(PLUGINS).join("10-maitred");
        let _ = fs::remove_file(&link);
        self.stop_maitred()?;
        self.containerd.kill()?;
        if let Some(settings) = settings.filter(|_| self.with_maitred) {
            self.write_maitred_config(settings)?;
            self.forget();
            fs::create_dir_all(PLUGINS)?;
            std::os::unix::fs::symlink(self.payload.join("maitred"), &link)?;
        }
        self.start_containerd()
    }

    pub fn stop_maitred(&mut self) -> Result<()> {
        self.running = None;
        self.maitred.kill()
    }

    /// Runs one of maitred's own commands, such as `off`.
    pub fn maitred_command(&self, arguments: &[&str]) -> Result<()> {
        if !self.with_maitred {
            return Ok(());
        }
        let (code, text) = self.maitred_answer(arguments)?;
        anyhow::ensure!(code == 0, "maitred {arguments:?}: exit status {code}: {text}");
        Ok(())
    }

    /// What one of maitred's own commands prints, whatever its verdict; nothing without maitred.
    pub fn maitred_says(&self, arguments: &[&str]) -> Result<String> {
        if !self.with_maitred {
            return Ok("{\"findings\": []}".to_owned());
        }
        let output = Command::new(self.payload.join("maitred")).args(arguments).output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        let answered = matches!(output.status.code(), Some(0 | 1));
        anyhow::ensure!(answered, "maitred {arguments:?}: {}: {text}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Exit status and standard output of one of maitred's own commands; what it says on standard error comes after.
    pub fn maitred_answer(&self, arguments: &[&str]) -> Result<(i32, String)> {
        let output = Command::new(self.payload.join("maitred")).args(arguments).output()?;
        let text = [output.stdout, output.stderr].concat();
        let code = output.status.code().context("maitred was killed")?;
        Ok((code, String::from_utf8_lossy(&text).into_owned()))
    }
}
