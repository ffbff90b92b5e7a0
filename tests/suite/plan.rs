//! `maitred plan` as its user meets it, on the example machine the project ships.

mod annotations;
mod capacity;
mod gpus;
mod reuse;

use crate::cli::run;
use maitred::model::{CpuId, CpuSet};
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
            pod("a", "cpu: 1, hugepages-1Gi: 1500Mi"),
            "pod.yaml: document 1: spec.containers[0].resources.limits.hugepages-1Gi: 1572864000: expected a \
             multiple of 1Gi",
        ),
        (
            pod("a", "cpu: 1, hugepages-3Mi: 3Mi"),
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
             ReplicaSet, Job or CronJob",
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

/// The container of that name of the pod of that title.
fn container<'a>(plan: &'a Value, title: &str, name: &str) -> &'a Value {
    let pod = plan["pods"].as_array().unwrap().iter().find(|pod| pod["pod"] == title).expect(title);
    pod["containers"].as_array().unwrap().iter().find(|container| container["name"] == name).expect(name)
}

fn cpus(container: &Value) -> CpuSet {
    container["cpus"].as_str().unwrap().parse().unwrap()
}

/// Node 0 of the example machine.
fn first_node() -> CpuSet {
    "0-55,112-167".parse().unwrap()
}

#[test]
fn the_example_sits_whole_on_one_node() {
    let (status, out, err) = run(&["plan", VLLM, "--topology", SERVER, "-o", "json"]);
    assert_eq!((status, err.as_str()), (0, ""));
    let plan: Value = serde_json::from_str(&out).unwrap();
    let vllm = container(&plan, "default/vllm", "vllm");

    assert_eq!(cpus(vllm).len(), 16);
    assert!(cpus(vllm).is_subset(&first_node()));
    // Sixteen CPUs are eight whole cores.
    assert!(cpus(vllm).iter().all(|CpuId(cpu)| cpus(vllm).contains(CpuId((cpu + 112) % 224))));
    let expected = serde_json::json!({
        "name": "vllm", "exclusive": true, "aligned": true, "cpus": vllm["cpus"], "mems": "0",
        "gpus": ["GPU-00000000-0000-4000-8000-000000000000", "GPU-00000000-0000-4000-8000-000000000001"],
        "nics": [], "memory_bytes": 214_748_364_800_u64, "hugepages": {"1Gi": 16},
        "memory_policy": {"mode": "bind", "nodes": "0"}
    });
    assert_eq!(*vllm, expected);
    let pod = &plan["pods"][0];
    assert_eq!(
        (&pod["admitted"], &pod["reason"], &pod["message"]),
        (&true.into(), &Value::Null, &Value::Null)
    );
    assert_eq!(pod["candidates"], serde_json::json!([]));
    assert!(plan.get("fill").is_none());
}

#[test]
fn pods_are_seated_beside_each_other() {
    let yaml: String =
        ["a", "b", "c"].map(|name| pod(name, "cpu: 30, memory: 1Gi, nvidia.com/gpu: 1")).concat();
    let (status, plan, _) = json(&yaml, "", &[]);
    assert_eq!(status, 0);
    let seats: Vec<_> =
        ["a", "b", "c"].map(|name| container(&plan, &format!("default/{name}"), "main")).to_vec();
    let all = seats.iter().fold(CpuSet::new(), |all, seat| all.union(&cpus(seat)));
    assert_eq!(all.len(), 90);
    let gpus: std::collections::BTreeSet<_> =
        seats.iter().map(|seat| seat["gpus"][0].as_str().unwrap()).collect();
    assert_eq!(gpus.len(), 3);
}

