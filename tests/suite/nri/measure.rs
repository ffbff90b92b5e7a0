//! How long a reply takes and how much memory the daemon needs. Run with
//! `cargo test --release --test suite measure -- --ignored --nocapture --test-threads 1`.

use super::{RELAXED, runtime_side};
use crate::fake_runtime::{Daemon, FakeRuntime, Place, container, guaranteed_pod, patience, pod_request};
use maitred::config::Config;
use maitred::decision::{CpusetUpdate, Observed, Pages, Seen, State};
use maitred::discover::snapshot;
use maitred::engine::Reserve;
use maitred::ledger::Record;
use maitred::model::{
    ContainerId, ContainerKey, HugepageHints, MountFacts, Placement, PodAllotment, PodFacts, PodUid, Topology,
};
use maitred::nri::proto::{Container, StopContainerRequest, SynchronizeRequest};
use maitred::nri::{Allotments, Around, BoxError, Cgroups, Devices, Hints, Kept, Seating, Setup};
use protobuf::MessageField;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SHARED: usize = 200;

/// Two sockets of 56 cores with two threads each, 1 TiB: the machine the project ships.
fn machine() -> Topology {
    snapshot::from_json(include_str!("../../../packaging/examples/h100-server.json")).unwrap()
}

pub(super) struct NoCgroups;

impl Cgroups for NoCgroups {
    fn observe(&self, _: &str) -> Result<Option<Observed>, BoxError> {
        Ok(None)
    }
    fn is_there(&self, _: &str) -> Result<bool, BoxError> {
        Ok(true)
    }
    fn is_pod_there(&self, _: &str) -> Result<bool, BoxError> {
        Ok(true)
    }
    fn hugepages(&self, _: &[(ContainerId, String)]) -> Result<Pages, BoxError> {
        Ok(Pages::default())
    }
    fn hugepage_hints(&self, _: &str, _: &[MountFacts]) -> Result<HugepageHints, BoxError> {
        Ok(HugepageHints::default())
    }
    fn effective(&self, _: &str, _: &Placement) -> Result<Option<Seen>, BoxError> {
        Ok(None)
    }
    fn drop_pod_quota(&self, _: &str) -> Result<bool, BoxError> {
        Ok(false)
    }
    fn write(&self, _: &CpusetUpdate) -> Result<bool, BoxError> {
        Ok(true)
    }
}

pub(super) struct NoHints;

impl Hints for NoHints {
    fn load(&self) -> Vec<Record> {
        Vec::new()
    }
    fn keep(&self, _: &ContainerKey, _: Option<&Kept>) {}
}

struct NoKubelet;

impl Allotments for NoKubelet {
    fn pod(&self, _: &PodFacts) -> Option<PodAllotment> {
        None
    }
    fn pods(&self, _: &[PodFacts]) -> BTreeMap<PodUid, PodAllotment> {
        BTreeMap::new()
    }
}

pub(super) struct SameDevices;

impl Devices for SameDevices {
    fn changed(&self) -> bool {
        false
    }
    fn read(&self) -> Result<Topology, BoxError> {
        Ok(machine())
    }
}

/// The production handler over that machine.
pub(super) fn seating() -> Seating {
    let prepare = |host: &maitred::nri::Host| {
        let config = Config::parse("version = 1", "the test's configuration")?;
        let state = State::new(Arc::new(machine()), &Reserve::default(), &config.gpu.annotation_pool)?;
        let settings = config.settings(state.ledger().machine().reserved().clone(), host.features());
        Ok(Setup { state, settings })
    };
    let around = Around {
        cgroups: Arc::new(NoCgroups),
        hints: Arc::new(NoHints),
        allotments: Arc::new(NoKubelet),
        devices: Arc::new(SameDevices),
        witness: Arc::new(()),
    };
    Seating::new(prepare, around, || false)
}

/// A BestEffort container with the environment a Kubernetes service list makes.
pub(super) fn shared(id: &str) -> Container {
    let mut shared = container(id);
    shared.linux.as_mut().unwrap().resources = MessageField::none();
    shared.linux.as_mut().unwrap().cgroups_path = format!("/kubepods/besteffort/poduid-{id}/{id}");
    shared.env = (0..100).map(|n| format!("SERVICE_{n}_PORT_443_TCP_ADDR=10.43.0.{n}")).collect();
    shared
}

