//! Pod YAML, as far as seating needs it. Everything else in it is left unread.

use crate::model::Quantity;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// Why a pod could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PodError {
    /// No YAML.
    #[error("{file}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// The parser's words, with line and column, on one line.
        message: String,
    },
    /// Something in a document.
    #[error("{place}: {}{message}", before(path))]
    Content {
        /// The document.
        place: Document,
        /// Where in it.
        path: String,
        /// What is wrong and what was expected.
        message: String,
    },
    /// No pod in any file.
    #[error("{files}: no pod in there: expected a Pod, or a {KINDS}")]
    NoPod {
        /// The files.
        files: String,
    },
}

/// The path before a message; the document itself has none.
fn before(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

/// One document of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The file.
    pub file: String,
    /// Which one, counted from one.
    pub number: usize,
}

impl std::fmt::Display for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: document {}", self.file, self.number)
    }
}

impl Document {
    /// An error at `path`.
    pub fn error(&self, path: impl Into<String>, message: impl Into<String>) -> PodError {
        PodError::Content { place: self.clone(), path: path.into(), message: message.into() }
    }
}

/// The workloads whose template is read.
pub const KINDS: &str = "Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob";

/// A pod of a manifest, its own or a workload's template.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Where it stands.
    pub place: Document,
    /// The path of the pod's object in the document, with a final dot; empty for the document itself.
    pub prefix: String,
    /// The pod's metadata; a template's name is its workload's.
    pub metadata: Metadata,
    /// The pod's spec.
    pub spec: PodSpec,
    /// How many of it the workload asks for, where it says.
    pub replicas: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)] // The fields are those of the Kubernetes API.
pub struct Metadata {
    pub name: Option<String>,
    pub generate_name: Option<String>,
    pub namespace: Option<String>,
    pub annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)] // The fields are those of the Kubernetes API.
pub struct PodSpec {
    pub containers: Vec<Container>,
    pub init_containers: Option<Vec<Container>>,
    pub resources: Option<Value>,
    pub resource_claims: Option<Vec<Value>>,
    pub runtime_class_name: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)] // The fields are those of the Kubernetes API.
pub struct Container {
    pub name: String,
    pub resources: Option<Resources>,
    pub restart_policy: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[allow(missing_docs)] // The fields are those of the Kubernetes API.
pub struct Resources {
    pub requests: Option<Amounts>,
    pub limits: Option<Amounts>,
}

/// Amounts by resource.
pub type Amounts = BTreeMap<String, Quantity>;

#[derive(Deserialize)]
struct PodObject {
    #[serde(default)]
    metadata: Option<Metadata>,
    spec: PodSpec,
}

#[derive(Deserialize)]
struct Workload {
    #[serde(default)]
    metadata: Option<Metadata>,
    spec: WorkloadSpec,
}

#[derive(Deserialize)]
struct WorkloadSpec {
    replicas: Option<u32>,
    parallelism: Option<u32>,
    template: PodObject,
}

#[derive(Deserialize)]
struct CronJob {
    #[serde(default)]
    metadata: Option<Metadata>,
    spec: CronJobSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CronJobSpec {
    job_template: JobTemplate,
}

#[derive(Deserialize)]
struct JobTemplate {
    spec: WorkloadSpec,
}

#[derive(Deserialize)]
struct PodTemplate {
    #[serde(default)]
    metadata: Option<Metadata>,
    template: PodObject,
}

#[derive(Deserialize)]
struct Items {
    items: Vec<Value>,
}

/// The pods of one file and what was passed over.
pub fn read(file: &str, text: &str) -> Result<(Vec<Manifest>, Vec<String>), PodError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| syntax(file, &error))?;
    let (mut pods, mut warnings) = (Vec::new(), Vec::new());
    for (index, value) in documents.into_iter().enumerate() {
        let place = Document { file: file.to_owned(), number: index + 1 };
        object(&place, "", None, value, &mut pods, &mut warnings)?;
    }
    Ok((pods, warnings))
}

fn syntax(file: &str, error: &serde_saphyr::Error) -> PodError {
    let text = error.without_snippet().to_string();
    let message = text.split_whitespace().collect::<Vec<_>>().join(" ");
    PodError::Syntax { file: file.to_owned(), message }
}

/// One object: a pod, something with a template, a list of objects, or something else. In a list of one kind its
/// objects need not say it again.
fn object(
    place: &Document,
    prefix: &str,
    listed: Option<&str>,
    value: Value,
    pods: &mut Vec<Manifest>,
    warnings: &mut Vec<String>,
) -> Result<(), PodError> {
    let Some(kind) = value.get("kind").and_then(Value::as_str).or(listed).map(String::from) else {
        let message = format!("missing, or no text: expected Pod, or {KINDS}");
        return Err(place.error(format!("{prefix}kind"), message));
    };
    match kind.as_str() {
        "Pod" => pods.push(pod(place, prefix, value)?),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" | "Job" => {
            let Workload { metadata, spec } = typed(place, prefix, value)?;
            pods.push(template(place, &format!("{prefix}spec."), metadata, spec));
        }
        "CronJob" => {
            let CronJob { metadata, spec } = typed(place, prefix, value)?;
            pods.push(template(
                place,
                &format!("{prefix}spec.jobTemplate.spec."),
                metadata,
                spec.job_template.spec,
            ));
        }
        "PodTemplate" => {
            let PodTemplate { metadata, template } = typed(place, prefix, value)?;
            let spec = WorkloadSpec { replicas: None, parallelism: None, template };
            pods.push(self::template(place, prefix, metadata, spec));
        }
        list if list.ends_with("List") => {
            let listed = list.strip_suffix("List").filter(|kind| !kind.is_empty());
            let Items { items } = typed(place, prefix, value)?;
            for (index, item) in items.into_iter().enumerate() {
                object(place, &format!("{prefix}items[{index}]."), listed, item, pods, warnings)?;
            }
        }
        other => warnings.push(format!("{place}: a {other} has no pod to seat, passed over")),
    }
    Ok(())
}

fn pod(place: &Document, prefix: &str, value: Value) -> Result<Manifest, PodError> {
    let PodObject { metadata, spec } = typed(place, prefix, value)?;
    let (place, prefix) = (place.clone(), prefix.to_owned());
    Ok(Manifest { place, prefix, metadata: metadata.unwrap_or_default(), spec, replicas: None })
}

/// The pod of a workload; `path` is where the template is, with a final dot.
fn template(place: &Document, path: &str, metadata: Option<Metadata>, spec: WorkloadSpec) -> Manifest {
    let own = metadata.unwrap_or_default();
    let annotations = spec.template.metadata.and_then(|metadata| metadata.annotations);
    Manifest {
        place: place.clone(),
        prefix: format!("{path}template."),
        metadata: Metadata { annotations, ..own },
        spec: spec.template.spec,
        replicas: spec.replicas.or(spec.parallelism),
    }
}

fn typed<T: DeserializeOwned>(place: &Document, prefix: &str, value: Value) -> Result<T, PodError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = format!("{prefix}{}", error.path());
        place.error(path.trim_end_matches('.'), error.inner().to_string())
    })
}
