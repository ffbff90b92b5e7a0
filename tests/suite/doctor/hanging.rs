//! A driver of NVIDIA's that never answers: the stand-in sleeps for an hour.

use crate::cli::maitred;
use crate::discover::gpus::library;
use serde_json::{Value, json};
use std::path::Path;

/// A driver root with the stand-in in it, and a configuration that names it.
fn driver(dir: &Path) -> (String, String) {
    let lib = dir.join("usr/lib64");
    std::fs::create_dir_all(&lib).unwrap();
    std::fs::copy(library(), lib.join("libnvidia-ml.so.1")).unwrap();
    let (config, nvml) = (dir.join("config.toml"), dir.join("nvml.json"));
    std::fs::write(&config, format!("version = 1\n[gpu]\ndriver_root = \"{}\"\n", dir.display())).unwrap();
    let hangs = json!({ "delays_ms": { "nvmlInit_v2": 3_600_000 } });
    std::fs::write(&nvml, hangs.to_string()).unwrap();
    (config.display().to_string(), nvml.display().to_string())
}

#[test]
fn the_doctor_says_so_and_the_others_go_on_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let (config, nvml) = driver(dir.path());
    let run = |args: &[&str]| {
        let mut command = maitred(&[args, &["--config", &config]].concat());
        command.env("FAKE_NVML_CONFIG", &nvml).env("MAITRED_NVML_SECONDS", "0");
        let output = command.output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (out, err) = run(&["doctor", "-o", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let findings = report["findings"].as_array().unwrap();
    let driver = findings.iter().find(|finding| finding["check"] == "devices.gpu-driver").unwrap();
    assert_eq!(driver["severity"], "error", "{driver}");
    let title = driver["title"].as_str().unwrap();
    assert!(title.starts_with("NVIDIA's library did not answer within 0 s"), "{title}");
    let (out, err) = run(&["topology"]);
    assert!(out.starts_with("CPUs") && err.contains("GPUs are as the kernel alone tells"), "{out}{err}");
}
