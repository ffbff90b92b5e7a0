//! The log: one JSON object a line for journald, text for people on a terminal; on standard error, or in a file
//! for hooks and the wrapper, whose standard error belongs to others. With the fields of the span it happens in.

mod aside;
mod brief;
mod evidence;
mod told;
mod unseen;
mod verdict;

pub use aside::Writing;
pub use told::{now, told};
pub use verdict::{placement, verdict};

use crate::config::{LogConfig, LogFormat, LogLevel};
use std::fs::File;
use std::io::IsTerminal;
use std::sync::Arc;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The environment variable whose filter goes before the configured level.
pub const VARIABLE: &str = "MAITRED_LOG";

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// [`VARIABLE`] holds no filter.
    #[error(
        "{VARIABLE} is {value:?}: expected a level, or a list such as info,maitred::nri=debug ({reason})"
    )]
    Filter {
        /// What it holds.
        value: String,
        /// The parser's words.
        reason: String,
    },
    /// A log was started before.
    #[error("the log was started twice")]
    Started,
}

/// Starts the log of this process.
///
/// # Errors
/// [`VARIABLE`] holds no filter, or a log was started before.
pub fn start(config: LogConfig) -> Result<(), LogError> {
    start_on(config, std::io::stderr)
}

/// Starts the log of a daemon, which waits for nobody who reads it. Its lines are written from [`Writing::begin`] on;
/// a panic is a line like any other.
///
/// # Errors
/// As [`start`].
pub fn start_aside(config: LogConfig) -> Result<Writing, LogError> {
    let (aside, writing) = aside::pair();
    start_on(config, move || aside.clone())?;
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a thread panicked")));
    Ok(writing)
}

fn start_on<W>(config: LogConfig, writer: W) -> Result<(), LogError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let variable = std::env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned());
    let filter = filter(config.level, variable.as_deref())?;
    let terminal = std::io::stderr().is_terminal();
    let json = match config.format {
        LogFormat::Auto => !terminal,
        LogFormat::Json => true,
        LogFormat::Text => false,
    };
    let subscriber = subscriber(filter, json, terminal, writer);
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::Started)
}

/// Starts the log of a process whose standard error nobody sees: JSON lines at the end of a file, which many
/// processes may write to at once.
///
/// # Errors
/// As [`start`].
pub fn start_in(file: File, level: LogLevel) -> Result<(), LogError> {
    let variable = std::env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned());
    let subscriber = subscriber(filter(level, variable.as_deref())?, true, false, Arc::new(file));
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::Started)
}

fn filter(level: LogLevel, variable: Option<&str>) -> Result<EnvFilter, LogError> {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let value = variable.unwrap_or_default();
    if let Some(word) = value.split(',').map(str::trim).find(|word| is_no_directive(word)) {
        let reason = format!("{word:?} is none of {LEVELS}, and no module of maitred");
        return Err(LogError::Filter { value: value.to_owned(), reason });
    }
    EnvFilter::builder()
        .with_default_directive(level.into())
        .parse(value)
        .map_err(|error| LogError::Filter { value: value.to_owned(), reason: error.to_string() })
}

/// The words of a level.
const LEVELS: &str = "error, warn, info, debug, trace and off";

/// A bare word that is no level would be taken for the name of a module, and silence all others. Ours all begin
/// alike; those of others are worth naming with a level only.
fn is_no_directive(word: &str) -> bool {
    let bare = !word.is_empty() && !word.contains(['=', '[', ':']);
    let level = LEVELS.replace(" and ", ", ").split(", ").any(|level| level.eq_ignore_ascii_case(word));
    bare && !level && word != "maitred" && word.parse::<u8>().is_err()
}

type Boxed = Box<dyn tracing::Subscriber + Send + Sync>;

fn subscriber<W>(filter: EnvFilter, json: bool, colours: bool, writer: W) -> Boxed
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // A closed standard error must not become a panic: what cannot be written is lost, no more.
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).log_internal_errors(false);
    match json {
        true => {
            let lines = builder.with_writer(unseen::Seen(writer)).json();
            Box::new(lines.flatten_event(true).with_span_list(false).finish())
        }
        false => Box::new(builder.with_writer(writer).with_target(false).fmt_fields(brief::Brief).finish()),
    }
}

