//! What is fuzzed: one function for each kind of bytes that others hand us. A panic is a finding; so is a hang, and
//! memory beyond what `run.sh` allows. Shared by cargo-fuzz (`fuzz_targets/`) and the suite (`tests/suite/fuzz.rs`).

use maitred::config::Config;
use maitred::decision::{self, Edit, Event, Features, Mount, Reply, State};
use maitred::discover::{self, DiscoverError, Options, Root};
use maitred::engine::Reserve;
use maitred::ledger::{RECORD_ANNOTATION, Record};
use maitred::model::*;
use maitred::nri::{facts, mux, proto};
use maitred::oci::Bundle;
use protobuf::Message;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A target by its name.
pub type Target = (&'static str, fn(&[u8]));

/// All of them; each has a directory of this name in `corpus` and a file in `fuzz_targets`.
pub const TARGETS: [Target; 13] = [
    ("frames", frames),
    ("messages", messages),
    ("lists", lists),
    ("tree", tree),
    ("config_json", config_json),
    ("annotations", annotations),
    ("configuration", configuration),
    ("pod_yaml", pod_yaml),
    ("cdi", cdi),
    ("checkpoint", checkpoint),
    ("containerd_toml", containerd_toml),
    ("store", store),
    ("snapshot", snapshot),
];

/// What the runtime's socket carries: frames of the multiplexer, headers of ttrpc in them.
pub fn frames(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut far, near) = tokio::io::duplex(1 << 16);
        let (mut ends, carry) = mux::open(near);
        let feed = async {
            // Its other half stays open until all is read, so that both ends of a close are seen.
            let _ = far.write_all(data).await;
            drop(far);
        };
        let read = async {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            let _ = tokio::join!(ends.plugin.read_to_end(&mut one), ends.runtime.read_to_end(&mut other));
            assert!(one.len() + other.len() <= data.len(), "more comes out than went in");
        };
        tokio::select! {
            _ = async { tokio::join!(feed, read) } => {}
            _ = carry => {}
        }
    });
}

/// NRI messages, and what becomes of them.
pub fn messages(data: &[u8]) {
    if let Ok(request) = proto::CreateContainerRequest::parse_from_bytes(data) {
        let pod = facts::pod(request.pod.into_option().unwrap_or_default());
        let container = facts::container(request.container.into_option().unwrap_or_default());
        decide(pod, container);
    }
    if let Ok(request) = proto::SynchronizeRequest::parse_from_bytes(data) {
        let containers: Vec<_> = request.containers.into_iter().map(facts::container).collect();
        let pods = request.pods.into_iter().map(facts::pod).collect();
        let mut state = node();
        let found = Event::Synchronize { pods, containers, observed: BTreeMap::new(), hints: Vec::new() };
        decision::step(&mut state, found, &settings());
    }
    if let Ok(request) = proto::UpdateContainerRequest::parse_from_bytes(data) {
        let pod = facts::pod(request.pod.into_option().unwrap_or_default());
        let container = facts::container(request.container.into_option().unwrap_or_default());
        let wanted = request.linux_resources.into_option().map(facts::resources).unwrap_or_default();
        let mut state = node();
        decision::step(&mut state, Event::Create(pod.clone(), container.clone()), &settings());
        decision::step(&mut state, Event::Update(pod, container, wanted), &settings());
    }
}

/// Kernel lists, amounts, quantities, sizes, addresses and records. What is read and printed is read as the same.
pub fn lists(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(cpus) = text.parse::<CpuSet>() {
        assert_eq!(cpus.to_string().parse::<CpuSet>().as_ref(), Ok(&cpus));
    }
    if let Ok(nodes) = text.parse::<NodeSet>() {
        assert_eq!(nodes.to_string().parse::<NodeSet>().as_ref(), Ok(&nodes));
    }
    if let Ok(size) = text.parse::<HugepageSize>() {
        assert_eq!(size.to_string().parse::<HugepageSize>().ok(), Some(size));
    }
    if let Ok(address) = text.parse::<PciAddress>() {
        assert_eq!(address.to_string().parse::<PciAddress>().ok(), Some(address));
    }
    if let Ok(record) = Record::parse(text) {
        assert_eq!(Record::parse(&record.to_json()).unwrap(), record);
    }
    let _ = text.parse::<Quantity>();
    let _ = MACHINE.gpu_named(text);
    assert!(!one_line(text).contains('\n'));
}

