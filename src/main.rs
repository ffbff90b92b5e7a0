//! The binary: parse, dispatch, exit status.

use maitred::cli::Cli;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match Cli::of_process().run() {
        Ok(exit) => exit.code().into(),
        Err(error) => {
            // Nobody is left to tell when standard error is closed.
            let _ = writeln!(std::io::stderr(), "maitred: {error}");
            error.code().into()
        }
    }
}