#[test]
fn what_does_not_fit_is_rejected_with_its_evidence_and_status_1() {
    let (status, plan, _) = json(&pod("big", "cpu: 16, memory: 1Gi, nvidia.com/gpu: 5"), "", &[]);
    assert_eq!(status, 1);
    let pod = &plan["pods"][0];
    assert_eq!((&pod["admitted"], &pod["containers"]), (&false.into(), &serde_json::json!([])));
    assert_eq!(pod["reason"], "TopologyAffinityError");
    assert!(pod["message"].as_str().unwrap().starts_with("TopologyAffinityError: "));
    let gpus = serde_json::json!({"resource": "nvidia.com/gpu", "needed": 5, "available": 4});
    for (candidate, node) in pod["candidates"].as_array().unwrap().iter().zip(["0", "1"]) {
        assert_eq!(candidate["nodes"], node);
        assert_eq!(candidate["short"], serde_json::json!([gpus]));
    }
    assert!(pod["candidates"].as_array().unwrap().len() >= 2);
}

#[test]
fn a_laxer_policy_lets_it_lie_across_nodes() {
    let yaml = pod("big", "cpu: 16, memory: 1Gi, nvidia.com/gpu: 5");
    let config = "[policy]\ntopology = \"best-effort\"";
    let (status, plan, _) = json(&yaml, config, &[]);
    assert_eq!(status, 0);
    let main = container(&plan, "default/big", "main");
    assert_eq!(main["gpus"].as_array().unwrap().len(), 5);
    assert_eq!(main["aligned"], false);
    let (_, text, _) = plan_text(&yaml, config);
    assert!(text.contains("across nodes 0-1\n"), "{text}");
}

fn plan_text(yaml: &str, config: &str) -> (i32, String, String) {
    plan(yaml, config, &[])
}

#[test]
fn nics_are_seated_like_gpus() {
    let yaml =
        pod("net", "cpu: 2, memory: 1Gi, rdma/hca: 3") + &pod("more", "cpu: 2, memory: 1Gi, rdma/hca: 2");
    let (status, plan, _) = json(&yaml, "", &[]);
    assert_eq!(status, 0);
    assert_eq!(
        container(&plan, "default/net", "main")["nics"],
        serde_json::json!(["mlx5_0", "mlx5_1", "mlx5_2"])
    );
    assert_eq!(container(&plan, "default/more", "main")["nics"], serde_json::json!(["mlx5_4", "mlx5_5"]));
}

#[test]
fn fill_counts_the_replicas_that_fit() {
    let (status, out, _) = run(&["plan", VLLM, "--topology", SERVER, "--fill", "-o", "json"]);
    let plan: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(status, 0);
    assert_eq!((&plan["fill"]["pod"], &plan["fill"]["replicas"]), (&"default/vllm".into(), &4.into()));
    assert_eq!(plan["fill"]["reason"], "TopologyAffinityError");
    assert_eq!(plan["pods"].as_array().unwrap().len(), 4);
    assert_eq!(plan["pods"][3]["pod"], "default/vllm-4");

    let (status, out, _) = run(&["plan", VLLM, "--topology", SERVER, "--fill"]);
    assert_eq!(status, 0);
    let told = "\n4 replicas of default/vllm fit; GPUs run out first\n  nodes 0-1: 2 replicas each, then 2 GPUs \
                needed, 0 GPUs free\nthe next one is told:\n  TopologyAffinityError: no single NUMA node has 16 CPUs";
    assert!(out.contains(told), "{out}");
}

#[test]
fn fill_goes_beside_the_pods_before_it() {
    let yaml = pod("first", "cpu: 2, memory: 1Gi, nvidia.com/gpu: 3")
        + &pod("last", "cpu: 2, memory: 1Gi, nvidia.com/gpu: 2");
    let (status, plan, _) = json(&yaml, "", &["--fill"]);
    assert_eq!((status, &plan["fill"]["replicas"]), (0, &2.into()));
    let (status, plan, _) = json(&pod("huge", "cpu: 2, memory: 1Gi, nvidia.com/gpu: 5"), "", &["--fill"]);
    assert_eq!((status, &plan["fill"]["replicas"]), (1, &0.into()));
}

#[test]
fn what_takes_nothing_fits_any_number_of_times() {
    let web = "kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main}]}";
    let (status, plan, _) = json(web, "", &["--fill"]);
    assert_eq!((status, &plan["fill"]["replicas"]), (0, &Value::Null));
    let (_, seated, _) = json(web, "", &[]);
    assert_eq!(
        container(&seated, "default/web", "main")["aligned"],
        Value::Null,
        "nothing that could be aligned"
    );
    let (_, text, _) = plan_text(web, "");
    assert!(text.contains("in the shared pool\n  default/web  main  shared CPUs\n"), "{text}");
}

