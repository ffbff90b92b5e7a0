//! Our own earlier edit of a bundle, taken back: one that is run again asks for what it asked for the first time, and
//! under `maitred off` it gets it.
//!
//! What stood in the places we write is noted in an annotation, and is put back where still stands what we wrote. The
//! launcher and the hook of ours are known by what they look like. In Kubernetes a bundle is made for each container
//! and never run again, and its annotations may be a tenant's: nothing is taken back there.

use super::document::{Document, DocumentError, quoted};
use super::outline::Outline;
use super::settle;
use crate::decision::{LAUNCHER, VISIBLE};
use crate::ledger::RECORD_ANNOTATION;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// What stood in a bundle before maitred changed it.
pub(super) const BEFORE_ANNOTATION: &str = "before.maitred.io";

/// The values that are written, by their names in the note.
const PLACES: [(&str, &[&str]); 4] = [
    ("cpus", &["linux", "resources", "cpu", "cpus"]),
    ("mems", &["linux", "resources", "cpu", "mems"]),
    ("quota", &["linux", "resources", "cpu", "quota"]),
    ("memoryPolicy", &["linux", "memoryPolicy"]),
];
const ANNOTATIONS: [&str; 1] = ["annotations"];
const ENV: [&str; 2] = ["process", "env"];
const ARGS: [&str; 2] = ["process", "args"];
const MOUNTS: [&str; 1] = ["mounts"];
pub(super) const HOOKS: [&str; 2] = ["hooks", "createRuntime"];

/// The note.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Before {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<String, Was>,
    #[serde(skip_serializing_if = "Option::is_none")]
    env: Option<Entries>,
    /// How many keys of the way to the annotations there were.
    annotations: usize,
}

/// One value.
#[derive(Debug, Serialize, Deserialize)]
struct Was {
    /// What stood there; absent is nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    before: Option<Box<RawValue>>,
    /// What we wrote.
    after: Box<RawValue>,
    /// How many keys of its path there were.
    depth: usize,
}

/// The entries of the environment that name GPUs.
#[derive(Debug, Serialize, Deserialize)]
struct Entries {
    /// Those that stood there, with their places.
    before: Vec<(usize, Box<RawValue>)>,
    /// Those we wrote.
    after: Vec<Box<RawValue>>,
}

/// The document as it was before we edited it; `None` where nothing in it is ours.
///
/// # Errors
/// Something in it is not what the runtime-spec says.
pub(super) fn origin(document: &Document, outline: &Outline) -> Result<Option<Document>, DocumentError> {
    let mut origin = document.clone();
    if let Some(text) = outline.annotation(BEFORE_ANNOTATION) {
        match serde_json::from_str::<Before>(text) {
            Ok(before) => restore(&mut origin, &before)?,
            // It stays, and is told as an annotation that nobody knows.
            Err(error) => tracing::warn!(%error, annotation = BEFORE_ANNOTATION, "not what maitred writes"),
        }
    }
    launcher(&mut origin, outline)?;
    let keep = |hook: &str| !settle::is_ours(hook);
    if !origin.elements(&HOOKS)?.into_iter().all(keep) {
        origin.retain(&HOOKS, keep)?;
        origin.remove_empty(&HOOKS, 0)?;
    }
    Ok((origin != *document).then_some(origin))
}

/// Notes in `document` what of it is not as in `origin`.
///
/// # Errors
/// As [`origin`].
pub(super) fn note(document: &mut Document, origin: &Document) -> Result<(), DocumentError> {
    let mut before = Before { annotations: depth(origin, &ANNOTATIONS)?, ..Before::default() };
    for (name, path) in PLACES {
        let (was, is) = (origin.get(path)?, document.get(path)?);
        if let (Some(after), true) = (is.and_then(raw), was != is) {
            let was = Was { before: was.and_then(raw), after, depth: depth(origin, path)? };
            before.values.insert(name.to_owned(), was);
        }
    }
    let (was, is) = (shown(origin)?, shown(document)?);
    let texts = |entries: &[(usize, Box<RawValue>)]| -> Vec<String> {
        entries.iter().map(|(_, entry)| entry.get().to_owned()).collect()
    };
    if texts(&was) != texts(&is) {
        before.env = Some(Entries { before: was, after: is.into_iter().map(|(_, entry)| entry).collect() });
    }
    let changed = !before.values.is_empty() || before.env.is_some();
    if !changed && document.get(&["annotations", RECORD_ANNOTATION])?.is_none() {
        return Ok(());
    }
    // Strings, numbers and JSON that was read as such: nothing of it could not be said.
    let json = serde_json::to_string(&before).unwrap_or_default();
    document.set(&["annotations", BEFORE_ANNOTATION], &quoted(&json))
}

