//! What is read of a `config.json`: the runtime-spec's own types for the parts that are looked at, and nothing of
//! the rest, so that a seccomp action or a capability of next year stands in nobody's way.
//!
//! What is wrong with a part that is looked at does not keep the others from being read: they tell whether the
//! container depends on it.

use super::OciError;
use super::document::pointer;
use super::pruned::{self, Shape};
use oci_spec::runtime::{LinuxCpu, LinuxDevice, LinuxDeviceCgroup, LinuxHugepageLimit, LinuxMemory, Mount};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The members of the types below.
static SHAPE: Shape = Shape::Of(&[
    ("process", Shape::Of(&[("args", Shape::Whole), ("env", Shape::Whole), ("oomScoreAdj", Shape::Whole)])),
    ("mounts", Shape::Each(&[("destination", Shape::Whole), ("source", Shape::Whole)])),
    ("annotations", Shape::Whole),
    ("linux", Shape::Of(LINUX)),
]);

const LINUX: &[(&str, Shape)] = &[
    ("cgroupsPath", Shape::Whole),
    ("devices", Shape::Each(&[("path", Shape::Whole), TYPE, MAJOR, MINOR])),
    ("resources", Shape::Of(RESOURCES)),
    ("seccomp", Shape::Of(&[("defaultAction", Shape::Whole), ("syscalls", Shape::Each(RULE))])),
];

const RESOURCES: &[(&str, Shape)] = &[
    ("cpu", Shape::Of(CPU)),
    ("memory", Shape::Of(&[("limit", Shape::Whole)])),
    ("hugepageLimits", Shape::Each(&[("pageSize", Shape::Whole), ("limit", Shape::Whole)])),
    ("devices", Shape::Each(&[("allow", Shape::Whole), TYPE, MAJOR, MINOR, ("access", Shape::Whole)])),
];

const CPU: &[(&str, Shape)] = &[
    ("shares", Shape::Whole),
    ("quota", Shape::Whole),
    ("period", Shape::Whole),
    ("cpus", Shape::Whole),
    ("mems", Shape::Whole),
];

const RULE: &[(&str, Shape)] = &[("names", Shape::Whole), ("action", Shape::Whole), ("args", Shape::Whole)];

const TYPE: (&str, Shape) = ("type", Shape::Whole);
const MAJOR: (&str, Shape) = ("major", Shape::Whole);
const MINOR: (&str, Shape) = ("minor", Shape::Whole);

/// So many wrong values are passed over; of a file with more nothing is known.
const MOST_WRONG: usize = 64;

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
    /// Reads it, and what of it is wrong or can be read in two ways; `path` is its name in errors.
    ///
    /// # Errors
    /// It is no JSON.
    pub fn read(text: &str, path: &Path) -> Result<(Self, Option<OciError>), OciError> {
        let (mut value, odd) = pruned::read(text, &SHAPE).map_err(|source| OciError::Document {
            path: path.to_owned(),
            source: super::document::DocumentError::Syntax(source),
        })?;
        forgive(&mut value);
        let (outline, wrong) = typed(value, path);
        let odd = odd.map(|odd| OciError::Key {
            path: path.to_owned(),
            pointer: pointer(&odd.path.iter().map(String::as_str).collect::<Vec<_>>()),
            problem: odd.problem,
        });
        Ok((outline, wrong.or(odd)))
    }

    /// An annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

/// What runtimes take for another value than the runtime-spec's types do.
fn forgive(value: &mut Value) {
    let elements = |value: &mut Value, at: &str| {
        value.pointer_mut(at).and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default()
    };
    const RULES: &str = "/linux/resources/devices";
    let mut rules = elements(value, RULES);
    for rule in rules.iter_mut().filter_map(Value::as_object_mut) {
        if rule.get("type").is_some_and(|kind| kind == "") {
            rule.remove("type");
        }
    }
    const LIMITS: &str = "/linux/resources/hugepageLimits";
    let mut limits = elements(value, LIMITS);
    for limit in limits.iter_mut().filter_map(|limit| limit.get_mut("limit")) {
        // The spec's number is unsigned, and more than there is memory is no limit.
        if limit.as_u64().is_some_and(|limit| i64::try_from(limit).is_err()) {
            *limit = Value::from(-1);
        }
    }
    for (at, elements) in [(RULES, rules), (LIMITS, limits)] {
        if let Some(array) = value.pointer_mut(at).and_then(Value::as_array_mut) {
            *array = elements;
        }
    }
}

/// All that has the types it must have; the first that has not.
fn typed(mut value: Value, path: &Path) -> (Outline, Option<OciError>) {
    let mut first = None;
    for _ in 0..MOST_WRONG {
        match serde_path_to_error::deserialize(&value) {
            Ok(outline) => return (outline, first),
            Err(error) => {
                let keys = keys(&error);
                first.get_or_insert_with(|| wrong(&value, path, &keys, &error));
                remove(&mut value, &keys);
            }
        }
    }
    (Outline::default(), first)
}

fn keys(error: &serde_path_to_error::Error<serde_json::Error>) -> Vec<String> {
    use serde_path_to_error::Segment;
    let key = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    error.path().iter().map_while(key).collect()
}

