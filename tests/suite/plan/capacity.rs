//! Planning for capacity: how many fit, what if, and everything pods come in.

use super::{SERVER, VLLM, container, cpus, file, first_node, json, plan_text, pod, refused};
use crate::cli::run;

#[test]
fn fill_tells_how_many_fit_on_which_node_and_what_runs_out_there() {
    // Node 0 has fewer GPUs left and node 1 less memory.
    let yaml = pod("first", "cpu: 2, memory: 1Gi, nvidia.com/gpu: 3")
        + &pod("last", "cpu: 2, memory: 100Gi, nvidia.com/gpu: 1");
    let config = "[memory]\nreserved = { 1 = { memory = \"800Gi\" } }";
    let (_, plan, _) = json(&yaml, config, &["--fill"]);
    let gpus = serde_json::json!({"resource": "nvidia.com/gpu", "needed": 1, "available": 0});
    let nodes = plan["fill"]["nodes"].as_array().unwrap();
    assert_eq!(nodes[0], serde_json::json!({"nodes": "0", "replicas": 1, "short": [gpus]}));
    assert_eq!((&nodes[1]["nodes"], &nodes[1]["replicas"]), (&"1".into(), &1.into()));
    assert_eq!(nodes[1]["short"][0]["resource"], "memory");
    assert_eq!(plan["fill"]["runs_out"], serde_json::json!([]), "not the same thing on both");
    let (_, text, _) = super::plan(&yaml, config, &["--fill"]);
    let told = "\n2 replicas of default/last fit\n  node 0: 1 replica, then 1 GPU needed, 0 GPUs free\n  node 1: 1 \
                replica, then 100Gi needed, 43.98Gi free\nthe next one is told:\n";
    assert!(text.contains(told), "{text}");

    let wide = pod("wide", "cpu: 130, memory: 1Gi");
    let (_, text, _) = super::plan(&wide, "[policy]\ntopology = \"best-effort\"", &["--fill"]);
    assert!(text.contains("  across nodes 0-1: 1 replica\n"), "{text}");
}

#[test]
fn a_workload_is_seated_as_often_as_it_asks_for() {
    let yaml = "kind: Deployment\nmetadata: {name: web}\nspec: {replicas: 5, template: {spec: {containers: [{name: main, \
                resources: {limits: {cpu: 30, memory: 1Gi, nvidia.com/gpu: 2}}}]}}}";
    let (status, plan, _) = json(yaml, "", &["--replicas"]);
    let pods = plan["pods"].as_array().unwrap();
    let told: Vec<_> =
        pods.iter().map(|pod| (pod["pod"].as_str().unwrap(), pod["admitted"] == true)).collect();
    assert_eq!(status, 1);
    assert_eq!(told[..2], [("default/web-1", true), ("default/web-2", true)]);
    assert_eq!(told[4], ("default/web-5", false));
    let (status, plan, _) = json(yaml, "", &[]);
    assert_eq!((status, plan["pods"].as_array().unwrap().len()), (0, 1));
    let note = "one of 5 replicas; --replicas seats them all, --fill tells how many fit";
    assert_eq!(plan["pods"][0]["notes"], serde_json::json!([note]));
    let many = yaml.replace("replicas: 5", "replicas: 50000");
    let (status, _, err) = super::plan(&many, "", &["--replicas"]);
    assert_eq!(
        (status, &*err),
        (2, "maitred: pod.yaml: document 1: spec: expected at most 10000 replicas on one node\n")
    );
}

#[test]
fn those_of_whom_the_same_is_said_are_named_together() {
    let yaml: String = (0..7)
        .map(|number| pod(&format!("p{number}"), "cpu: 1500m, memory: 1Gi, nvidia.com/gpu: 5"))
        .collect();
    let (_, text, _) = plan_text(&yaml, "");
    let rejected =
        "rejected: default/p0, default/p1, default/p2, default/p3 and 3 more\n  TopologyAffinityError: ";
    assert!(text.contains(rejected), "{text}");
    assert_eq!(text.matches("no exclusive CPUs: container main asks for 1500m").count(), 1, "{text}");
}

#[test]
fn templates_are_found_wherever_kubernetes_puts_them() {
    let spec = "{containers: [{name: main, resources: {limits: {cpu: 2, memory: 1Gi}}}]}";
    for (yaml, title) in [
        (
            format!(
                "kind: CronJob\nmetadata: {{name: a}}\nspec: {{jobTemplate: {{spec: {{parallelism: 2, template: {{spec: {spec}}}}}}}}}"
            ),
            "default/a",
        ),
        (format!("kind: PodTemplate\nmetadata: {{name: b}}\ntemplate: {{spec: {spec}}}"), "default/b"),
        (
            format!(
                "kind: ReplicationController\nmetadata: {{name: c}}\nspec: {{template: {{spec: {spec}}}}}"
            ),
            "default/c",
        ),
        (
            format!(
                "kind: DeploymentList\nitems: [{{metadata: {{name: d}}, spec: {{template: {{spec: {spec}}}}}}}]"
            ),
            "default/d",
        ),
        (format!("kind: PodList\nitems: [{{metadata: {{name: e, namespace: x}}, spec: {spec}}}]"), "x/e"),
        (
            format!(
                "kind: List\nitems: [{{kind: List, items: [{{kind: Pod, metadata: {{name: f}}, spec: {spec}}}]}}]"
            ),
            "default/f",
        ),
    ] {
        let (status, plan, err) = json(&yaml, "", &[]);
        assert_eq!((status, plan["pods"][0]["pod"].as_str()), (0, Some(title)), "{yaml} {err}");
    }
    let broken = "kind: CronJob\nmetadata: {name: a}\nspec: {jobTemplate: {spec: {template: {spec: {containers: [{name: m, \
                  resources: {limits: {cpus: 2}}}]}}}}}";
    assert!(
        refused(broken).starts_with(
            "pod.yaml: document 1: spec.jobTemplate.spec.template.spec.containers[0].resources.limits.cpus: no resource"
        ),
        "{}",
        refused(broken)
    );
}

