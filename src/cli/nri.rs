//! `maitred nri`: the daemon.

use super::{CliError, Exit};
use crate::config::Config;
use crate::log;
use std::path::PathBuf;

/// Run as NRI plugin of containerd
///
/// Connects to containerd's NRI socket, or takes the connection over when containerd started it from its plugin
/// directory; then it is called NN-maitred there and takes no arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The configuration [default: /etc/maitred/config.toml, if there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// containerd's NRI socket
    #[arg(long, value_name = "PATH", default_value = "/var/run/nri/nri.sock")]
    pub socket: PathBuf,
    /// The name to register with
    #[arg(long, value_name = "NAME", env = "NRI_PLUGIN_NAME", hide_env_values = true, default_value = "maitred", value_parser = name)]
    pub name: String,
    /// The place among the plugins, two digits
    #[arg(long, value_name = "NN", env = "NRI_PLUGIN_IDX", hide_env_values = true, default_value = "10", value_parser = index)]
    pub index: String,
    /// Read the machine from DIR/sys and DIR/proc
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub sysroot: PathBuf,
    /// Where allocations and the switch are kept
    #[arg(long, value_name = "DIR", default_value = crate::store::DEFAULT_DIR, hide = true)]
    pub store: PathBuf,
}

/// NRI takes these characters.
fn name(text: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c);
    match !text.is_empty() && text.chars().all(fine) {
        true => Ok(text.to_owned()),
        false => Err("expected letters, digits and any of _ . + -".into()),
    }
}

fn index(text: &str) -> Result<String, String> {
    match text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(text.to_owned()),
        false => Err("expected two digits, such as 10".into()),
    }
}

/// Runs the daemon until it is told to stop.
///
/// # Errors
/// The configuration is wrong, or the system failed.
pub fn run(args: &Args) -> Result<Exit, CliError> {
    let config = Config::load(args.config.as_deref())?;
    log::start(config.log)?;
    Err(CliError::NotWired { verb: "nri" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_or_index_that_containerd_would_refuse_is_refused() {
        assert!(name("maitred").is_ok() && name("a_b.c+d-9").is_ok());
        assert!(name("").is_err() && name("a b").is_err() && name("ä").is_err());
        assert!(index("00").is_ok() && index("99").is_ok());
        assert!(index("5").is_err() && index("100").is_err() && index("+1").is_err());
    }
}
