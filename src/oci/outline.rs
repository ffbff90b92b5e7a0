//! What is read of a `config.json`: the runtime-spec's own types for the parts that are looked at, and nothing of
//! the rest, so that a seccomp action or a capability of next year stands in nobody's way.

use super::OciError;
use super::document::pointer;
use oci_spec::runtime::{LinuxCpu, LinuxDevice, LinuxDeviceCgroup, LinuxHugepageLimit, LinuxMemory, Mount};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The parts of a `config.json` that tell what a container asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Outline {
    pub process: Option<Process>,
    pub mounts: Option<Vec<Mount>>,
    pub annotations: Option<BTreeMap<String, String>>,
    pub linux: Option<Linux>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Process {
    pub args: Option<Vec<String>>,
    pub env: Option<Vec<String>>,
    pub oom_score_adj: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Linux {
    pub cgroups_path: Option<String>,
    pub devices: Option<Vec<LinuxDevice>>,
    pub resources: Option<Resources>,
    pub seccomp: Option<Seccomp>,
}

/// Of the filter what tells whether a process may set its memory policy; its words are taken as they come.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Seccomp {
    pub default_action: String,
    pub syscalls: Option<Vec<Rule>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Rule {
    pub names: Vec<String>,
    pub action: String,
    pub args: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Resources {
    pub cpu: Option<LinuxCpu>,
    pub memory: Option<LinuxMemory>,
    pub hugepage_limits: Option<Vec<LinuxHugepageLimit>>,
    pub devices: Option<Vec<LinuxDeviceCgroup>>,
}

impl Outline {
    /// Reads it; `path` is its name in errors.
    ///
    /// # Errors
    /// A value that is not what the runtime-spec says, with its place.
    pub fn parse(text: &str, path: &Path) -> Result<Self, OciError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut reader).map_err(|error| wrong(text, path, &error))
    }

    /// An annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

fn wrong(text: &str, path: &Path, error: &serde_path_to_error::Error<serde_json::Error>) -> OciError {
    let keys: Vec<String> = error.path().iter().map(|segment| segment.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(|key| key.trim_matches(['[', ']'])).collect();
    let at = pointer(&keys);
    let whole: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let found = whole.as_ref().and_then(|whole| whole.pointer(&at)).map(ToString::to_string);
    let problem = error.inner().to_string();
    OciError::Value {
        path: path.to_owned(),
        // Of what is no JSON no place can be named but the line and column of the problem.
        pointer: if at.is_empty() || whole.is_none() { "the document".into() } else { at },
        found: found.unwrap_or_else(|| "no JSON".into()).chars().take(80).collect(),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_named_with_file_place_value_and_what_was_expected() {
        let error = |text: &str| Outline::parse(text, Path::new("/b/config.json")).unwrap_err().to_string();
        assert_eq!(
            error(r#"{"linux":{"resources":{"cpu":{"quota":"many"}}}}"#),
            "/b/config.json: /linux/resources/cpu/quota is \"many\": \
             invalid type: string \"many\", expected i64 at line 1 column 44"
        );
        assert!(
            error(r#"{"process":{"env":["A=1",7]}}"#).starts_with("/b/config.json: /process/env/1 is 7: ")
        );
        assert!(error("{").starts_with("/b/config.json: the document is no JSON: EOF"));
    }

    #[test]
    fn what_is_not_looked_at_may_be_anything() {
        let text = r#"{"process":{"capabilities":{"bounding":["CAP_NEXT_YEAR"]}},
            "linux":{"seccomp":{"defaultAction":"SCMP_ACT_NEW"},"resources":{"cpu":{"shares":4096}}}}"#;
        let outline = Outline::parse(text, Path::new("config.json")).unwrap();
        let shares = outline.linux.unwrap().resources.unwrap().cpu.unwrap().shares();
        assert_eq!(shares, Some(4096));
    }
}
