//! `maitred plan` and pod annotations: followed, or the pod is rejected, as on the node.

use super::{container, cpus, json, plan_text, pod};

/// A pod with these annotations and one container of these limits.
pub(super) fn annotated(name: &str, annotations: &str, limits: &str) -> String {
    pod(name, limits)
        .replace(&format!("{{name: {name}}}"), &format!("{{name: {name}, annotations: {{{annotations}}}}}"))
}

#[test]
fn gpus_by_annotation_come_from_the_owners_pool() {
    let yaml = annotated("a", "gpus.maitred.io: '2'", "cpu: 4, memory: 1Gi");
    let gpus = |config: &str| {
        let (status, plan, _) = json(&yaml, config, &[]);
        assert_eq!(status, 0, "{plan}");
        container(&plan, "default/a", "main")["gpus"].clone()
    };
    let uuid = |n: u32| format!("GPU-00000000-0000-4000-8000-{n:012}");
    assert_eq!(gpus("[gpu]\nannotation_pool = \"all\""), serde_json::json!([uuid(0), uuid(1)]));
    let kept = format!("[gpu]\nannotation_pool = [{:?}, {:?}]", uuid(6), uuid(5));
    assert_eq!(gpus(&kept), serde_json::json!([uuid(5), uuid(6)]));
    // The device plugin does not offer those, and the table shows each GPU once.
    let others = pod("b", "cpu: 4, memory: 1Gi, nvidia.com/gpu: 3");
    let (status, text, _) = plan_text(&(yaml.clone() + &others), &kept);
    assert_eq!(status, 0, "{text}");
    assert!(
        text.contains("default/a  main") && text.contains("GPU 5-6") && text.contains("GPU 0-2"),
        "{text}"
    );
    assert!(text.contains("GPU 4,7 "), "{text}");
    let (status, plan, _) = json(&yaml, "", &[]);
    assert_eq!((status, &plan["pods"][0]["reason"]), (1, &"InvalidRequestError".into()));
    let message = plan["pods"][0]["message"].as_str().unwrap();
    assert!(message.ends_with("this node gives no GPUs to annotations (gpu.annotation_pool)"), "{message}");
}

#[test]
fn an_annotation_that_cannot_be_followed_rejects_its_pod_alone() {
    let yaml = [
        annotated("typo", "gpu.maitred.io: '1'", "cpu: 2, memory: 1Gi"),
        annotated("lax", "policy.maitred.io: none", "cpu: 2, memory: 1Gi"),
        annotated("both", "gpus.maitred.io: '1'", "cpu: 2, memory: 1Gi, nvidia.com/gpu: 1"),
        annotated("system, namespace: kube-system", "", "cpu: 2")
            .replace("annotations: {}", "annotations: {x.maitred.io: z}"),
        pod("fine", "cpu: 2, memory: 1Gi"),
    ]
    .concat();
    let (status, plan, _) = json(&yaml, "[gpu]\nannotation_pool = \"all\"", &[]);
    assert_eq!(status, 1);
    let admitted: Vec<_> = plan["pods"].as_array().unwrap().iter().map(|pod| &pod["admitted"]).collect();
    assert_eq!(admitted, [false, false, false, true, true]);
    for (pod, expected) in [
        "annotation \"gpu.maitred.io\" is not known: expected one of policy.maitred.io",
        "annotation \"policy.maitred.io\" is \"none\", more lenient than this node's single-numa-node",
        "asks for GPUs while the container already asks for 1 GPU: expected one of the two",
    ]
    .iter()
    .enumerate()
    {
        let message = plan["pods"][pod]["message"].as_str().unwrap();
        assert!(message.starts_with("InvalidRequestError: container main: annotation"), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn policy_scope_exclusive_and_memory_policy_are_followed_by_container() {
    let big = "cpu: 16, memory: 1Gi, nvidia.com/gpu: 5";
    let yaml = annotated("big", "policy.maitred.io: best-effort", big);
    let trusted = "[annotations]\ntrusted_namespaces = [\"default\"]";
    assert_eq!(json(&yaml, "", &[]).0, 1);
    assert_eq!(json(&yaml, trusted, &[]).0, 0);

    let shy = annotated(
        "shy",
        "exclusive.maitred.io: 'false', memory-policy.maitred.io: interleave",
        "cpu: 4, memory: 1Gi",
    );
    let (status, plan, _) = json(&shy, "", &[]);
    let main = container(&plan, "default/shy", "main");
    assert_eq!((status, &main["exclusive"], &main["mems"]), (0, &false.into(), &"0".into()));
    assert_eq!(main["memory_policy"]["mode"], "interleave");

    // Two containers that fill a node each: together they fit none, each by itself they do.
    let two = "kind: Pod\nmetadata: {name: two, annotations: {NOTES}}\nspec: {containers: [{name: a, resources: \
               {limits: {cpu: 100, memory: 1Gi}}}, {name: b, resources: {limits: {cpu: 100, memory: 1Gi}}}]}";
    assert_eq!(json(&two.replace("NOTES", ""), trusted, &[]).0, 1);
    let apart = ["scope.maitred.io: container", "scope.maitred.io/container.b: container"];
    for notes in apart.iter().chain(&["policy.maitred.io/container.b: none"]) {
        let (status, plan, _) = json(&two.replace("NOTES", notes), trusted, &[]);
        assert_eq!(status, 0, "{notes}: {plan}");
        let [a, b] = ["a", "b"].map(|name| cpus(container(&plan, "default/two", name)));
        assert!(a.is_disjoint(&b), "{notes}");
    }
}

#[test]
fn cpu_options_are_followed_by_container_and_by_trust() {
    let odd = annotated("odd", "cpu-options.maitred.io: full-pcpus-only", "cpu: 3, memory: 1Gi");
    let other = odd.replace("maitred.io:", "maitred.io/container.other:");
    let trusted = "[cpu]\noptions = [\"full-pcpus-only\"]\n[annotations]\ntrusted_namespaces = [\"default\"]";
    let free = annotated("free", "cpu-options.maitred.io: ''", "cpu: 3, memory: 1Gi");

    let (status, plan, _) = json(&odd, "", &[]);
    assert_eq!((status, &plan["pods"][0]["reason"]), (1, &"SMTAlignmentError".into()));
    assert_eq!(json(&other, "", &[]).0, 0);
    assert_eq!(json(&free, trusted, &[]).0, 0);
    assert_eq!(json(&free, "[cpu]\noptions = [\"full-pcpus-only\"]", &[]).0, 1);
}

/// The keys as an unknown one is answered with them, and the README's table of them.
#[test]
fn the_readme_explains_every_key_and_no_other() {
    let yaml = annotated("a", "no-such.maitred.io: x", "cpu: 1, memory: 1Gi");
    let (_, plan, _) = json(&yaml, "", &[]);
    let message = plan["pods"][0]["message"].as_str().unwrap();
    let (_, list) = message.split_once("expected one of ").expect(message);
    let known: Vec<&str> = list.split(", ").map(|word| word.split(' ').next().unwrap()).collect();
    let known: Vec<&str> = known.into_iter().filter(|word| word.ends_with(".maitred.io")).collect();
    let readme = include_str!("../../../README.md");
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let explained: Vec<&str> = rows.filter(|key| key.ends_with(".maitred.io")).collect();
    assert_eq!(explained, known);
}