/// For the tests of whoever logs.
#[cfg(test)]
pub(crate) mod testing {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The lines that `work` logs on this thread.
    pub(crate) fn logged(work: impl FnOnce()) -> Vec<serde_json::Value> {
        // With a single subscriber alive, tracing asks that of the thread which first comes by whether anybody wants
        // a span; on other tests' threads nobody would, for all threads. A second one makes it ask all.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().json().with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, work);
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(json: bool, level: LogLevel, variable: Option<&str>, events: impl FnOnce()) -> String {
        let sink = Sink::default();
        let copy = sink.clone();
        let subscriber = subscriber(filter(level, variable).unwrap(), json, false, move || copy.clone());
        tracing::subscriber::with_default(subscriber, events);
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    fn verdict() {
        let span = tracing::info_span!("container", pod = "vllm-0", namespace = "default");
        let _inside = span.enter();
        tracing::info!(decision = "placed", duration_us = 41, "verdict");
        tracing::debug!("detail");
    }

    #[test]
    fn a_json_line_has_the_event_and_its_span() {
        let text = written(true, LogLevel::Info, None, verdict);
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["message"], "verdict");
        assert_eq!(line["decision"], "placed");
        assert_eq!(line["duration_us"], 41);
        assert_eq!(line["span"]["pod"], "vllm-0");
        assert_eq!(line["span"]["namespace"], "default");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn people_are_spared_what_is_for_programs() {
        let refusal = || tracing::warn!(reason = "full", evidence = "{}", evidence_cut = true, "verdict");
        let text = written(false, LogLevel::Info, None, refusal);
        assert!(text.contains("verdict reason=\"full\"") && !text.contains("evidence"), "{text}");
        assert!(written(true, LogLevel::Info, None, refusal).contains(r#""evidence":"{}""#));
    }

    #[test]
    fn text_is_one_line_with_the_span() {
        let text = written(false, LogLevel::Info, None, verdict);
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains("pod=\"vllm-0\"") && text.contains("decision=\"placed\""), "{text}");
    }

    /// By `Display`, which escapes nothing.
    #[test]
    fn what_others_say_makes_no_second_line_for_people() {
        let name = "a\nINFO verdict decision=\"placed\" \u{1b}[2J\u{9b}2J\u{202e}\u{e0041}";
        let says = || {
            let span = tracing::info_span!("container", pod = name, namespace = %name);
            let _inside = span.enter();
            tracing::info!(error = %std::io::Error::other(name), key = %name, text = name, "{name}");
        };
        let text = written(false, LogLevel::Info, None, says);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!text.trim_end().contains(crate::model::is_unseen), "{text:?}");
        let json = written(true, LogLevel::Info, None, says);
        let line: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((line["key"].as_str(), line["span"]["pod"].as_str()), (Some(name), Some(name)));
        assert!(!json.trim_end().contains(crate::model::is_unseen), "{json:?}");
    }

    #[test]
    fn the_variable_goes_before_the_level() {
        assert_eq!(written(true, LogLevel::Info, Some("debug"), verdict).lines().count(), 2);
        assert_eq!(written(true, LogLevel::Debug, Some("warn"), verdict).lines().count(), 0);
        let ours = "warn,maitred::log=debug";
        assert_eq!(written(true, LogLevel::Error, Some(ours), verdict).lines().count(), 2);
    }

    #[test]
    fn no_filter_is_an_error_that_names_the_variable() {
        let error = filter(LogLevel::Info, Some("maitred=loud")).unwrap_err().to_string();
        assert!(error.starts_with("MAITRED_LOG is \"maitred=loud\": expected a level"), "{error}");
        for value in ["debgu", "info,debgu", "verbose"] {
            let error = filter(LogLevel::Info, Some(value)).unwrap_err().to_string();
            let expected = "is none of error, warn, info, debug, trace and off, and no module of maitred";
            assert!(error.contains(expected), "{value}: {error}");
        }
        for value in
            ["", "debug", "OFF", "0", "info,maitred::nri=debug", "maitred", "warn,h2=trace", "maitred::nri"]
        {
            assert!(filter(LogLevel::Info, Some(value)).is_ok(), "{value}");
        }
    }
}
