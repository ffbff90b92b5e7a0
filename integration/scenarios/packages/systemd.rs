//! systemd by its own commands, and dpkg.

use anyhow::{Context, Result, ensure};
use std::process::{Command, Stdio};

/// The unit that the package brings.
pub const UNIT: &str = "maitred.service";

/// What a command answered: its exit status and all it said.
pub struct Said {
    pub code: i32,
    pub text: String,
}

pub fn tell(program: &str, arguments: &[&str]) -> Result<Said> {
    let mut command = Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("starting {program}"))?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let code = output.status.code().with_context(|| format!("{program} {arguments:?} was killed"))?;
    Ok(Said { code, text })
}

/// `tell`, and an error where it did not do what it was told.
pub fn done(program: &str, arguments: &[&str]) -> Result<String> {
    let said = tell(program, arguments)?;
    ensure!(said.code == 0, "{program} {arguments:?}: exit status {}: {}", said.code, said.text);
    Ok(said.text)
}

/// A property of maitred's unit.
pub fn property(name: &str) -> Result<String> {
    of(UNIT, name)
}

pub fn of(unit: &str, name: &str) -> Result<String> {
    let text = done("systemctl", &["show", &format!("--property={name}"), "--value", unit])?;
    Ok(text.trim().to_owned())
}

/// A property that is a moment: microseconds since the machine's start.
pub fn moment(unit: &str, name: &str) -> Result<u64> {
    let text = of(unit, &format!("{name}TimestampMonotonic"))?;
    text.parse().with_context(|| format!("{name}TimestampMonotonic of {unit} is {text:?}"))
}

/// The unit's main process, if it has one.
pub fn main_pid(unit: &str) -> Result<Option<u32>> {
    let text = of(unit, "MainPID")?;
    let pid: u32 = text.parse().with_context(|| format!("MainPID of {unit} is {text:?}"))?;
    Ok(Some(pid).filter(|pid| *pid != 0))
}

/// When systemd was last told to read its units anew, in microseconds since the machine's start; 0 is never.
pub fn units_read() -> Result<String> {
    let text = done("systemctl", &["show", "--property=UnitsLoadTimestampMonotonic", "--value"])?;
    ensure!(text.trim().parse::<u64>().is_ok(), "UnitsLoadTimestampMonotonic is {text:?}");
    Ok(text.trim().to_owned())
}
