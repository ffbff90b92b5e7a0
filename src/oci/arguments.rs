//! A runtime's command line, as far as the wrapper must understand it: which verb, and for `create` and `run` which
//! container and which configuration. runc, crun, youki and nvidia-container-runtime share it and read it by three
//! different libraries: Go's flags are long with one dash, too; getopt's may be shortened (`--bundl`), written
//! together (`-db DIR`) and have their value attached (`-bDIR`). An option nobody knows is taken for one without a
//! value, unless it has an `=`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// An option of one of these runtimes.
struct Known {
    long: &'static str,
    short: Option<u8>,
    value: bool,
    /// crun's, which may be shortened to what no other of its options begins with.
    crun: bool,
}

impl Known {
    const fn flag(long: &'static str) -> Self {
        Self { long, short: None, value: false, crun: true }
    }

    const fn value(long: &'static str) -> Self {
        Self { value: true, ..Self::flag(long) }
    }

    const fn short(self, short: u8) -> Self {
        Self { short: Some(short), ..self }
    }

    /// An option of others than crun.
    const fn not_crun(self) -> Self {
        Self { crun: false, ..self }
    }
}

/// Global options.
const GLOBAL: &[Known] = &[
    Known::value("cgroup-manager"),
    Known::flag("debug").short(b'd'),
    Known::value("log").short(b'l'),
    Known::value("log-format"),
    Known::value("log-level"),
    Known::value("root").short(b'r'),
    Known::value("rootless"),
    Known::flag("systemd-cgroup").short(b's'),
    Known::flag("version"),
    Known::flag("help"),
    Known::flag("usage"),
    Known::value("criu").not_crun(),
];

/// Options of `create` and `run`.
const MAKING: &[Known] = &[
    Known::value("bundle").short(b'b'),
    Known::value("config").short(b'f'),
    Known::value("console-socket").short(b'c'),
    Known::flag("detach").short(b'd'),
    Known::flag("keep"),
    Known::flag("no-new-keyring"),
    Known::flag("no-pivot"),
    Known::flag("no-subreaper"),
    Known::value("pid-file").short(b'p'),
    Known::value("preserve-fds"),
    Known::flag("help"),
    Known::flag("usage"),
    Known::value("pidfd-socket").not_crun(),
    Known::value("notify-socket").not_crun(),
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
    /// Its configuration.
    pub config: PathBuf,
}

impl Call {
    /// Reads the arguments after the program's name.
    pub fn parse(arguments: &[OsString]) -> Self {
        let mut call = Self::default();
        let mut words = Words { rest: arguments, ended: false };
        while let Some(word) = words.next(GLOBAL) {
            match word {
                Word::Options(options) => options.into_iter().for_each(|option| call.global(option)),
                Word::Plain(verb) => {
                    call.verb = verb_of(&verb, words);
                    break;
                }
            }
        }
        call
    }

    fn global(&mut self, option: (&str, Option<OsString>)) {
        match option {
            ("log", Some(path)) => self.log = Some(path.into()),
            ("log-format", Some(format)) => self.json_log = format == "json",
            ("systemd-cgroup", value) => self.systemd = value.is_none_or(|value| value != "false"),
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
        let options = match word {
            Word::Options(options) => options,
            Word::Plain(word) => {
                id = id.or(Some(word));
                continue;
            }
        };
        for option in options {
            match option {
                ("bundle", Some(value)) => bundle = value.into(),
                ("config", Some(value)) => config = Some(PathBuf::from(value)),
                _ => {}
            }
        }
    }
    // Without an id there is nothing to make: the runtime says so better.
    id.map_or(Verb::Other, |id| Verb::Make(Making { id, config: configuration(&bundle, config) }))
}

/// crun can be given another file. One by the usual name is looked for in the bundle, any other from where it stands.
fn configuration(bundle: &Path, config: Option<PathBuf>) -> PathBuf {
    const USUAL: &str = "config.json";
    config.filter(|config| config.as_os_str() != USUAL).unwrap_or_else(|| bundle.join(USUAL))
}

enum Word {
    /// By their long names, with their values where they have some; those nobody knows left out.
    Options(Vec<(&'static str, Option<OsString>)>),
    Plain(OsString),
}

/// Arguments one after the other.
struct Words<'a> {
    rest: &'a [OsString],
    /// `--` was there: all that follows is plain.
    ended: bool,
}

impl Words<'_> {
    /// The next word; options with a value take the word after them along.
    fn next(&mut self, known: &'static [Known]) -> Option<Word> {
        let word = self.take()?;
        if !self.ended && word == "--" {
            self.ended = true;
            return self.next(known);
        }
        // A dash alone is a plain word.
        let dashed = word.as_bytes().strip_prefix(b"-").filter(|rest| !self.ended && !rest.is_empty());
        let Some(dashed) = dashed else { return Some(Word::Plain(word)) };
        let long = dashed.strip_prefix(b"-");
        let whole = long.unwrap_or(dashed);
        let mut halves = whole.splitn(2, |byte| *byte == b'=');
        let (name, value) = (halves.next().unwrap_or_default(), halves.next());
        let found = exact(known, name).or_else(|| long.and_then(|_| shortened(known, name)));
        Some(Word::Options(match found {
            Some(option) => vec![self.with_value(option, value)],
            None if long.is_some() => Vec::new(),
            None => self.letters(known, whole),
        }))
    }

