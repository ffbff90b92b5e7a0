//! GPUs that belong together, and parts of GPUs, on the example machine with some of its links cut and one GPU split.

use super::{SERVER, annotations::annotated, file, json, pod};
use crate::cli::run;
use serde_json::{Value, json};

/// GPUs 0 and 1 are connected, and 2 with 3; GPU 1 has two MIG devices.
fn machine(split: bool) -> tempfile::NamedTempFile {
    let mut machine: Value = serde_json::from_str(&std::fs::read_to_string(SERVER).unwrap()).unwrap();
    for (gpu, links) in
        [(0, json!({"1": 2})), (1, json!({"0": 2})), (2, json!({"3": 4})), (3, json!({"2": 4}))]
    {
        machine["gpus"][gpu]["nvlinks"] = links;
    }
    if split {
        let mig = |n: u32| json!({"index": n, "uuid": format!("MIG-{n}"), "instance": null});
        machine["gpus"][1]["mig"] = json!([mig(0), mig(1)]);
    }
    file(&machine.to_string())
}

fn text(yaml: &str, split: bool, config: &str) -> (i32, String) {
    let (pods, machine, config) = (file(yaml), machine(split), file(&format!("version = 1\n{config}")));
    let path = |file: &tempfile::NamedTempFile| file.path().to_str().unwrap().to_owned();
    let (status, out, _) =
        run(&["plan", &path(&pods), "--topology", &path(&machine), "--config", &path(&config)]);
    (status, out)
}

#[test]
fn the_most_links_win_and_the_plan_says_how_many_there_are() {
    let (status, out) = text(&pod("a", "cpu: 4, memory: 1Gi, nvidia.com/gpu: 2"), false, "");
    assert_eq!(status, 0, "{out}");
    assert!(out.contains("GPU 2-3 (NV4)"), "{out}");
    let (_, out) = text(&pod("a", "cpu: 4, memory: 1Gi, nvidia.com/gpu: 3"), false, "");
    assert!(out.contains("GPU 0,2-3 (NV0-4)"), "{out}");
}

#[test]
fn nvlink_can_be_asked_for() {
    let asks = |gpus: u32| {
        let limits = format!("cpu: 4, memory: 1Gi, nvidia.com/gpu: {gpus}");
        annotated("a", "gpu-link.maitred.io: nvlink", &limits)
    };
    let (status, out) = text(&asks(2), false, "");
    assert!(status == 0 && out.contains("GPU 2-3 (NV4)"), "{out}");
    // Node 0 has four, of which no three are connected; node 1 has.
    let (status, out) = text(&asks(3), false, "");
    assert!(status == 0 && out.contains("GPU 4-6 (NV18)"), "{out}");
    let (status, out) = text(&(asks(3) + &asks(3)), false, "");
    assert_eq!(status, 1);
    assert!(out.contains("no 3 GPUs that NVLink connects with each other are free"), "{out}");
    let plain = pod("b", "cpu: 4, memory: 1Gi, nvidia.com/gpu: 3");
    let (status, out) = text(&(asks(3) + &plain), false, "[gpu]\nlink = \"nvlink\"");
    assert!(status == 1 && out.contains("gpu-link nvlink asks for that"), "{out}");
    // The machine as it is has a switch between all of them.
    let (status, plan, _) = json(&asks(4), "", &[]);
    assert_eq!(status, 0, "{plan}");
}

#[test]
fn parts_of_a_gpu_sit_where_it_sits_and_it_is_nobodys_as_a_whole() {
    let part = |name: &str| pod(name, "cpu: 2, memory: 1Gi, nvidia.com/mig-1g.10gb: 1");
    let (status, out) = text(&(part("a") + &part("b")), true, "");
    assert_eq!(status, 0, "{out}");
    assert!(out.contains("GPU 1:0") && out.contains("GPU 1:1"), "{out}");
    let (status, out) = text(&(part("a") + &part("b") + &part("c")), true, "");
    assert_eq!(status, 1, "{out}");
    let (status, out) = text(&pod("all", "cpu: 2, memory: 1Gi, nvidia.com/gpu: 4"), true, "");
    assert_eq!(status, 0, "{out}");
    assert!(out.contains("GPU 4-7"), "node 0 has three whole ones left: {out}");
}
