//! The log of hooks and the wrapper, whose standard error is not theirs, and the words they leave where their
//! callers look.

use crate::config::LogLevel;
use crate::model::Rejection;
use crate::store::{Links, open_regular_with};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// Where the log lies unless told otherwise.
pub const DEFAULT_LOG: &str = "/var/log/maitred/hook.jsonl";

/// What the user of a refused container of a pod reads after the reason.
const RETRY_HINT: &str = "retried on this node; delete the pod to have it scheduled again";

/// Starts the log. Without one the decision is the same.
pub(super) fn start(path: &Path, level: LogLevel) {
    if let Ok(file) = open(path) {
        let _ = crate::log::start_in(file, level);
    }
}

/// Appended to, a line in one piece: many processes write here at once.
fn open(path: &Path) -> std::io::Result<File> {
    let open = || {
        let mut options = OpenOptions::new();
        open_regular_with(options.append(true).create(true).mode(0o640), path, Links::Refused)
    };
    let file = open().or_else(|_| {
        let directory = path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o750).create(directory)?;
        open()
    })?;
    // Where somebody else may write into the directory, the file may be a second name of one that is not a log.
    let about = file.metadata()?;
    match about.uid() == nix::unistd::geteuid().as_raw() && about.nlink() == 1 {
        true => Ok(file),
        false => Err(std::io::Error::other("it is somebody else's, or has another name too")),
    }
}

/// A refusal in the words its caller passes on.
pub(super) fn refusal(rejection: &Rejection, in_kubernetes: bool) -> String {
    match in_kubernetes {
        true => format!("{rejection} ({RETRY_HINT})"),
        false => rejection.to_string(),
    }
}

/// Says an error in a runtime's own log, where containerd looks for it, as a runtime written in Go does.
pub(super) fn in_runtime_log(path: &Path, json: bool, text: &str) {
    let mut time = String::new();
    // A clock before 1970 has no text; the line is good without.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let line = match json {
        true => serde_json::json!({ "level": "error", "msg": text, "time": time }).to_string(),
        false => format!("time={time:?} level=error msg={text:?}"),
    };
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o644).custom_flags(libc::O_NONBLOCK);
    if let Ok(mut file) = options.open(path) {
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever may make names where the log is to be has none of root's files written to.
    #[test]
    fn the_log_is_no_link_no_pipe_and_no_second_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("shadow"), "root").unwrap();
        std::os::unix::fs::symlink(at("shadow"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("absent"), at("dangling")).unwrap();
        std::fs::hard_link(at("shadow"), at("second")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for name in ["link", "dangling", "second", "fifo"] {
            assert!(open(&at(name)).is_err(), "{name}");
        }
        assert!(!at("absent").exists());
        assert!(open(&at("below/log")).and_then(|mut log| log.write_all(b"{}\n")).is_ok());
        assert_eq!(std::fs::read_to_string(at("shadow")).unwrap(), "root");
        assert_eq!(std::fs::metadata(at("below/log")).unwrap().mode() & 0o777 & !0o640, 0);
    }

    #[test]
    fn a_runtimes_log_gets_a_line_of_its_kind() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        in_runtime_log(&log, true, "no \"room\"");
        in_runtime_log(&log, false, "no \"room\"\ntime=now \u{1b}[2J");
        let text = std::fs::read_to_string(&log).unwrap();
        let (first, second) = text.trim_end().split_once('\n').unwrap();
        let line: serde_json::Value = serde_json::from_str(first).unwrap();
        assert_eq!((line["level"].as_str(), line["msg"].as_str()), (Some("error"), Some("no \"room\"")));
        assert!(line["time"].as_str().unwrap().ends_with('Z'));
        assert!(second.ends_with(r#"level=error msg="no \"room\"\ntime=now \u{1b}[2J""#), "{second}");
    }
}