fn restore(document: &mut Document, before: &Before) -> Result<(), DocumentError> {
    for (name, path) in PLACES.iter().rev() {
        let Some(was) = before.values.get(*name) else { continue };
        if document.get(path)? != Some(was.after.get()) {
            continue;
        }
        match &was.before {
            Some(value) => document.set(path, value.get())?,
            None => {
                document.remove(path)?;
                document.remove_empty(&path[..path.len() - 1], was.depth)?;
            }
        }
    }
    if let Some(entries) = &before.env {
        environment(document, entries)?;
    }
    document.remove(&["annotations", BEFORE_ANNOTATION])?;
    document.remove(&["annotations", RECORD_ANNOTATION])?;
    document.remove_empty(&ANNOTATIONS, before.annotations)
}

fn environment(document: &mut Document, entries: &Entries) -> Result<(), DocumentError> {
    let is: Vec<String> = shown(document)?.into_iter().map(|(_, entry)| entry.get().to_owned()).collect();
    if is != entries.after.iter().map(|entry| entry.get().to_owned()).collect::<Vec<_>>() {
        return Ok(());
    }
    document.retain(&ENV, |entry| !names_gpus(entry))?;
    let mut all: Vec<String> = document.elements(&ENV)?.into_iter().map(str::to_owned).collect();
    for (at, entry) in &entries.before {
        all.insert((*at).min(all.len()), entry.get().to_owned());
    }
    document.set(&ENV, &format!("[{}]", all.join(",")))
}

/// The launcher of an earlier run, in front of the command and among the mounts.
fn launcher(document: &mut Document, outline: &Outline) -> Result<(), DocumentError> {
    let args = outline.process.as_ref().and_then(|process| process.args.as_deref()).unwrap_or_default();
    if args.first().is_none_or(|first| first != LAUNCHER) {
        return Ok(());
    }
    let Some(end) = args.iter().position(|arg| arg == "--") else { return Ok(()) };
    let command: Vec<&str> = document.elements(&ARGS)?.into_iter().skip(end + 1).collect();
    let command = format!("[{}]", command.join(","));
    document.set(&ARGS, &command)?;
    document.retain(&MOUNTS, |mount| {
        let mount: Option<oci_spec::runtime::Mount> = serde_json::from_str(mount).ok();
        mount.is_none_or(|mount| mount.destination().as_os_str() != LAUNCHER)
    })
}

/// The entries of the environment that name GPUs, with their places.
fn shown(document: &Document) -> Result<Vec<(usize, Box<RawValue>)>, DocumentError> {
    let entries = document.elements(&ENV)?.into_iter().enumerate();
    Ok(entries.filter_map(|(at, entry)| Some((at, raw(entry).filter(|_| names_gpus(entry))?))).collect())
}

fn names_gpus(entry: &str) -> bool {
    let text: Option<String> = serde_json::from_str(entry).ok();
    text.is_some_and(|text| text.strip_prefix(VISIBLE).is_some_and(|rest| rest.starts_with('=')))
}

fn raw(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.to_owned()).ok()
}