/// Files of a machine's tree: the input is cut at NUL bytes, each piece is the next file's text.
pub fn tree(data: &[u8]) {
    const FILES: [&str; 12] = [
        "sys/devices/system/node/node0/cpulist",
        "sys/devices/system/cpu/online",
        "sys/devices/system/node/node0/meminfo",
        "sys/devices/system/node/node0/distance",
        "sys/devices/system/node/online",
        "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
        "sys/devices/system/cpu/cpu0/topology/physical_package_id",
        "sys/devices/system/node/has_memory",
        "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages",
        "sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages",
        "sys/devices/system/cpu/isolated",
        "proc/meminfo",
    ];
    let dir = scratch();
    let plain = [
        "0-1",
        "0-1",
        "Node 0 MemTotal: 1024 kB",
        "10",
        "0",
        "0-1",
        "0",
        "0",
        "4",
        "4",
        "",
        "MemTotal: 1024 kB",
    ];
    let mut pieces = data.split(|byte| *byte == 0);
    for (file, plain) in FILES.iter().zip(plain) {
        let piece = pieces.next().filter(|piece| !piece.is_empty()).unwrap_or(plain.as_bytes());
        put(&dir, file, piece);
    }
    put(&dir, "sys/devices/system/cpu/cpu1/topology/thread_siblings_list", b"0-1");
    put(&dir, "sys/devices/system/cpu/cpu1/topology/physical_package_id", b"0");
    let Ok(topology) = topology_of(&dir) else { return };
    let in_cores: usize = topology.cores.iter().map(|core| core.cpus.len()).sum();
    assert_eq!(in_cores, topology.cpus.len(), "each CPU is in one core");
    assert!(topology.cpus.len() <= 8192, "{}", topology.cpus.len());
    let json = discover::snapshot::to_json(&topology);
    assert_eq!(discover::snapshot::from_json(&json).unwrap().cpus, topology.cpus);
}

/// A bundle's configuration, and edits of it: what was JSON stays JSON, and what the specification can read stays so.
pub fn config_json(data: &[u8]) {
    // Without a process there is nothing to run, and an environment alone is none.
    let spec = serde_json::from_slice::<oci_spec::runtime::Spec>(data);
    let readable = spec.is_ok_and(|spec| spec.process().is_some());
    let Ok(mut bundle) = Bundle::parse(data, Path::new("config.json")) else { return };
    let doubtful = bundle.take_trouble().is_some();
    let party = bundle.party("id");
    decide(party.pod, party.container);
    let edit = Edit {
        cpus: "2-3".parse().ok(),
        mems: "1".parse().ok(),
        env: vec![("NVIDIA_VISIBLE_DEVICES".into(), "GPU-1".into())],
        record: Some("{}".into()),
        ..Edit::default()
    };
    // What is in doubt is never edited.
    if !doubtful && bundle.edit(&edit).is_ok() {
        let text = bundle.text();
        let first =
            serde_json::Deserializer::from_str(&text).into_iter::<Box<serde_json::value::RawValue>>().next();
        first.expect("something").expect("an edit keeps it JSON");
        if readable {
            let spec: oci_spec::runtime::Spec = serde_json::from_str(&text).expect("still a configuration");
            let resources = spec.linux().as_ref().and_then(|linux| linux.resources().clone());
            let cpus = resources.and_then(|all| all.cpu().as_ref().and_then(|cpu| cpu.cpus().clone()));
            assert_eq!(cpus.as_deref(), Some("2-3"));
        }
    }
}

/// Annotations and environment, a line each: `KEY=VALUE` is the environment's, `KEY: VALUE` the pod's.
pub fn annotations(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut container = container();
    let mut pod = pod();
    for line in text.lines().take(64) {
        match line.split_once(": ") {
            Some((key, value)) => drop(pod.annotations.insert(key.to_owned(), value.to_owned())),
            None => container.env.push(line.to_owned()),
        }
    }
    decide(pod, container);
}

/// Our own configuration file.
pub fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Config::parse(text, "config.toml") {
        Ok(config) => drop(config.settings("0".parse().unwrap(), Features::default())),
        Err(error) => assert!(error.to_string().contains("config.toml"), "no place: {error}"),
    }
}

/// What `maitred plan` reads.
pub fn pod_yaml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = maitred::cli::plan::manifest::read("pod.yaml", text) {
        assert!(error.to_string().contains("pod.yaml"), "no place: {error}");
    }
}

/// A CDI spec, the first byte says in which form.
pub fn cdi(data: &[u8]) {
    let Some((form, text)) = data.split_first() else { return };
    let dir = scratch();
    // Another target may have left a machine there that is none.
    ["etc/cdi", "sys", "proc"].iter().for_each(|below| drop(std::fs::remove_dir_all(dir.join(below))));
    tree_of_one(&dir);
    put(&dir, if form % 2 == 0 { "etc/cdi/a.json" } else { "etc/cdi/a.yaml" }, text);
    topology_of(&dir).expect("a spec harms nobody");
}

/// What the kubelet keeps: the device checkpoint and the CPU manager's state.
pub fn checkpoint(data: &[u8]) {
    let dir = scratch();
    put(&dir, "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", data);
    put(&dir, "var/lib/kubelet/cpu_manager_state", data);
    put(&dir, "var/lib/kubelet/memory_manager_state", data);
    let root = Root::gathered(dir.as_path()).unwrap();
    let _ = discover::kubelet_devices(&root);
    let _ = discover::kubelet_cpu_policy(&root);
    let _ = discover::kubelet::kubelet_memory_policy(&root, "var/lib/kubelet");
}

/// containerd's configuration.
pub fn containerd_toml(data: &[u8]) {
    let dir = scratch();
    put(&dir, "etc/containerd/config.toml", data);
    let root = Root::gathered(dir.as_path()).unwrap();
    drop(discover::containerd::Containerd::read(&root, None, |version| version < 3));
}

