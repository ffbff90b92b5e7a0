//! `maitred verify` over a machine made of files.

use crate::cli::run;
use maitred::ledger::Record;
use maitred::model::{
    Bytes, ContainerKey, HugepageSize, MemoryBlock, MemoryKind, MemoryMode, MemoryPolicy, Placement,
};
use maitred::store::Store;
use std::path::Path;

struct Machine(tempfile::TempDir);

impl Machine {
    /// One container, `uid-a/main`, with the CPUs 4-7 and the memory and huge pages of node 1.
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.file("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        machine.file("sys/fs/cgroup/cgroup.controllers", "cpuset hugetlb\n");
        machine.cgroup("cpuset.cpus.effective", "4-7\n");
        machine.cgroup("cpuset.mems.effective", "1\n");
        machine.cgroup("hugetlb.2MB.numa_stat", "total=4194304 N0=0 N1=4194304\n");
        machine.cgroup("cgroup.procs", "71\n");
        machine.file("proc/71/status", "Cpus_allowed_list:\t4-7\nMems_allowed_list:\t1\n");
        machine.file(
            "proc/71/numa_maps",
            "7f00 bind=static:1 anon=3 N1=3 kernelpagesize_kB=4\n7f10 bind=static:1 file=/a N0=5 kernelpagesize_kB=4\n",
        );
        machine.keep("uid-a", "c0ffee", false);
        machine
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn cgroup(&self, file: &str, text: &str) {
        self.file(&format!("sys/fs/cgroup/kubepods/poduid-a/c0ffee/{file}"), text);
    }

    fn store(&self) -> std::path::PathBuf {
        self.0.path().join("store")
    }

    /// Its record as the daemon keeps it, or as hooks and the wrapper do.
    fn keep(&self, pod: &str, id: &str, within: bool) {
        let nodes = "1".parse().unwrap();
        let placement = Placement {
            cpus: "4-7".parse().unwrap(),
            mems: "1".parse().unwrap(),
            memory: vec![MemoryBlock {
                nodes: "1".parse().unwrap(),
                kind: MemoryKind::Hugepages(HugepageSize::MIB2),
                bytes: Bytes(32 << 20),
            }],
            policy: Some(MemoryPolicy { mode: MemoryMode::Bind, nodes }),
            ..Placement::default()
        };
        let key = ContainerKey::new(pod.into(), "main".into());
        let record = Record::new(&key, &id.into(), &placement).to_json();
        let (by, cgroups) = match within {
            true => ("runtime", r#""/kubepods/poduid-a/c0ffee""#),
            false => ("nri", ""),
        };
        let json = format!(r#"{{"by":"{by}","id":"{id}","cgroups":[{cgroups}],"record":{record}}}"#);
        Store::open(&self.store()).unwrap().put(&key, &json).unwrap();
    }

    fn verify(&self, more: &[&str]) -> (i32, String, String) {
        let text = |path: &Path| path.display().to_string();
        let (root, store) = (text(self.0.path()), text(&self.store()));
        let mut args = vec!["verify", "--sysroot", &root, "--store", &store];
        args.extend(more);
        run(&args)
    }
}

#[test]
fn one_that_is_as_placed_is_fine() {
    let (status, out, err) = Machine::new().verify(&[]);
    // This machine of a cgroup and a process has no CPUs to describe.
    assert!(status == 0 && err.starts_with("maitred: placements alone are checked: "), "{err}");
    assert_eq!(
        out,
        "aligned     uid-a/main  cpus 4-7  mems 1  policy bind:1  memory 12Ki on node 1  huge pages 4Mi on node 1\n"
    );
}

#[test]
fn details_are_told_when_asked_for() {
    let (_, out, _) = Machine::new().verify(&["-v"]);
    let detail = "process 71: cpus 4-7  mems 1  policies bind=static:1  memory 12Ki on node 1";
    assert_eq!(out.lines().nth(1).map(str::trim_start), Some(detail), "{out}");
}

#[test]
fn each_drift_is_told_and_the_exit_is_1() {
    let machine = Machine::new();
    machine.cgroup("cpuset.mems.effective", "0-1\n");
    machine.cgroup("hugetlb.2MB.numa_stat", "total=2097152 N0=2097152 N1=0\n");
    machine.file("proc/71/numa_maps", "7f00 default anon=3 N0=2 N1=1 kernelpagesize_kB=4\n");
    let (status, out, _) = machine.verify(&[]);
    assert_eq!(status, 1);
    assert_eq!(
        out,
        "misaligned  uid-a/main  effective cpuset.mems 0-1, expected 1; process 71 has 8Ki of memory on node 0, \
         expected only on 1; 2Mi of huge pages are from node 0, expected only from 1; no memory has the policy bind:1, \
         found default\n"
    );
}

#[test]
fn json_says_the_same_to_programs() {
    let machine = Machine::new();
    machine.keep("uid-gone", "dead", false);
    machine.cgroup("cpuset.cpus.effective", "0-7\n");
    let (status, out, _) = machine.verify(&["-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let (one, other) = (&json["containers"][0], &json["containers"][1]);
    assert_eq!(status, 1);
    assert_eq!((&one["state"], &one["id"]), (&"misaligned".into(), &"c0ffee".into()));
    assert_eq!(one["drift"][0], "effective cpuset.cpus 0-7, expected 4-7");
    assert_eq!(
        (&one["expected"]["cpus"], &one["expected"]["memory_policy"]),
        (&"4-7".into(), &"bind:1".into())
    );
    assert_eq!(
        (&one["effective"]["cpus"], &one["effective"]["hugepages"]["1"]),
        (&"0-7".into(), &4_194_304.into())
    );
    assert_eq!(one["effective"]["processes"][0]["memory"]["1"], 12288);
    assert_eq!((&other["state"], &other["effective"]), (&"stopped".into(), &serde_json::Value::Null));
}

#[test]
fn ids_choose_and_an_unknown_one_is_2() {
    let machine = Machine::new();
    machine.keep("uid-b", "bead", false);
    for id in ["c0f", "uid-a", "uid-a/main"] {
        let (status, out, _) = machine.verify(&[id]);
        assert_eq!((status, out.lines().count()), (0, 1), "{id}: {out}");
        assert!(out.starts_with("aligned     uid-a/main"), "{out}");
    }
    assert_eq!(machine.verify(&[]).1.lines().count(), 2);
    let (status, out, err) = machine.verify(&["uid"]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains("\"uid\" has no placement on this node"), "{err}");
}

#[test]
fn an_allocation_of_hooks_and_wrapper_is_understood_too() {
    let machine = Machine::new();
    machine.keep("uid-a", "another-id", true);
    let (status, out, _) = machine.verify(&[]);
    assert_eq!(status, 0, "{out}");
    assert!(out.starts_with("aligned     uid-a/main"), "its cgroup is where its writer says: {out}");
}

#[test]
fn a_machine_that_cannot_be_read_is_3_and_no_placement_is_fine() {
    let machine = Machine::new();
    machine.file("proc/71/numa_maps", "nonsense\n");
    let (status, _, err) = machine.verify(&[]);
    assert_eq!(status, 3);
    assert!(err.contains("proc/71/numa_maps"), "{err}");
    let empty = tempfile::tempdir().unwrap();
    let store = empty.path().join("store").display().to_string();
    let root = machine.0.path().display().to_string();
    let (status, out, _) = run(&["verify", "--sysroot", &root, "--store", &store]);
    assert_eq!((status, out.as_str()), (0, "no container has a placement on this node\n"));
}

/// Beside the placements, on a machine that can be described.
mod beside {
    use crate::status::{Site, VLLM, on_node_1};

    const WEB: &str = "cccccccc-0000-0000-0000-000000000003";
    const BIG: &str = "dddddddd-0000-0000-0000-000000000004";

    fn process(site: &Site, pid: u32, cgroup: &str, cpus: &str, mems: &str) {
        let status =
            format!("Name:\tp{pid}\nVmSize:\t1 kB\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{mems}\n");
        site.file(&format!("proc/{pid}/status"), &status);
        site.file(&format!("proc/{pid}/cgroup"), &format!("0::{cgroup}\n"));
        site.file(&format!("proc/{pid}/numa_maps"), "");
    }

    fn container(site: &Site, cgroup: &str, pid: u32, cpus: &str, mems: &str) {
        site.container(cgroup, pid, "app");
        process(site, pid, cgroup, cpus, mems);
        site.file(&format!("sys/fs/cgroup{cgroup}/cpuset.cpus.effective"), &format!("{cpus}\n"));
        site.file(&format!("sys/fs/cgroup{cgroup}/cpuset.mems.effective"), &format!("{mems}\n"));
    }

    /// vLLM on the CPUs 1 and 5, a web server on the shared ones.
    fn site() -> Site {
        let site = Site::new();
        site.holds(VLLM, "server", "c0ffee", &on_node_1());
        container(&site, &format!("/kubepods/pod{VLLM}/c0ffee"), 71, "1,5", "1");
        container(&site, &format!("/kubepods/burstable/pod{WEB}/web1"), 72, "0,2-4,6-7", "0-3");
        site.file(&format!("var/log/pods/inference_vllm-0_{VLLM}/x"), "");
        site.file(&format!("var/log/pods/default_web_{WEB}/x"), "");
        site
    }

    #[test]
    fn who_keeps_to_the_shared_pool_is_no_intruder() {
        let (status, out, err) = site().run("verify", &[]);
        assert_eq!((status, err.as_str()), (0, ""), "{out}");
        assert_eq!(out.lines().count(), 1, "{out}");
        assert!(out.starts_with(&format!("aligned     {VLLM}/server")), "{out}");
    }

    /// NRI shows sandboxes to nobody, so nothing moves them; what runs in one only waits, whatever it is called.
    #[test]
    fn a_sandbox_is_no_intruder_whatever_runs_in_it() {
        let bundle = |site: &Site, place: &str, id: &str, kind: &str| {
            let text = format!(r#"{{"annotations":{{"io.kubernetes.cri.container-type":"{kind}"}}}}"#);
            site.file(&format!("run/{place}/io.containerd.runtime.v2.task/k8s.io/{id}/config.json"), &text);
        };
        for place in ["containerd", "k3s/containerd"] {
            let site = site();
            container(&site, &format!("/kubepods/pod{VLLM}/keeper"), 73, "0-7", "0-3");
            bundle(&site, place, "keeper", "sandbox");
            bundle(&site, place, "web1", "container");
            let (status, out, err) = site.run("verify", &[]);
            assert_eq!((status, err.as_str()), (0, ""), "{out}");
            bundle(&site, place, "keeper", "container");
            let (status, out, _) = site.run("verify", &[]);
            assert!(status == 1 && out.contains("intruder    container inference/vllm-0/keeper"), "{out}");
        }
    }

    #[test]
    fn a_container_or_a_process_on_somebodys_own_cpus_is_an_intruder() {
        let site = site();
        container(&site, &format!("/kubepods/burstable/pod{WEB}/web1"), 72, "0-7", "0-3");
        process(&site, 80, "/system.slice/dpdk.service", "5", "0-3");
        process(&site, 81, "/system.slice/sshd.service", "0-7", "0-3");
        site.file("proc/82/status", "Name:\tksoftirqd/1\nCpus_allowed_list:\t1\n");
        let (status, out, _) = site.run("verify", &[]);
        assert_eq!(status, 1, "{out}");
        let told: Vec<&str> = out.lines().skip(1).collect();
        assert_eq!(
            told,
            [
                "intruder    container default/web/web1  may run on CPUs 1,5 of inference/vllm-0/server",
                "intruder    process 80 (p80)  may run on CPUs 5 of inference/vllm-0/server",
                "note: 1 process of the host may run on exclusive CPUs too, as on any other; nobody moves them (-v \
                 names them)",
            ]
        );
        let out = site.run("verify", &["-v"]).1;
        assert!(out.contains("process 81 (p81): CPUs 1,5\n") && !out.contains("ksoftirqd"), "{out}");
    }

    /// One that nobody of Kubernetes knows of, and that is in the books.
    #[test]
    fn a_shared_container_on_somebodys_own_cpus_is_not_aligned() {
        let site = site();
        site.shares("byhand", "/made/byhand");
        container(&site, "/made/byhand", 73, "0,2-4,6-7", "0-3");
        let (status, out, _) = site.run("verify", &[]);
        assert!(status == 0 && out.contains("aligned     byhand/byhand  cpus shared"), "{out}");
        container(&site, "/made/byhand", 73, "0-7", "0-3");
        for ids in [&[] as &[&str], &["byhand"]] {
            let (status, out, _) = site.run("verify", ids);
            let told = "misaligned  byhand/byhand  may run on CPUs 1,5 of inference/vllm-0/server";
            assert!(status == 1 && out.contains(told), "{out}");
        }
    }

    #[test]
    fn a_thread_that_went_elsewhere_and_a_gpu_on_another_node_are_told() {
        let site = site();
        let mut placement = on_node_1();
        placement.mems = "2".parse().unwrap();
        placement.memory.clear();
        site.holds(VLLM, "server", "c0ffee", &placement);
        site.file("proc/71/task/71/status", "Cpus_allowed_list:\t1,5\nMems_allowed_list:\t1\n");
        site.file("proc/71/task/79/status", "Cpus_allowed_list:\t0-7\nMems_allowed_list:\t1\n");
        let (status, out, _) = site.run("verify", &[]);
        assert_eq!(status, 1, "{out}");
        for told in [
            "thread 79 of process 71 may run on CPUs 0-7, expected only 1,5",
            "its CPUs are on node 1, its memory on node 2",
            "GPU 0 (GPU-5e3f0d5a-0000-4000-8000-000000000021) is on node 1, its memory and CPUs on node 2",
        ] {
            assert!(out.contains(told), "{told}: {out}");
        }
    }

    #[test]
    fn what_nobody_placed_is_told_with_what_would_become_of_it() {
        let site = site();
        let cgroup = |id: &str| format!("/kubepods/pod{BIG}/{id}");
        for (id, pid, quota) in [("big1", 90, "400000 100000"), ("fits", 91, "200000 100000")] {
            container(&site, &cgroup(id), pid, "0,2-4,6-7", "0-3");
            site.file(&format!("sys/fs/cgroup{}/cpu.max", cgroup(id)), quota);
            site.file(&format!("sys/fs/cgroup{}/memory.max", cgroup(id)), "1073741824");
        }
        site.file("proc/91/environ", "NVIDIA_VISIBLE_DEVICES=GPU-5e3f0d5a-0000-4000-8000-0000000000a1\0");
        let (status, out, _) = site.run("verify", &[]);
        assert_eq!(status, 0, "nothing of it is a drift: {out}");
        let told: Vec<&str> = out.lines().skip(1).collect();
        assert_eq!(told.len(), 2, "{out}");
        let big = format!(
            "not placed  {BIG}/big1 (big1)  today: rejected: TopologyAffinityError: container big1: no"
        );
        assert!(told[0].starts_with(&big), "{out}");
        assert_eq!(
            told[1],
            format!("not placed  {BIG}/fits (fits)  today: placed: aligned on node 3, CPUs 3,7")
        );
        let json: serde_json::Value = serde_json::from_str(&site.run("verify", &["-o", "json"]).1).unwrap();
        assert_eq!(json["beside"]["not_placed"][0]["today"], "rejected");
        assert_eq!(json["beside"]["sharing"], 1);
    }

    /// The cgroup and the environment show neither huge pages nor devices, nor what it is called.
    #[test]
    fn what_nobody_placed_asks_for_what_its_configuration_says() {
        let site = site();
        let cgroup = format!("/kubepods/pod{BIG}/big1");
        container(&site, &cgroup, 90, "0,2-4,6-7", "0-3");
        site.file(&format!("sys/fs/cgroup{cgroup}/cpu.max"), "200000 100000");
        site.file(&format!("sys/fs/cgroup{cgroup}/memory.max"), "1073741824");
        let told = |site: &Site| site.run("verify", &[]).1.lines().last().unwrap().to_owned();
        let guessed = told(&site);
        assert!(guessed.starts_with(&format!("not placed  {BIG}/big1 (big1)  today: placed: ")), "{guessed}");
        let bundle = |pages: &str| {
            let text = format!(
                r#"{{"annotations":{{"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.sandbox-id":"s1",
                "io.kubernetes.cri.sandbox-uid":"{BIG}","io.kubernetes.cri.sandbox-name":"big",
                "io.kubernetes.cri.sandbox-namespace":"ml","io.kubernetes.cri.container-name":"main"}},
                "linux":{{"cgroupsPath":"{cgroup}","resources":{{"cpu":{{"shares":2048,"quota":200000,"period":100000}},
                "memory":{{"limit":1073741824}},"hugepageLimits":[{{"pageSize":"1GB","limit":{pages}}}]}}}}}}"#
            );
            site.file("run/containerd/io.containerd.runtime.v2.task/k8s.io/big1/config.json", &text);
        };
        bundle("0");
        assert!(
            told(&site).starts_with("not placed  ml/big/main (big1)  today: placed: "),
            "{}",
            told(&site)
        );
        bundle("34359738368");
        let refused = told(&site);
        assert!(
            refused.starts_with(
                "not placed  ml/big/main (big1)  today: rejected: TopologyAffinityError: container main: no"
            ) && refused.contains("32 hugepages of 1Gi"),
            "{refused}"
        );
    }
}