    fn take(&mut self) -> Option<OsString> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first.clone())
    }

    fn with_value(&mut self, option: &Known, attached: Option<&[u8]>) -> (&'static str, Option<OsString>) {
        let value = match attached {
            Some(value) => Some(OsString::from_vec(value.to_vec())),
            None if option.value => self.take(),
            None => None,
        };
        (option.long, value)
    }

    /// Short options in one word; what follows the first with a value is that.
    fn letters(&mut self, known: &'static [Known], letters: &[u8]) -> Vec<(&'static str, Option<OsString>)> {
        let mut options = Vec::new();
        for (at, letter) in letters.iter().enumerate() {
            let Some(option) = known.iter().find(|option| option.short == Some(*letter)) else { continue };
            let attached = Some(&letters[at + 1..]).filter(|rest| option.value && !rest.is_empty());
            options.push(self.with_value(option, attached));
            if option.value {
                break;
            }
        }
        options
    }
}

fn exact<'a>(known: &'a [Known], name: &[u8]) -> Option<&'a Known> {
    known.iter().find(|one| one.long.as_bytes() == name || one.short.is_some_and(|short| name == [short]))
}

/// The only one of crun's that begins so.
fn shortened<'a>(known: &'a [Known], name: &[u8]) -> Option<&'a Known> {
    let mut fitting = known.iter().filter(|one| one.crun && one.long.as_bytes().starts_with(name));
    fitting.next().filter(|_| fitting.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> Call {
        Call::parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    fn making(line: &str) -> (String, String) {
        match call(line).verb {
            Verb::Make(making) => (making.id.into_string().unwrap(), making.config.display().to_string()),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn told(id: &str, config: &str) -> (String, String) {
        (id.to_owned(), config.to_owned())
    }

    #[test]
    fn containerd_podman_and_people_all_name_container_and_bundle() {
        assert_eq!(
            making(
                "--root /run/containerd/runc/k8s.io --log /b/log.json --log-format json create --bundle /b \
                 --pid-file /b/init.pid --console-socket /s c1"
            ),
            told("c1", "/b/config.json")
        );
        assert_eq!(
            making("--systemd-cgroup --log-format=json --log=/l create --bundle=/b --preserve-fds 3 c1"),
            told("c1", "/b/config.json")
        );
        assert_eq!(making("run c1"), told("c1", "./config.json"));
        assert_eq!(making("run -b /b -d c1"), told("c1", "/b/config.json"));
        assert_eq!(making("run -b/b --keep c1"), told("c1", "/b/config.json"));
        assert_eq!(making("-root /r run -bundle /b c1"), told("c1", "/b/config.json"));
        assert_eq!(making("create --bundle /b -- -odd"), told("-odd", "/b/config.json"));
        assert_eq!(making("create --no-pivot --no-new-keyring --bundle /b c1"), told("c1", "/b/config.json"));
        assert_eq!(making("--new-option create --other=x c1"), told("c1", "./config.json"));
    }

    /// argp's and clap's ways with options, as crun 1.8.1 was seen to take them.
    #[test]
    fn options_may_be_shortened_written_together_and_have_their_value_attached() {
        for line in [
            "run --bundl b c1",
            "run --bun=b c1",
            "run -db b c1",
            "run -dbb c1",
            "run -bb c1",
            "run -b=b c1",
            "run --pid-f /p --console /s --bundle b c1",
            "--cgroup-man systemd --log-f json create -b b c1",
            "create -p /p -c /s -b b c1",
            "create c1 -b b",
            "run -f config.json -b b c1",
        ] {
            assert_eq!(making(line), told("c1", "b/config.json"), "{line}");
        }
        assert!(call("--cgroup-man systemd run c1").systemd && call("-s run c1").systemd);
        // Two begin so: crun takes neither.
        assert_eq!(making("run --no- c1"), told("c1", "./config.json"));
    }

    #[test]
    fn words_that_are_no_text_are_taken_as_they_are() {
        let words = [b"run".as_slice(), b"--bundle=/\xff", b"c1"];
        let words: Vec<_> = words.map(|word| OsStr::from_bytes(word).to_owned()).into();
        let Verb::Make(making) = Call::parse(&words).verb else { panic!("{words:?}") };
        assert_eq!(
            (making.id.as_bytes(), making.config.as_os_str().as_bytes()),
            (b"c1".as_slice(), b"/\xff/config.json".as_slice())
        );
    }

    #[test]
    fn another_configuration_is_from_where_its_caller_stands() {
        for (line, config) in [
            ("run --config /other.json -b b c1", "/other.json"),
            ("run -fother.json -b b c1", "other.json"),
            ("run -f ./config.json -b b c1", "./config.json"),
        ] {
            assert_eq!(making(line), told("c1", config), "{line}");
        }
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
    }
}
