//! The log of hooks and the wrapper, whose standard error is not theirs, and the words they leave where their
//! callers look.

use crate::config::LogLevel;
use crate::model::Rejection;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
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

fn open(path: &Path) -> std::io::Result<File> {
    let options = || {
        let mut options = OpenOptions::new();
        // Appended to, a line in one piece: many processes write here at once. A FIFO that nobody reads is not
        // waited for.
        options.append(true).create(true).mode(0o640).custom_flags(libc::O_NONBLOCK);
        options
    };
    options().open(path).or_else(|_| {
        let directory = path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o750).create(directory)?;
        options().open(path)
    })
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

    #[test]
    fn a_runtimes_log_gets_a_line_of_its_kind() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        in_runtime_log(&log, true, "no \"room\"");
        in_runtime_log(&log, false, "no \"room\"");
        let text = std::fs::read_to_string(&log).unwrap();
        let (first, second) = text.trim_end().split_once('\n').unwrap();
        let line: serde_json::Value = serde_json::from_str(first).unwrap();
        assert_eq!((line["level"].as_str(), line["msg"].as_str()), (Some("error"), Some("no \"room\"")));
        assert!(line["time"].as_str().unwrap().ends_with('Z'));
        assert!(second.ends_with(r#"level=error msg="no \"room\"""#), "{second}");
    }
}
