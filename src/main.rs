//! The binary: parse, dispatch, exit status.

use maitred::cli::{Cli, harmless, runtime};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(arguments) = runtime::called_as(&arguments) {
        return runtime::run(arguments).code().into();
    }
    match Cli::of_process().run() {
        Ok(exit) => exit.code().into(),
        Err(error) => {
            // Nobody is left to tell when standard error is closed.
            let _ = writeln!(std::io::stderr(), "maitred: {}", harmless(&error.to_string()));
            error.code().into()
        }
    }
}
