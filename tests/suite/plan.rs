//! `maitred plan` as its user meets it, on the example machine the project ships.

use crate::cli::run;
use serde_json::Value;
use std::io::Write;

const SERVER: &str = "packaging/examples/h100-server.json";
const VLLM: &str = "packaging/examples/vllm.yaml";

/// A file with `text`, for as long as it is held.
fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// Plans `yaml` on the example machine under `config`.
fn plan(yaml: &str, config: &str, more: &[&str]) -> (i32, String, String) {
    let (pods, config) = (file(yaml), file(&format!("version = 1\n{config}")));
    let (pods, config) = (pods.path().to_str().unwrap(), config.path().to_str().unwrap());
    let (status, out, err) = run(&[&["plan", pods, "--topology", SERVER, "--config", config], more].concat());
    (status, out.replace(pods, "pod.yaml"), err.replace(pods, "pod.yaml"))
}

fn json(yaml: &str, config: &str, more: &[&str]) -> (i32, Value, String) {
    let (status, out, err) = plan(yaml, config, &[&["-o", "json"], more].concat());
    (status, serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out} {err}")), err)
}

/// A pod with one container of these limits.
fn pod(name: &str, limits: &str) -> String {
    format!(
        "kind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: main, resources: {{limits: \
         {{{limits}}}}}}}]}}\n---\n"
    )
}

/// What `maitred plan` says of a manifest it cannot read.
fn refused(yaml: &str) -> String {
    let (status, out, err) = plan(yaml, "", &[]);
    assert_eq!((status, out.as_str()), (2, ""), "{err}");
    err.strip_prefix("maitred: ").unwrap().trim_end().to_owned()
}

#[test]
fn a_malformed_pod_names_file_document_path_value_and_expectation() {
    for (yaml, expected) in [
        (
            pod("a", "cpu: 4, memory: 200GB"),
            "pod.yaml: document 1: spec.containers[0].resources.limits.memory: \"200GB\" is no quantity: expected \
             a number with an optional unit, such as 16, 1500m, 200Gi or 1e3",
        ),
        (
            format!("{}{}", pod("a", "cpu: 4"), pod("b", "nvidia.com/gpu: 1500m")),
            "pod.yaml: document 2: spec.containers[0].resources.limits.nvidia.com/gpu: 1500m: expected a whole \
             number of devices",
        ),
        (
            pod("a", "hugepages-1Gi: 1500Mi"),
            "pod.yaml: document 1: spec.containers[0].resources.limits.hugepages-1Gi: 1572864000: expected a \
             multiple of 1Gi",
        ),
        (
            pod("a", "hugepages-3Mi: 3Mi"),
            "pod.yaml: document 1: spec.containers[0].resources.limits.hugepages-3Mi: \"3Mi\" is no hugepage size: \
             expected a power of two with a unit, such as 2Mi, 2MB or 2048kB",
        ),
        (
            "kind: Pod\nmetadata: {name: a}\nspec: {containers: 3}".into(),
            "pod.yaml: document 1: spec.containers: invalid type: integer `3`, expected a sequence",
        ),
        (
            "kind: Job\nmetadata: {name: a}\nspec: {template: {spec: {}}}".into(),
            "pod.yaml: document 1: spec.template.spec: missing field `containers`",
        ),
        (
            "kind: Pod\nmetadata: {name: a}\nspec: {containers: []}".into(),
            "pod.yaml: document 1: spec.containers: empty: expected at least one container",
        ),
        (
            "kind: Pod\nspec: {containers: [{name: x}]}".into(),
            "pod.yaml: document 1: metadata.name: missing: expected the pod's name",
        ),
        (
            "kind: Pod\nmetadata: {name: a, annotations: {policy.maitred.io: false}}\nspec: {containers: [{name: \
             x}]}"
                .into(),
            "pod.yaml: document 1: metadata.annotations.policy.maitred.io: invalid type: boolean `false`, expected \
             a string",
        ),
        (
            "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: x}], initContainers: [{name: init, \
             restartPolicy: Sometimes}]}"
                .into(),
            "pod.yaml: document 1: spec.initContainers[0].restartPolicy: \"Sometimes\": expected Always, OnFailure \
             or Never",
        ),
        (
            "kind: List\nitems: [{kind: Pod, metadata: {name: a}, spec: {containers: [{name: 3}]}}]".into(),
            "pod.yaml: document 1: items[0].spec.containers[0].name: invalid type: integer `3`, expected a string",
        ),
        ("kind: Pod".into(), "pod.yaml: document 1: missing field `spec`"),
        (
            "spec: {}".into(),
            "pod.yaml: document 1: kind: missing, or no text: expected Pod, or Deployment, StatefulSet, DaemonSet, \
             ReplicaSet or Job",
        ),
    ] {
        assert_eq!(refused(&yaml), expected);
    }
}

#[test]
fn what_is_no_yaml_names_its_line_on_one_line() {
    for yaml in
        ["kind: Pod\nspec: [", "kind: Pod\nkind: Job\n", "kind: \"Pod", "kind: Pod\nmetadata: {a: *nowhere}"]
    {
        let message = refused(yaml);
        assert!(message.starts_with("pod.yaml: ") && message.contains("line "), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn other_kinds_are_passed_over_with_a_warning_and_no_pod_at_all_is_an_error() {
    let service = "kind: Service\nspec: {ports: [{port: 80}]}\n";
    let (status, _, err) = plan(service, "", &[]);
    assert_eq!(status, 2);
    assert!(err.contains("pod.yaml: document 1: a Service has no pod to seat, passed over"), "{err}");
    assert!(err.contains("maitred: pod.yaml: no pod in there: expected a Pod, or a Deployment"), "{err}");
    assert!(refused("").contains("no pod in there"));
}

#[test]
fn files_that_are_not_there_are_named() {
    let (status, _, err) = run(&["plan", "nowhere.yaml", "--topology", SERVER]);
    assert_eq!(status, 2);
    assert!(err.starts_with("maitred: cannot read nowhere.yaml: No such file"), "{err}");
    let (status, _, err) = run(&["plan", VLLM, "--topology", "nowhere.json"]);
    assert_eq!(status, 2);
    assert!(err.starts_with("maitred: cannot read nowhere.json: No such file"), "{err}");
    let (status, _, err) = run(&["plan", VLLM, "--topology", VLLM]);
    assert_eq!(status, 2);
    assert!(err.starts_with(&format!("maitred: {VLLM}: snapshot: ")), "{err}");
}