#[test]
fn what_no_cluster_takes_is_refused_by_name() {
    let resources = |text: &str| {
        refused(&format!(
            "kind: Pod\nmetadata: {{name: a}}\nspec: {{containers: [{{name: m, resources: {{{text}}}}}]}}"
        ))
    };
    let place = "pod.yaml: document 1: spec.containers[0].resources.";
    assert_eq!(
        resources("requests: {cpu: 4}, limits: {cpu: 3, memory: 1Gi}"),
        format!("{place}requests.cpu: 4: expected no more than the limit, 3")
    );
    let told = resources("limits: {cpus: 3, memory: 1Gi}");
    assert!(
        told.starts_with(&format!("{place}limits.cpus: no resource of a container: expected cpu, memory,")),
        "{told}"
    );
}

#[test]
fn what_if_the_configuration_were_another() {
    let yaml = pod("big", "cpu: 16, memory: 1Gi, nvidia.com/gpu: 5");
    assert_eq!(json(&yaml, "", &[]).0, 1);
    let (status, plan, _) = json(&yaml, "", &["--set", "policy.topology=best-effort"]);
    assert_eq!((status, &plan["pods"][0]["admitted"]), (0, &true.into()));
    let (status, plan, _) = json(
        &pod("a", "cpu: 16, memory: 1Gi"),
        "",
        &["--set", "cpu.reserved=\"0-49,112-161\"", "--set", "policy.scope=container"],
    );
    assert_eq!(status, 0);
    assert!(cpus(container(&plan, "default/a", "main")).is_disjoint(&first_node()));
    let (status, _, err) = super::plan(&yaml, "", &["--set", "policy.topology=sideways"]);
    assert_eq!(status, 2);
    assert!(
        err.starts_with(
            "maitred: --set policy.topology=sideways: policy.topology = \"sideways\": expected one of"
        ),
        "{err}"
    );
}

#[test]
fn a_dash_is_standard_input_for_the_pods_or_the_machine() {
    let pods = std::fs::read_to_string(VLLM).unwrap();
    let server = std::fs::read_to_string(SERVER).unwrap();
    let told = |args: &[&str], input: &str| {
        let output = crate::cli::maitred(args).write_stdin(input).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), err)
    };
    let expected = run(&["plan", VLLM, "--topology", SERVER]).1;
    for (args, input) in
        [(&["plan", "-", "--topology", SERVER][..], &pods), (&["plan", VLLM, "--topology", "-"], &server)]
    {
        assert_eq!(told(args, input), (Some(0), expected.clone(), String::new()), "{args:?}");
    }
    assert_eq!(told(&["topology", "--topology", "-", "-o", "json"], &server).0, Some(0));
    assert_eq!(
        told(&["plan", VLLM, "--topology", "-"], "{}").2,
        "maitred: standard input: snapshot: missing field `version` at line 1 column 2\n"
    );
    for args in [&["plan", "-", "--topology", "-"][..], &["plan", "-", "-", "--topology", SERVER]] {
        let (status, _, err) = told(args, &pods);
        assert_eq!(status, Some(2));
        assert!(err.starts_with("maitred: - is named twice"), "{err}");
    }
}

#[test]
fn more_than_the_machine_has_at_all_is_called_that() {
    const ALL: [&str; 3] = ["best-effort", "restricted", "single-numa-node"];
    let machine = "tests/machines/two-sockets-four-nodes";
    for (limits, told, policies) in [
        (
            "cpu: 2, memory: 9000Gi",
            "9000Gi needed, more than the whole machine has for containers: ",
            &ALL[..],
        ),
        (
            "cpu: 20, memory: 1Gi",
            "20 CPUs needed, more than the 6 that the whole machine has for containers",
            &ALL[..2],
        ),
        (
            "cpu: 2, memory: 1Gi, rdma/hca: 9",
            "9 NICs needed, more than the 2 that the whole machine has",
            &ALL[..2],
        ),
        (
            "cpu: 2, memory: 1Gi, nvidia.com/mig-1g.10gb: 1",
            "1 nvidia.com/mig needed, but the machine has none",
            &ALL,
        ),
    ] {
        let yaml = pod("a", limits);
        for policy in policies {
            let pods = file(&yaml);
            let set = format!("policy.topology={policy}");
            let (status, text, _) =
                run(&["plan", pods.path().to_str().unwrap(), "--sysroot", machine, "--set", &set]);
            assert_eq!(status, 1);
            assert!(!text.contains("on the pod's"), "{policy}: {text}");
            let _ = told;
        }
    }
}