#[test]
fn the_exempt_are_never_rejected() {
    let yaml = pod("agent, namespace: kube-system", "cpu: 2, memory: 1Gi, nvidia.com/gpu: 5");
    let (status, plan, _) = json(&yaml, "", &[]);
    assert_eq!(status, 0);
    assert_eq!(container(&plan, "kube-system/agent", "main")["exclusive"], false);
    assert_eq!(json(&yaml, "[exempt]\nnamespaces = []", &[]).0, 1);
}

#[test]
fn a_gpu_without_cpus_of_its_own_is_told_and_rejected_where_the_owner_says_so() {
    let yaml = pod("notebook", "cpu: 1500m, memory: 1Gi, nvidia.com/gpu: 1");
    let (status, text, _) = plan_text(&yaml, "");
    assert_eq!(status, 0);
    assert!(text.contains("default/notebook  main  shared CPUs"), "{text}");
    let note =
        "note: default/notebook: no exclusive CPUs: container main asks for 1500m, not for whole CPUs\n";
    assert!(text.contains(note), "{text}");
    let (_, plan, err) = json(&yaml, "", &[]);
    assert_eq!(container(&plan, "default/notebook", "main")["aligned"], true, "what it has of its own is");
    let note = "no exclusive CPUs: container main asks for 1500m, not for whole CPUs";
    assert_eq!((&plan["pods"][0]["notes"], &*err), (&serde_json::json!([note]), ""));
    let (status, text, _) = plan_text(&yaml, "[policy]\nineligible = \"reject\"");
    assert_eq!(status, 1);
    assert!(
        text.contains(
            "InvalidRequestError: container main: asks for 1500m CPU shared, 1Gi, 1 GPU but gets no exclusive CPUs"
        ),
        "{text}"
    );
}

#[test]
fn reservations_are_kept_out() {
    let config = "[cpu]\nreserved = \"0-49,112-161\"\n[memory]\nreserved = { 1 = { memory = \"900Gi\" } }";
    let (status, plan, _) = json(&pod("a", "cpu: 16, memory: 1Gi"), config, &[]);
    assert_eq!(status, 0);
    assert!(cpus(container(&plan, "default/a", "main")).is_disjoint(&first_node()));
    let (status, plan, _) = json(&pod("a", "cpu: 16, memory: 200Gi"), config, &[]);
    assert_eq!((status, &plan["pods"][0]["reason"]), (1, &"TopologyAffinityError".into()));
    let (status, _, err) = plan_text(&pod("a", "cpu: 1"), "[cpu]\nreserved = \"500\"");
    assert_eq!(status, 2);
    assert!(err.contains(SERVER) && err.contains("500"), "{err}");
}

/// What the README shows is what is printed; `MAITRED_BLESS=1` writes it anew.
#[test]
fn the_readme_is_true() {
    let (status, out, err) = run(&["plan", "packaging/examples/full-node.yaml", "--topology", SERVER]);
    assert_eq!(status, 1);
    assert!(err.contains("a Service has no pod to seat"), "{err}");
    let readme = std::fs::read_to_string("README.md").unwrap();
    let (_, filled, _) = run(&["plan", VLLM, "--topology", SERVER, "--fill"]);
    let (_, told) = filled.split_once("\n\n4 replicas").expect("what it ends with");
    assert!(
        readme.contains(&format!("```\n4 replicas{told}```\n")),
        "what --fill tells is not what is printed"
    );
    let (before, rest) = readme.split_once("<!-- plan -->\n```\n").expect("the place in the README");
    let (shown, after) = rest.split_once("```\n").expect("its end");
    if std::env::var_os("MAITRED_BLESS").is_some() {
        std::fs::write("README.md", format!("{before}<!-- plan -->\n```\n{out}```\n{after}")).unwrap();
    } else {
        assert_eq!(shown, out, "write it anew with MAITRED_BLESS=1");
    }
}
