//! `maitred status` over a machine made of files.

use crate::cli::run;
use maitred::ledger::Record;
use maitred::model::{Bytes, ContainerKey, HugepageSize, MemoryBlock, MemoryKind, Placement};
use maitred::store::{Allocation, By, Notice, Process, Store, Told};
use std::path::{Path, PathBuf};

/// Four nodes of two CPUs, a GPU on 1 and on 3, with whatever is put onto it.
pub struct Site(tempfile::TempDir);

impl Site {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines/two-sockets-four-nodes/.");
        let copied = std::process::Command::new("cp").arg("-a").arg(machine).arg(dir.path()).status();
        assert!(copied.unwrap().success());
        let site = Self(dir);
        site.file("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        site.file("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory hugetlb\n");
        site
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn store(&self) -> Store {
        let dir = self.0.path().join("run");
        std::fs::create_dir_all(&dir).unwrap();
        Store::open(&dir.join("maitred")).unwrap()
    }

    /// A running process of a container's cgroup.
    pub fn container(&self, cgroup: &str, pid: u32, name: &str) {
        self.file(&format!("sys/fs/cgroup{cgroup}/cgroup.procs"), &format!("{pid}\n"));
        self.file(&format!("sys/fs/cgroup{cgroup}/cgroup.events"), "populated 1\n");
        self.file(&format!("proc/{pid}/comm"), &format!("{name}\n"));
    }

    /// An allocation of a container in `/kubepods/podUID/ID`.
    pub fn holds(&self, uid: &str, container: &str, id: &str, placement: &Placement) {
        let key = ContainerKey::new(uid.into(), container.into());
        let record = Record::new(&key, &id.into(), placement);
        let allocation = Allocation {
            key,
            id: id.into(),
            by: By::Nri,
            holders: Vec::new(),
            cgroups: vec![format!("/kubepods/pod{uid}/{id}")],
            pod_cgroup: Some(format!("/kubepods/pod{uid}")),
            stopped: false,
            reserved: false,
            claims: Default::default(),
            told: None,
            record: maitred::oci::raw(&record),
        };
        self.store().keep(&allocation).unwrap();
    }

    /// An allocation of a container without CPUs of its own that the wrapper has let in.
    pub fn shares(&self, id: &str, cgroup: &str) {
        let key = ContainerKey::new(id.into(), id.into());
        let record = Record::new(&key, &id.into(), &Placement::default()).to_json();
        let json = format!(r#"{{"by":"runtime","id":"{id}","cgroups":["{cgroup}"],"record":{record}}}"#);
        self.store().put(&key, &json).unwrap();
    }

    pub fn run(&self, verb: &str, more: &[&str]) -> (i32, String, String) {
        let root = self.0.path().display().to_string();
        let config = self.config();
        let mut args = vec![verb, "--sysroot", &root, "--config", config.to_str().unwrap()];
        args.extend(more);
        run(&args)
    }

    fn config(&self) -> PathBuf {
        let path = self.0.path().join("config.toml");
        if !path.exists() {
            std::fs::write(&path, "version = 1\n").unwrap();
        }
        path
    }
}

pub const VLLM: &str = "aaaaaaaa-0000-0000-0000-000000000001";
pub const BATCH: &str = "bbbbbbbb-0000-0000-0000-000000000002";
const WEB: &str = "cccccccc-0000-0000-0000-000000000003";

/// The CPUs, 32Gi, two huge pages and the GPU of node 1.
pub fn on_node_1() -> Placement {
    let nodes = || "1".parse().unwrap();
    let block = |kind, bytes| MemoryBlock { nodes: nodes(), kind, bytes: Bytes(bytes) };
    Placement {
        cpus: "1,5".parse().unwrap(),
        affinity: Some(nodes()),
        preferred: true,
        mems: nodes(),
        devices: [("nvidia.com/gpu".into(), ["GPU-5e3f0d5a-0000-4000-8000-000000000021".into()].into())]
            .into(),
        memory: vec![
            block(MemoryKind::Memory, 32 << 30),
            block(MemoryKind::Hugepages(HugepageSize::GIB1), 2 << 30),
        ],
        policy: None,
    }
}

pub fn on_node_2() -> Placement {
    Placement { cpus: "2".parse().unwrap(), mems: "2".parse().unwrap(), ..Placement::default() }
}

/// vLLM runs on node 1, a batch job has stopped on node 2, a web server and its sandbox share.
pub fn busy() -> Site {
    let site = Site::new();
    site.holds(VLLM, "server", "c0ffee", &on_node_1());
    site.container(&format!("/kubepods/pod{VLLM}/c0ffee"), 71, "vllm");
    site.holds(BATCH, "job", "beef", &on_node_2());
    site.file(&format!("sys/fs/cgroup/kubepods/pod{BATCH}/cgroup.events"), "populated 0\n");
    site.container(&format!("/kubepods/burstable/pod{WEB}/web1"), 72, "nginx");
    site.container(&format!("/kubepods/burstable/pod{WEB}/sandbox"), 73, "pause");
    site.file(&format!("var/log/pods/inference_vllm-0_{VLLM}/x"), "");
    site.store()
        .tell(&Told {
            pod: "batch".into(),
            namespace: "work".into(),
            pod_uid: BATCH.into(),
            ..Told::default()
        })
        .unwrap();
    site
}

#[test]
fn every_holder_is_on_its_node_and_what_is_free_is_told() {
    let (status, out, err) = busy().run("status", &[]);
    assert_eq!((status, err.as_str()), (0, ""));
    // Four of the sixteen free huge pages of node 1 are somebody's outside the books.
    let expected = "\
daemon not running: shown is what the allocations in the store say
4 nodes; policy single-numa-node, scope pod

node 0: 2 CPUs, 62.91Gi
  (system)                                 2 CPUs: 0,4
  (free)                                   0 CPUs                           46.91Gi  16 × 1Gi
node 1: 2 CPUs, 1 GPU, 1 NIC, 63Gi
  inference/vllm-0  server                 2 CPUs: 1,5  GPU 0               32Gi     2 × 1Gi
  (free)                                   0 CPUs              NIC mlx5_0   15Gi     12 × 1Gi
node 2: 2 CPUs, 63Gi
  work/batch        job     stopped, kept  1 CPU: 2
  (free)                                   1 CPU: 6                         47Gi     16 × 1Gi
node 3: 2 CPUs, 1 GPU, 62.98Gi
  (free)                                   2 CPUs: 3,7  GPU 1               46.98Gi
of unknown locality
  (free)                                                       NIC mlx5_1

shared pool: 1 container on 6 CPUs: 0,2-4,6-7
largest pod that fits now: 1 CPU, 47Gi, 16 × 1Gi on node 2
largest pod that fits now: 2 CPUs, 46.98Gi, 1 GPU on node 3
";
    let squeezed = |text: &str| {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(squeezed(&out), squeezed(expected), "{out}");
}

#[test]
fn programs_are_told_the_same() {
    let (status, out, _) = busy().run("status", &["-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &json["version"], &json["daemon"]["running"]), (0, &1.into(), &false.into()));
    let (vllm, batch) = (&json["holders"][0], &json["holders"][1]);
    assert_eq!(vllm["pod"], "inference/vllm-0");
    assert_eq!((&vllm["cpus"], &vllm["mems"], &vllm["nodes"]), (&"1,5".into(), &"1".into(), &"1".into()));
    assert_eq!(vllm["gpus"][0]["name"], "0");
    assert_eq!((&vllm["hugepages"]["1Gi"], &vllm["memory_bytes"]), (&2.into(), &(32_u64 << 30).into()));
    assert_eq!(
        (&vllm["state"], &batch["state"], &batch["by"]),
        (&"running".into(), &"stopped".into(), &"nri".into())
    );
    assert_eq!(json["nodes"][3]["free"]["gpus"][0], "1");
    assert_eq!((&json["pool"]["containers"], &json["pool"]["cpus"]), (&1.into(), &"0,2-4,6-7".into()));
    assert_eq!((&json["largest"][1]["cpus"], &json["largest"][1]["nodes"]), (&2.into(), &"3".into()));
}

#[test]
fn a_daemon_that_runs_says_how_and_one_that_ended_is_not_believed() {
    let site = busy();
    site.file("proc/99/stat", "99 (maitred) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0");
    let notice = |start| Notice {
        process: Some(Process { pid: 99, start, until: None }),
        mode: "audit".into(),
        authority: Some("maitred".into()),
        policy: "restricted".into(),
        runtime: Some("containerd v2.2.0".into()),
        connected: true,
        since: "2026-01-01T00:00:00Z".into(),
        ..Notice::default()
    };
    site.store().set_notice(&notice(4242)).unwrap();
    let (_, out, _) = site.run("status", &[]);
    assert!(out.starts_with("daemon running (pid 99, audit): serving containerd v2.2.0 since 2026-01-01T00:00:00Z\naudit mode: "), "{out}");
    assert!(out.contains("CPUs picked by maitred"), "{out}");
    assert!(
        out.contains(
            "note: the daemon goes by policy restricted, the configuration says single-numa-node now"
        ),
        "{out}"
    );
    // Another process has its number by now.
    site.store().set_notice(&notice(7)).unwrap();
    assert!(site.run("status", &[]).1.starts_with("daemon not running"));
}

#[test]
fn off_is_told_with_its_reason_and_nothing_at_all_is_an_empty_machine() {
    let site = Site::new();
    let (status, out, _) = site.run("status", &[]);
    assert_eq!(status, 0);
    assert!(out.contains("shared pool: 0 containers on 8 CPUs: 0-7\n"), "{out}");
    assert!(!site.path().join("run").exists(), "looking leaves nothing behind");
    site.store().set_off("ticket 7").unwrap();
    let out = site.run("status", &[]).1;
    assert!(
        out.contains("off for ") && out.contains(": ticket 7; containers start unpinned until `maitred on`"),
        "{out}"
    );
}

#[test]
fn two_who_say_they_hold_the_same_are_told() {
    let site = busy();
    let other = "dddddddd-0000-0000-0000-000000000004";
    site.holds(other, "thief", "dead", &on_node_1());
    site.container(&format!("/kubepods/pod{other}/dead"), 74, "thief");
    let out = site.run("status", &[]).1;
    assert!(out.contains(&format!("note: {other}/thief: what the shared store says of it cannot be: CPUs 1,5 are held by {VLLM}/server")), "{out}");
}
