//! What systemd lets the daemon do, and what it leaves where.

use super::host::Host;
use super::{Check, daemon, systemd};
use crate::expect::{self, expected};
use crate::{metrics, observe};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

pub const ALL: &[Check] = &[
    Check { name: "it has one capability, a filter of system calls, and no way to more", run: privileges },
    Check { name: "it can write its own directories and cgroups, and no other path", run: writes },
    Check { name: "directories and logs are where they are promised", run: places },
    Check { name: "commands and metrics answer", run: answers },
    Check { name: "systemd's own verdict of the unit", run: score },
];

/// By the kernel's word, of each thread.
fn privileges(_: &mut Host) -> Result<String> {
    let pid = daemon::only()?;
    let ptrace = "0000000000080000";
    let sets = [("CapInh", 0), ("CapPrm", 1), ("CapEff", 1), ("CapBnd", 0), ("CapAmb", 0)];
    let word =
        |(name, has): &(&str, u8)| format!("{name} {}", if *has == 1 { ptrace } else { "0000000000000000" });
    let wanted: BTreeSet<String> = sets.iter().map(word).collect();
    expect::same("capabilities", &wanted, &observe::capabilities(pid)?)?;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = fs::read_to_string(task?.path().join("status"))?;
        for line in ["NoNewPrivs:\t1", "Seccomp:\t2"] {
            expected!(status.lines().any(|found| found == line), "no {line:?} in {status}");
        }
    }
    let score = fs::read_to_string(format!("/proc/{pid}/oom_score_adj"))?;
    expect::same("oom_score_adj", &"-999", &score.trim())?;
    Ok(format!("{} threads", fs::read_dir(format!("/proc/{pid}/task"))?.count()))
}

/// Tried by root with every capability, in the daemon's own view of the file system.
fn writes(_: &mut Host) -> Result<String> {
    let pid = daemon::only()?.to_string();
    let inside = |script: &str, path: &str| {
        let words = ["--target", &pid, "--mount", "--", "sh", "-c", script, "sh", path];
        systemd::tell("nsenter", &words)
    };
    let write = ": >\"$1/lane-probe\" && rm \"$1/lane-probe\"";
    for path in [
        "/etc",
        "/etc/maitred",
        "/usr/bin",
        "/opt",
        "/var/lib",
        "/var/lib/containerd",
        "/var/log",
        "/run",
        "/run/containerd",
        "/root",
        "/home",
    ] {
        expected!(fs::metadata(path).is_ok_and(|found| found.is_dir()), "{path} is no directory here");
        let said = inside(write, path)?;
        expected!(
            said.code != 0,
            "{path} can be written: {}",
            fs::read_to_string(format!("/proc/{pid}/mountinfo"))?
        );
        expected!(
            said.text.contains("Read-only file system"),
            "{path} cannot be written for another reason: {}",
            said.text
        );
    }
    for file in
        ["/proc/sys/kernel/numa_balancing", "/proc/1/mem", "/sys/kernel/mm/transparent_hugepage/enabled"]
    {
        let said = inside("true 1<>\"$1\"", file)?;
        expected!(said.code != 0, "{file} can be written");
        expected!(said.text.contains("Read-only file system"), "{file} for another reason: {}", said.text);
    }
    let calls = systemd::property("SystemCallFilter")?;
    let calls: BTreeSet<&str> = calls.split_whitespace().collect();
    expected!(
        calls.contains("read"),
        "system calls are not filtered by a list of what is allowed: {calls:?}"
    );
    for call in ["ptrace", "process_vm_readv", "process_vm_writev", "mount", "bpf", "init_module"] {
        expected!(!calls.contains(call), "the system call {call} is allowed");
    }
    for path in ["/run/maitred", "/var/lib/maitred", "/var/log/maitred"] {
        let said = inside(write, path)?;
        expected!(said.code == 0, "{path} cannot be written: {}", said.text);
    }
    let said = inside("mkdir \"$1/lane-probe\" && rmdir \"$1/lane-probe\"", "/sys/fs/cgroup")?;
    expected!(said.code == 0, "no cgroup can be written: {}", said.text);
    Ok(String::new())
}