/// How many keys of a path are there.
fn depth(document: &Document, path: &[&str]) -> Result<usize, DocumentError> {
    for depth in (1..=path.len()).rev() {
        if document.get(&path[..depth])?.is_some() {
            return Ok(depth);
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::super::Bundle;
    use super::super::edit::Change;
    use super::*;
    use crate::decision::{Delivery, Edit, Mount};
    use crate::model::{MemoryMode, MemoryPolicy};
    use std::path::Path;

    fn bundle(text: &str) -> Bundle {
        Bundle::parse(text.as_bytes(), Path::new("config.json")).unwrap()
    }

    /// Everything that the wrapper writes.
    fn everything(args: &[&str]) -> Edit {
        Edit {
            cpus: Some("1,5".parse().unwrap()),
            mems: Some("1".parse().unwrap()),
            drop_quota: true,
            env: vec![(VISIBLE.to_owned(), "GPU-a".to_owned())],
            record: Some("{}".into()),
            memory_policy: Some(MemoryPolicy { mode: MemoryMode::Bind, nodes: "1".parse().unwrap() }),
            delivery: Some(Delivery::Native),
            mounts: vec![Mount {
                source: "/run/maitred/launcher".into(),
                destination: LAUNCHER.into(),
                kind: "bind".into(),
                options: vec!["bind".into()],
            }],
            args: Some([LAUNCHER, "bind=static:1", "--"].iter().chain(args).map(|a| a.to_string()).collect()),
            ..Edit::default()
        }
    }

    fn change(edit: &Edit) -> Change<'_> {
        Change { edit, shares: true, stands: false }
    }

    const TEXTS: [&str; 3] = [
        r#"{"process":{"args":["sh","--","x"],"env":["A=\u0041"]},"mounts":[]}"#,
        r#"{"process":{"args":["sh"],"env":["NVIDIA_VISIBLE_DEVICES=all","A=\u0041","NVIDIA_VISIBLE_DEVICES=0"]},
            "mounts":[{"destination":"/x"}],"annotations":{"a":"b"},"linux":{"memoryPolicy":{"mode":"MPOL_LOCAL"},
            "resources":{"cpu":{"cpus":"0-3","quota":200000}}},"hooks":{"createRuntime":[{"path":"/bin/true"}]}}"#,
        r#"{"process":{"args":["a"],"env":[]},"mounts":[],"linux":{"resources":{"cpu":{ "quota":1 }}},"hooks":{"prestart":[]}}"#,
    ];

    #[test]
    fn what_was_edited_is_taken_back_to_the_byte_and_edited_again_is_the_same() {
        for text in TEXTS {
            let mut first = bundle(text);
            let hook = Some(r#"{"path":"/usr/bin/maitred","args":["maitred","hook","settle"]}"#);
            let args = first.party("c").container.args;
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            first.change(&change(&everything(&args)), hook).unwrap();
            assert!(first.text().contains("hook") && first.text().contains(LAUNCHER), "{}", first.text());
            let mut again = bundle(&first.text());
            assert_eq!(again.party("c").container, bundle(text).party("c").container);
            again.change(&change(&everything(&args)), hook).unwrap();
            assert_eq!(again.text(), first.text());
            again.take_back();
            assert_eq!(again.text(), text);
        }
    }

    #[test]
    fn what_somebody_else_has_written_since_is_theirs() {
        let mut first = bundle(TEXTS[2]);
        first.change(&change(&everything(&["a"])), None).unwrap();
        let theirs = first.text().replace("\"1,5\"", "\"7\"").replace("=GPU-a\"", "=GPU-b\"");
        // The note has what we wrote.
        let theirs = theirs.replacen("\\\"7\\\"", "\\\"1,5\\\"", 1);
        let mut again = bundle(&theirs);
        again.take_back();
        let seen: serde_json::Value = serde_json::from_str(&again.text()).unwrap();
        assert_eq!(seen["linux"]["resources"]["cpu"], serde_json::json!({ "quota": 1, "cpus": "7" }));
        assert_eq!(seen["process"]["env"][0], "NVIDIA_VISIBLE_DEVICES=GPU-b");
    }

    /// The note could be a tenant's, and say what quota there was.
    #[test]
    fn in_kubernetes_nothing_is_taken_back_and_nothing_noted() {
        let note = r#"{\"values\":{\"quota\":{\"before\":900000,\"after\":100000,\"depth\":4}}}"#;
        let text = format!(
            r#"{{"annotations":{{"io.kubernetes.cri.container-type":"container","before.maitred.io":"{note}"}},
            "linux":{{"resources":{{"cpu":{{"quota":100000}}}}}}}}"#
        );
        let mut pod = bundle(&text);
        assert_eq!(pod.party("c").container.resources.quota, Some(100_000));
        assert!(pod.party("c").pod.annotations.contains_key(BEFORE_ANNOTATION), "nobody knows it");
        pod.take_back();
        assert_eq!(pod.text(), text);
        let text = r#"{"annotations":{"io.kubernetes.cri.container-type":"container"}}"#;
        let mut pod = bundle(text);
        let edit = Edit { cpus: Some("1".parse().unwrap()), ..Edit::default() };
        pod.change(&change(&edit), None).unwrap();
        assert!(!pod.text().contains(BEFORE_ANNOTATION), "{}", pod.text());
        assert!(!bundle(&text.replace("cri.container-type", "x")).party("c").in_kubernetes);
    }

    #[test]
    fn a_note_that_nobody_wrote_changes_nothing() {
        let text = r#"{"annotations":{"before.maitred.io":"7"}}"#;
        let mut odd = bundle(text);
        odd.take_back();
        assert_eq!(odd.text(), text);
    }
}
