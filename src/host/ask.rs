//! What a runtime's binary says of itself: one word, one answer.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A runtime answers in some milliseconds; one that takes this long is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// What is read of an answer, at most.
const MOST: u64 = 1 << 20;

/// What `binary WORD` prints; `None` where it does not know the word, does not end, or prints no text.
#[must_use]
pub fn answer(binary: &Path, word: &str) -> Option<String> {
    // Into a file: a pipe would fill, and an answer that never ends would never be read to its end.
    let mut answer = tempfile::tempfile().ok()?;
    let mut child = start(binary, word, answer.try_clone().ok()?).ok()?;
    if !ended_well(&mut child) {
        return None;
    }
    let mut text = String::new();
    answer.rewind().ok()?;
    answer.take(MOST).read_to_string(&mut text).ok()?;
    Some(text)
}

fn start(binary: &Path, word: &str, answer: File) -> std::io::Result<Child> {
    Command::new(binary).arg(word).stdin(Stdio::null()).stdout(answer).stderr(Stdio::null()).spawn()
}

fn ended_well(child: &mut Child) -> bool {
    ends_within(child, PATIENCE).is_some_and(|status| status.success())
}

/// How a child ended; `None` is one that did not within `limit`. It is killed, and not waited for any longer: what
/// hangs in a driver cannot be killed.
pub fn ends_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            _ => {
                let _ = child.kill().and_then(|()| child.try_wait());
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_hangs_is_not_waited_for() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        assert_eq!(ends_within(&mut child, Duration::from_millis(20)), None);
        assert!(!child.wait().unwrap().success(), "it was killed");
        let mut child = Command::new("false").spawn().unwrap();
        assert_eq!(ends_within(&mut child, PATIENCE).and_then(|status| status.code()), Some(1));
    }
}