fn places(_: &mut Host) -> Result<String> {
    for (path, mode) in [("/run/maitred", 0o755), ("/var/lib/maitred", 0o755), ("/var/log/maitred", 0o750)] {
        let found = fs::metadata(path).with_context(|| format!("looking at {path}"))?;
        let has = (found.is_dir(), found.mode() & 0o7777, found.uid(), found.gid());
        expect::same(&format!("directory, mode, owner and group of {path}"), &(true, mode, 0, 0), &has)?;
    }
    let log = fs::metadata("/var/log/maitred/hook.jsonl")?;
    expect::same("what others may do with the hooks' log", &0, &(log.mode() & 0o007))?;
    // The journal has the daemon's verdicts as the README's commands read them.
    let journal = systemd::done("journalctl", &["-u", "maitred", "-o", "cat", "--no-pager"])?;
    let lines = journal.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let verdict =
        lines.into_iter().find(|line| line["span"]["pod"] == "pinned" && line["decision"] == "placed");
    expected!(verdict.is_some(), "no verdict about the pod in the journal: {journal}");
    Ok(String::new())
}

fn answers(host: &mut Host) -> Result<String> {
    let json = |arguments: &[&str], codes: &[i32]| -> Result<serde_json::Value> {
        let said = systemd::tell(daemon::BINARY, arguments)?;
        expected!(
            codes.contains(&said.code),
            "maitred {arguments:?}: exit status {}: {}",
            said.code,
            said.text
        );
        // Notes for people come on standard error, which is behind it.
        let mut values = serde_json::Deserializer::from_str(&said.text).into_iter();
        Ok(values.next().with_context(|| format!("maitred {arguments:?} says nothing"))??)
    };
    let status = json(&["status", "-o", "json"], &[0])?;
    expected!(status["daemon"]["connected"] == true, "the daemon is not seen: {}", status["daemon"]);
    let holders = status["holders"].as_array().context("no holders")?;
    for name in ["pinned", "wrapped", "crasher"] {
        let held = holders.iter().find(|one| one["pod"] == format!("default/{name}"));
        let cpus = held.with_context(|| format!("{name} holds nothing: {holders:#?}"))?["cpus"].clone();
        expect::same(
            name,
            &crate::list::show(&host.tenants.seen(name)?.cpus),
            &cpus.as_str().unwrap_or_default().to_owned(),
        )?;
    }
    let topology = json(&["topology", "-o", "json"], &[0])?;
    expect::same("GPUs", &Some(host.node.machine.gpus.len()), &topology["gpus"].as_array().map(Vec::len))?;
    let doctor = json(&["doctor", "-o", "json"], &[0, 1])?;
    let finding =
        |name: &str| doctor["findings"].as_array().into_iter().flatten().find(|one| one["check"] == name);
    for name in ["nri.registered", "nri.socket", "nri.enabled"] {
        let found = finding(name).with_context(|| format!("the doctor says nothing of {name}"))?;
        expected!(found["severity"] == "ok", "the doctor says of {name}: {found}");
    }
    let verify = systemd::tell(daemon::BINARY, &["verify"])?;
    expected!(verify.code == 0, "maitred verify: {}: {}", verify.code, verify.text);
    // What the daemon itself sees through its sandbox: holders, and the GPUs by NVML.
    let page = metrics::page()?;
    let number = |series: &str| metrics::value(&page, series);
    expect::same("holders", &3, &(number("maitred_holders")? as u64))?;
    let gpus = page.lines().filter(|line| line.starts_with("maitred_free_gpus{"));
    let gpus: f64 = gpus.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
    expect::same("GPUs the daemon sees", &host.node.machine.gpus.len(), &(gpus as usize))?;
    Ok(format!("doctor {}", doctor["summary"]))
}

/// `systemd-analyze security` counts from 10, anything may be done, down to 0; below 5 it calls a unit OK.
fn score(_: &mut Host) -> Result<String> {
    let said =
        systemd::tell("systemd-analyze", &["security", "--no-pager", "--threshold=50", systemd::UNIT])?;
    let line = said.text.lines().find(|line| line.contains("Overall exposure level")).unwrap_or_default();
    expected!(said.code == 0, "exit status {}: {}", said.code, said.text);
    let pid = daemon::only()?;
    Ok(format!("{}; with five containers: {}", line.trim_start_matches(['→', ' ']), daemon::memory(pid)?))
}