fn everything() -> SynchronizeRequest {
    let pods = (0..SHARED).map(|n| {
        let mut pod = guaranteed_pod(&format!("s{n}"));
        pod.linux.as_mut().unwrap().cgroup_parent = format!("/kubepods/besteffort/poduid-s{n}");
        pod
    });
    let containers = (0..SHARED).map(|n| {
        let mut one = shared(&format!("s{n}"));
        one.pod_sandbox_id = format!("sandbox-s{n}");
        one
    });
    SynchronizeRequest { pods: pods.collect(), containers: containers.collect(), ..Default::default() }
}

async fn with_200_shared(place: &Place, listener: &tokio::net::UnixListener) -> FakeRuntime {
    let accepted = tokio::time::timeout(Duration::from_secs(10), listener.accept()).await;
    let (stream, _) =
        accepted.unwrap_or_else(|_| panic!("nobody connects to {}", place.path.display())).unwrap();
    let runtime = FakeRuntime::over(stream).await;
    runtime.configure("v2.1.9").await.unwrap();
    runtime.plugin.synchronize(patience(), &everything()).await.unwrap();
    runtime
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |per_mille: usize| times[(times.len() - 1) * per_mille / 1000];
    println!("{what}: p50 {:?}, p99 {:?}, most {:?} of {}", at(500), at(990), at(1000), times.len());
}

#[test]
#[ignore = "a measurement"]
fn reply_times() {
    runtime_side(async {
        let place = Place::new();
        let listener = place.listen();
        let _daemon = Daemon::start(&place.path, RELAXED, seating());
        let runtime = with_200_shared(&place, &listener).await;
        let (mut changes_nobody, mut shrinks_the_pool) = (Vec::new(), Vec::new());
        for n in 0..1000 {
            let name = format!("b{n}");
            let mut pod = guaranteed_pod(&name);
            pod.linux.as_mut().unwrap().cgroup_parent = format!("/kubepods/besteffort/poduid-{name}");
            let (request, asked) = (shared(&name), Instant::now());
            runtime.create(pod, request).await.unwrap();
            changes_nobody.push(asked.elapsed());
            leave(&runtime, &name).await;
        }
        for n in 0..1000 {
            let name = format!("g{n}");
            let asked = Instant::now();
            let answer = runtime.create(guaranteed_pod(&name), container(&name)).await.unwrap();
            shrinks_the_pool.push(asked.elapsed());
            assert!(answer.update.len() >= SHARED, "{} updates", answer.update.len());
            leave(&runtime, &name).await;
        }
        print("CreateContainer that changes nobody else", changes_nobody);
        print("CreateContainer that shrinks the pool of 200", shrinks_the_pool);
    });
}

async fn leave(runtime: &FakeRuntime, name: &str) {
    let request = StopContainerRequest {
        pod: MessageField::some(guaranteed_pod(name)),
        container: MessageField::some(container(name)),
        ..Default::default()
    };
    runtime.plugin.stop_container(patience(), &request).await.unwrap();
    runtime.plugin.stop_pod_sandbox(patience(), &pod_request(name)).await.unwrap();
}

/// The real binary, on this machine, with its metrics and its journal: needs root.
#[test]
#[ignore = "a measurement"]
fn resident_memory() {
    runtime_side(async {
        let place = Place::new();
        let listener = place.listen();
        let store = tempfile::tempdir().unwrap();
        let mut daemon = std::process::Command::new(env!("CARGO_BIN_EXE_maitred"))
            .args(["nri", "--socket"])
            .arg(&place.path)
            .arg("--store")
            .arg(store.path().join("maitred"))
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let runtime = with_200_shared(&place, &listener).await;
        println!("resident with {SHARED} containers: {}", resident(daemon.id()));
        let mut changes_nobody = Vec::new();
        for n in 0..1000 {
            let name = format!("b{n}");
            let mut pod = guaranteed_pod(&name);
            pod.linux.as_mut().unwrap().cgroup_parent = format!("/kubepods/besteffort/poduid-{name}");
            let (request, asked) = (shared(&name), Instant::now());
            runtime.create(pod, request).await.unwrap();
            changes_nobody.push(asked.elapsed());
            leave(&runtime, &name).await;
        }
        let journal = std::fs::metadata(store.path().join("maitred/verdicts")).map_or(0, |file| file.len());
        assert!(journal > 0, "no verdict is in the journal");
        println!("journal: {journal} bytes");
        print("CreateContainer that changes nobody else, with metrics and journal", changes_nobody);
        println!("after 1000 creates and stops: {}", resident(daemon.id()));
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    });
}

pub(super) fn resident(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.trim_start_matches("VmRSS:").trim().to_owned()
}