/// What lies in the store: an allocation, the journal, the switch.
pub fn store(data: &[u8]) {
    let dir = scratch();
    let below = dir.join("run");
    std::fs::create_dir_all(&below).unwrap();
    let store = maitred::store::Store::open(&below).unwrap();
    put(&below, "allocations/uid.main.json", data);
    put(&below, "verdicts", data);
    let (kept, skipped) = store.allocations().unwrap();
    assert_eq!(kept.len() + skipped.len(), 1, "an allocation is read, or told of");
    let _ = store.journal();
}

/// A snapshot of a machine, and a decision on it.
pub fn snapshot(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(topology) = discover::snapshot::from_json(text) else { return };
    let json = discover::snapshot::to_json(&topology);
    assert_eq!(discover::snapshot::to_json(&discover::snapshot::from_json(&json).unwrap()), json);
    let reserve = Reserve { cpus: None, memory: BTreeMap::new() };
    let Ok(mut state) = State::new(Arc::new(topology), &reserve, &settings().annotation_pool) else { return };
    decision::step(&mut state, Event::Create(pod(), container()), &settings());
}

static MACHINE: LazyLock<Topology> =
    LazyLock::new(|| discover::snapshot::from_json(include_str!("machine.json")).unwrap());

fn node() -> State {
    let reserve = Reserve { cpus: "0".parse().ok(), memory: BTreeMap::new() };
    State::new(Arc::new(MACHINE.clone()), &reserve, &settings().annotation_pool).unwrap()
}

fn settings() -> decision::Settings {
    let text = "version = 1\n[gpu]\nannotation_pool = \"all\"\n";
    let config = Config::parse(text, "built in").unwrap();
    config.settings("0".parse().unwrap(), Features::default())
}

/// What must hold of any answer.
fn decide(pod: PodFacts, container: ContainerFacts) {
    let forged = container.annotations.contains_key(RECORD_ANNOTATION);
    let mut state = node();
    let outcome = decision::step(&mut state, Event::Create(pod, container), &settings());
    match outcome.reply {
        Reply::Adjust(edit) => {
            let cpus = edit.cpus.unwrap_or_default();
            assert!(cpus.is_subset(&MACHINE.cpus), "{cpus}");
            let _: &Vec<Mount> = &edit.mounts;
            assert!(!forged || cpus.is_empty() || edit.record.is_none(), "a forged record was believed");
        }
        Reply::Refuse(rejection) => {
            let text = rejection.to_string();
            assert!(!text.contains('\n') && text.chars().count() <= 2001, "{text}");
        }
        Reply::Nothing => {}
    }
}

fn pod() -> PodFacts {
    PodFacts {
        id: "sandbox".into(),
        uid: PodUid::new("uid"),
        name: "pod".into(),
        namespace: "default".into(),
        annotations: BTreeMap::new(),
        runtime_handler: String::new(),
        cgroup_parent: "/kubepods/poduid".into(),
        cgroups_path: String::new(),
        resources: None,
    }
}

fn container() -> ContainerFacts {
    ContainerFacts {
        id: ContainerId::new("id"),
        sandbox: "sandbox".into(),
        name: ContainerName::new("main"),
        state: ContainerState::Running,
        annotations: BTreeMap::new(),
        args: Vec::new(),
        env: Vec::new(),
        mounts: Vec::new(),
        devices: Vec::new(),
        cdi_devices: Vec::new(),
        cgroups_path: "/kubepods/poduid/id".into(),
        oom_score_adj: Some(-997),
        resources: Resources {
            shares: Some(2048),
            quota: Some(200_000),
            period: Some(100_000),
            memory_limit: Some(1 << 28),
            ..Resources::default()
        },
        policy_calls: PolicyCalls::Unknown,
        hugepages: HugepageHints::default(),
        pid: None,
    }
}

fn tree_of_one(dir: &Path) {
    put(dir, "sys/devices/system/cpu/online", b"0");
    put(dir, "sys/devices/system/cpu/cpu0/topology/thread_siblings_list", b"0");
    put(dir, "sys/devices/system/cpu/cpu0/topology/physical_package_id", b"0");
    put(dir, "sys/devices/system/node/online", b"0");
    put(dir, "sys/devices/system/node/node0/cpulist", b"0");
    put(dir, "sys/devices/system/node/node0/distance", b"10");
    put(dir, "sys/devices/system/node/node0/meminfo", b"Node 0 MemTotal: 1024 kB");
}

fn topology_of(dir: &Path) -> Result<Topology, DiscoverError> {
    let root = Root::open(dir).unwrap();
    discover::topology(&root, &Options::for_root(&root, None))
}

/// A directory of this thread's own, in memory where there is such a place; files of the run before are written over.
fn scratch() -> PathBuf {
    thread_local! {
        static DIR: tempfile::TempDir = {
            let memory = Path::new("/dev/shm");
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
        };
    }
    DIR.with(|dir| dir.path().to_owned())
}

fn put(dir: &Path, file: &str, bytes: &[u8]) {
    let path = dir.join(file);
    if std::fs::write(&path, bytes).is_err() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
}
