//! A runtime's command line, as far as the wrapper must understand it: which verb, and for `create` and `run` which
//! container and which bundle. runc, crun, youki and nvidia-container-runtime share it; an option nobody knows is
//! taken for one without a value, unless it has an `=`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Global options with a value, of all these runtimes.
const GLOBAL: &[&str] =
    &["log", "log-format", "log-level", "root", "criu", "rootless", "cgroup-manager", "l", "r"];

/// Options of `create` and `run` with a value.
const MAKING: &[&str] = &[
    "bundle",
    "b",
    "console-socket",
    "pid-file",
    "preserve-fds",
    "pidfd-socket",
    "config",
    "f",
    "notify-socket",
];

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Call {
    /// The runtime's log (`--log`).
    pub log: Option<PathBuf>,
    /// Whether that is JSON lines (`--log-format json`).
    pub json_log: bool,
    /// Cgroups are systemd's (`--systemd-cgroup`, `--cgroup-manager systemd`).
    pub systemd: bool,
    pub verb: Verb,
}

/// The verb, as far as it concerns us.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Verb {
    /// `create` or `run`.
    Make(Making),
    /// `delete`.
    Delete,
    /// All others, or none.
    #[default]
    Other,
}

/// A container about to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Making {
    pub id: OsString,
    pub bundle: PathBuf,
    /// crun can be given another file than `BUNDLE/config.json`.
    pub config: Option<PathBuf>,
}

impl Call {
    /// Reads the arguments after the program's name.
    pub fn parse(arguments: &[OsString]) -> Self {
        let mut call = Self::default();
        let mut words = Words { rest: arguments, ended: false };
        while let Some(word) = words.next(GLOBAL) {
            match word {
                Word::Option(name, value) => call.global(&name, value),
                Word::Plain(verb) => {
                    call.verb = verb_of(&verb, words);
                    break;
                }
            }
        }
        call
    }

    fn global(&mut self, name: &str, value: Option<OsString>) {
        match (name, value) {
            ("log" | "l", Some(path)) => self.log = Some(path.into()),
            ("log-format", Some(format)) => self.json_log = format == "json",
            ("systemd-cgroup" | "s", value) => self.systemd = value.is_none_or(|value| value != "false"),
            ("cgroup-manager", Some(manager)) => self.systemd = manager == "systemd",
            _ => {}
        }
    }
}

fn verb_of(verb: &OsStr, mut words: Words<'_>) -> Verb {
    match verb.as_bytes() {
        b"create" | b"run" => {}
        b"delete" => return Verb::Delete,
        _ => return Verb::Other,
    }
    let (mut bundle, mut config, mut id) = (PathBuf::from("."), None, None);
    while let Some(word) = words.next(MAKING) {
        match word {
            Word::Option(name, Some(value)) if name == "bundle" || name == "b" => bundle = value.into(),
            Word::Option(name, Some(value)) if name == "config" || name == "f" => config = Some(value.into()),
            Word::Option(..) => {}
            Word::Plain(word) => id = id.or(Some(word)),
        }
    }
    // Without an id there is nothing to make: the runtime says so better.
    id.map_or(Verb::Other, |id| Verb::Make(Making { id, bundle, config }))
}

enum Word {
    /// Without its dashes, with its value where it has one.
    Option(String, Option<OsString>),
    Plain(OsString),
}

/// Arguments one after the other.
struct Words<'a> {
    rest: &'a [OsString],
    /// `--` was there: all that follows is plain.
    ended: bool,
}

impl Words<'_> {
    /// The next word; options of `with_value` take the word after them along.
    fn next(&mut self, with_value: &[&str]) -> Option<Word> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        if !self.ended && first == "--" {
            self.ended = true;
            return self.next(with_value);
        }
        // A dash alone is a plain word, and so is what is no text: no option is called so.
        let name = first
            .to_str()
            .filter(|word| !self.ended && word.len() > 1)
            .and_then(|word| word.strip_prefix('-'));
        let Some(name) = name else { return Some(Word::Plain(first.clone())) };
        let long = name.strip_prefix('-');
        let name = long.unwrap_or(name);
        if let Some((name, value)) = name.split_once('=') {
            return Some(Word::Option(name.to_owned(), Some(value.into())));
        }
        if with_value.contains(&name) {
            let (value, rest) = self
                .rest
                .split_first()
                .map_or((None, self.rest), |(value, rest)| (Some(value.clone()), rest));
            self.rest = rest;
            return Some(Word::Option(name.to_owned(), value));
        }
        Some(attached(name, long.is_some(), with_value))
    }
}

/// `-b/bundle`: a short option with its value at once. Go's flags are long with one dash, too.
fn attached(name: &str, long: bool, with_value: &[&str]) -> Word {
    let short = name.chars().next().filter(|_| !long && name.contains('/'));
    match short.filter(|short| with_value.contains(&short.to_string().as_str())) {
        Some(short) => Word::Option(short.to_string(), Some(name[short.len_utf8()..].into())),
        None => Word::Option(name.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> Call {
        Call::parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    fn making(line: &str) -> (String, String) {
        match call(line).verb {
            Verb::Make(making) => (making.id.into_string().unwrap(), making.bundle.display().to_string()),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn containerd_podman_and_people_all_name_container_and_bundle() {
        let told = |id: &str, bundle: &str| (id.to_owned(), bundle.to_owned());
        assert_eq!(
            making(
                "--root /run/containerd/runc/k8s.io --log /b/log.json --log-format json create --bundle /b \
                 --pid-file /b/init.pid --console-socket /s c1"
            ),
            told("c1", "/b")
        );
        assert_eq!(
            making("--systemd-cgroup --log-format=json --log=/l create --bundle=/b --preserve-fds 3 c1"),
            told("c1", "/b")
        );
        assert_eq!(making("run c1"), told("c1", "."));
        assert_eq!(making("run -b /b -d c1"), told("c1", "/b"));
        assert_eq!(making("run -b/b --keep c1"), told("c1", "/b"));
        assert_eq!(making("-root /r run -bundle /b c1"), told("c1", "/b"));
        assert_eq!(making("create --bundle /b -- -odd"), told("-odd", "/b"));
        assert_eq!(making("create --no-pivot --no-new-keyring --bundle /b c1"), told("c1", "/b"));
        assert_eq!(making("--new-option create --other=x c1"), told("c1", "."));
    }

    #[test]
    fn everything_else_is_none_of_our_business() {
        for line in [
            "",
            "--version",
            "state c1",
            "kill c1 KILL",
            "exec create run",
            "--root create kill c1",
            "create",
            "features",
        ] {
            assert_eq!(call(line).verb, Verb::Other, "{line}");
        }
        assert_eq!(call("--root /r delete --force c1").verb, Verb::Delete);
    }

    #[test]
    fn log_and_cgroup_manager_are_seen_in_either_spelling() {
        let with = call("--log /l --log-format json --systemd-cgroup create c1");
        assert_eq!((with.log.as_deref(), with.json_log, with.systemd), (Some("/l".as_ref()), true, true));
        assert!(call("--cgroup-manager=systemd run c1").systemd);
        assert!(
            !call("--cgroup-manager cgroupfs run c1").systemd
                && !call("--systemd-cgroup=false run c1").systemd
        );
        let crun = call("run --config /other.json c1");
        assert!(
            matches!(crun.verb, Verb::Make(Making { config: Some(path), .. }) if path.as_os_str() == "/other.json")
        );
    }
}
