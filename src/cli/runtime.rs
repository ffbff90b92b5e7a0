//! `maitred runtime`, or a link to the binary called `maitred-runtime`: the runtime wrapper.

use super::Exit;
use crate::oci::runtime::{self, LINK};
use std::ffi::OsString;
use std::path::Path;

/// Stand in front of runc, crun, youki or nvidia-container-runtime
///
/// Takes the runtime's own arguments, as does a link to this program called maitred-runtime. On create and run the
/// container is seated: its bundle's config.json is edited, or it does not start. Then, as with every other verb at
/// once, the runtime takes over this very process. The runtime is [runtime] path of the configuration, else runc,
/// crun or youki on PATH.
///
/// MAITRED_CONFIG in the environment names another configuration file.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// What the runtime is called with
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// The runtime's arguments, if this process was called as the wrapper. Looked at before the command line is parsed:
/// it is not ours, and the runtime is to be there soon.
#[must_use]
pub fn called_as(arguments: &[OsString]) -> Option<&[OsString]> {
    let (program, rest) = arguments.split_first()?;
    if Path::new(program).file_name().is_some_and(|name| name == LINK) {
        return Some(rest);
    }
    rest.split_first()
        .filter(|(verb, _)| *verb == "runtime")
        .map(|(_, rest)| rest)
        .filter(|rest| !asks_for_help(rest))
}

/// `maitred runtime --help` is ours; with the link it is the runtime's.
fn asks_for_help(rest: &[OsString]) -> bool {
    rest.len() == 1 && (rest[0] == "--help" || rest[0] == "-h")
}

/// Becomes the runtime.
#[must_use]
pub fn run(arguments: &[OsString]) -> Exit {
    match runtime::run(arguments) {
        0 => Exit::Fine,
        _ => Exit::Negative,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_and_the_verb_are_the_wrapper() {
        let of = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            called_as(&words).map(<[OsString]>::to_vec)
        };
        assert_eq!(
            of(&["/usr/bin/maitred-runtime", "create", "c1"]),
            Some(vec!["create".into(), "c1".into()])
        );
        assert_eq!(of(&["maitred", "runtime", "--root", "/r"]), Some(vec!["--root".into(), "/r".into()]));
        assert_eq!(of(&["maitred-runtime", "--help"]), Some(vec!["--help".into()]));
        assert_eq!(of(&["maitred", "runtime", "--help"]), None);
        assert_eq!(of(&["maitred", "plan", "runtime"]), None);
        assert_eq!(of(&[]), None);
    }
}