/// Takes a value out of what it stands in; that, too, where the value is missing there, and the whole in the end.
fn remove(value: &mut Value, keys: &[String]) {
    let Some((last, above)) = keys.split_last() else { return *value = Value::Object(Default::default()) };
    let path: Vec<&str> = above.iter().map(String::as_str).collect();
    let removed = match value.pointer_mut(&pointer(&path)) {
        Some(Value::Object(members)) => members.remove(last),
        Some(Value::Array(elements)) => {
            let at = last.parse().ok().filter(|at| *at < elements.len());
            at.map(|at: usize| elements.remove(at))
        }
        _ => None,
    };
    if removed.is_none() {
        remove(value, above);
    }
}

fn wrong(
    whole: &Value,
    path: &Path,
    keys: &[String],
    error: &serde_path_to_error::Error<serde_json::Error>,
) -> OciError {
    let at = pointer(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let found = whole.pointer(&at).map(ToString::to_string).unwrap_or_default();
    OciError::Value {
        path: path.to_owned(),
        pointer: if at.is_empty() { "the document".into() } else { at },
        found: found.chars().take(80).collect(),
        problem: error.inner().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Outline, Option<String>) {
        let (outline, trouble) = Outline::read(text, Path::new("/b/config.json")).unwrap();
        (outline, trouble.map(|error| error.to_string()))
    }

    #[test]
    fn what_cannot_be_is_named_with_file_place_value_and_what_was_expected() {
        let error = |text: &str| read(text).1.unwrap();
        assert_eq!(
            error(r#"{"linux":{"resources":{"cpu":{"quota":"many"}}}}"#),
            "/b/config.json: /linux/resources/cpu/quota is \"many\": \
             invalid type: string \"many\", expected i64"
        );
        assert!(
            error(r#"{"process":{"env":["A=1",7]}}"#).starts_with("/b/config.json: /process/env/1 is 7: ")
        );
        assert_eq!(
            error(r#"{"linux":{},"Linux":{}}"#),
            "/b/config.json: /Linux: expected it spelled \"linux\": not every runtime reads it so"
        );
        let error = Outline::read("{", Path::new("/b/config.json")).unwrap_err().to_string();
        assert!(error.starts_with("/b/config.json: it is no JSON: EOF"), "{error}");
    }

    #[test]
    fn what_is_wrong_keeps_nothing_else_from_being_read() {
        let text = r#"{"process":{"env":[7,"A=1",8],"oomScoreAdj":"low"},"mounts":7,
            "annotations":{"a":1,"b":"c"},"linux":{"cgroupsPath":"/x","devices":[{"path":"/dev/a","type":"x"}],
            "resources":{"cpu":{"quota":"many","shares":2}}}}"#;
        let (outline, trouble) = read(text);
        assert!(trouble.is_some());
        assert_eq!(outline.annotation("b"), Some("c"));
        let process = outline.process.unwrap();
        assert_eq!((process.env.unwrap(), process.oom_score_adj), (vec!["A=1".to_owned()], None));
        let linux = outline.linux.unwrap();
        assert_eq!(linux.cgroups_path.as_deref(), Some("/x"));
        assert_eq!(linux.resources.unwrap().cpu.unwrap().shares(), Some(2));
        let many = format!(r#"{{"process":{{"env":{:?}}}}}"#, vec![7; MOST_WRONG + 1]);
        assert!(read(&many).1.is_some());
    }

    #[test]
    fn what_is_not_looked_at_may_be_anything() {
        let (outline, trouble) = read(
            r#"{"process":{"capabilities":{"bounding":["CAP_NEXT_YEAR"]},"x":1,"x":2},"mounts":[{"destination":"/a","type":7}],
            "linux":{"seccomp":{"defaultAction":"SCMP_ACT_NEW"},"resources":{"cpu":{"shares":4096,"idle":"no"}}}}"#,
        );
        assert_eq!(trouble, None);
        let shares = outline.linux.unwrap().resources.unwrap().cpu.unwrap().shares();
        assert_eq!(shares, Some(4096));
    }

    #[test]
    fn what_runc_takes_is_taken() {
        let (outline, trouble) = read(
            r#"{"annotations":{"a":null,"b":"c"},"process":{"env":null,"args":[null,"sh"]},
            "linux":{"seccomp":{"syscalls":[{"names":null,"action":"a"}]},"resources":{
            "devices":[{"allow":true,"type":"","access":"rwm"}],
            "hugepageLimits":[{"pageSize":"2MB","limit":18446744073709551615},{"pageSize":"1GB","limit":7}]}}}"#,
        );
        assert_eq!(trouble, None);
        assert_eq!((outline.annotation("a"), outline.annotation("b")), (None, Some("c")));
        let resources = outline.linux.unwrap().resources.unwrap();
        assert_eq!(resources.devices.unwrap()[0].typ(), None);
        let limits: Vec<i64> = resources.hugepage_limits.unwrap().iter().map(|one| one.limit()).collect();
        assert_eq!(limits, [-1, 7]);
    }
}
