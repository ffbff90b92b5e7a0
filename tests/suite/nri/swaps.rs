//! Other GPUs than the device plugin chose, on a runtime that can take devices away again (NRI 0.10 and later):
//! the exact adjustment, and what a container can open once the runtime has carried it out.

use super::measure::{NoCgroups, NoHints, SameDevices};
use super::{RELAXED, runtime_side};
use crate::fake_runtime::{Cdi, Daemon, FakeRuntime, Numbers, Open, Place, Spec, container, guaranteed_pod};
use maitred::config::Config;
use maitred::decision::State;
use maitred::discover::snapshot;
use maitred::engine::Reserve;
use maitred::model::{Allotment, AllotmentSource, PodAllotment, PodFacts, PodUid, Topology};
use maitred::nri::proto::{
    CDIDevice, Container, ContainerAdjustment, KeyValue, LinuxDevice, LinuxDeviceCgroup, Mount, OptionalInt64,
};
use maitred::nri::{Allotments, Around, Host, Seating, Setup};
use protobuf::MessageField;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

const VISIBLE: &str = "NVIDIA_VISIBLE_DEVICES";
const MOUNTS: &str = "/var/run/nvidia-container-devices";
const KIND: &str = "k8s.device-plugin.nvidia.com/gpu";
const CDI_KEY: &str = "cdi.k8s.io/nvidia-device-plugin_1";
const MAJOR: i64 = 195;
const CONTROL: (&str, Numbers) = ("/dev/nvidiactl", (MAJOR, 255));

/// The GPUs by letter; the minor number of each is not its index.
const GPUS: [(&str, i64); 3] = [("GPU-a", 2), ("GPU-b", 1), ("GPU-c", 0)];

fn node_of(uuid: &str) -> (String, Numbers) {
    let (_, minor) = GPUS.into_iter().find(|(name, _)| *name == uuid).unwrap();
    (format!("/dev/nvidia{minor}"), (MAJOR, minor))
}

fn name_of(uuid: &str) -> String {
    format!("{KIND}={uuid}")
}

/// The nodes that each CDI name stands for.
fn cdi() -> Cdi {
    GPUS.map(|(uuid, _)| (name_of(uuid), vec![node_of(uuid), (CONTROL.0.to_owned(), CONTROL.1)])).into()
}

/// Node 0 with four CPUs, of which two are the system's, and one GPU; node 1 with eight CPUs and two.
fn machine() -> Topology {
    let node = |id: u32, cpus: &str| {
        json!({"id": id, "kind": "cpu+memory", "cpus": cpus, "memory_bytes": 8u64 << 30, "hugepages": [],
            "distances": {"0": if id == 0 { 10 } else { 21 }, "1": if id == 1 { 10 } else { 21 }}})
    };
    let gpu = |index: usize, pci: &str, node: u32| {
        json!({"index": index, "uuid": GPUS[index].0, "pci": pci, "minor": GPUS[index].1, "model": null,
            "numa_node": node, "nvlinks": {}})
    };
    let cores = (0..6).map(
        |core| json!({"package": u32::from(core > 1), "cpus": format!("{}-{}", 2 * core, 2 * core + 1)}),
    );
    let machine = json!({
        "version": 1, "cpus": "0-11", "isolated": "",
        "packages": [{"id": 0, "cpus": "0-3"}, {"id": 1, "cpus": "4-11"}],
        "numa_nodes": [node(0, "0-3"), node(1, "4-11")],
        "cores": cores.collect::<Vec<_>>(), "llcs": [],
        "gpus": [gpu(0, "0000:21:00.0", 0), gpu(1, "0000:41:00.0", 1), gpu(2, "0000:42:00.0", 1)],
        "nics": [],
    });
    let mut machine = snapshot::from_json(&machine.to_string()).unwrap();
    let paths = |(name, nodes): (String, Vec<(String, Numbers)>)| {
        (name, nodes.into_iter().map(|(path, _)| path).collect())
    };
    machine.cdi = cdi().into_iter().map(paths).collect();
    machine
}

/// The kubelet has given these GPUs to the one container there is.
struct Gave(Vec<&'static str>);

impl Allotments for Gave {
    fn pod(&self, _: &PodFacts) -> Option<PodAllotment> {
        let ids = self.0.iter().map(|id| ((*id).to_owned(), None)).collect();
        let devices = BTreeMap::from([("nvidia.com/gpu".into(), ids)]);
        let own = Allotment { devices, ..Allotment::default() };
        let containers = BTreeMap::from([("name-c".into(), own)]);
        Some(PodAllotment { source: AllotmentSource::PodResources, containers })
    }
    fn pods(&self, _: &[PodFacts]) -> BTreeMap<PodUid, PodAllotment> {
        BTreeMap::new()
    }
}

fn seating(placement: &str, gave: &[&'static str]) -> Seating {
    let text = format!("version = 1\n[gpu]\nplacement = \"{placement}\"");
    let prepare = move |host: &Host| {
        let config = Config::parse(&text, "the test's configuration")?;
        let state = State::new(Arc::new(machine()), &Reserve::default(), &config.gpu.annotation_pool)?;
        let settings = config.settings(state.ledger().machine().reserved().clone(), host.features());
        Ok(Setup { state, settings })
    };
    let around = Around {
        cgroups: Arc::new(NoCgroups),
        hints: Arc::new(NoHints),
        allotments: Arc::new(Gave(gave.to_vec())),
        devices: Arc::new(SameDevices),
        witness: Arc::new(()),
    };
    Seating::new(prepare, around, || false)
}

/// What a containerd of that version is told about a container of four CPUs, whose pod is a Guaranteed one.
fn answer(
    version: &str,
    placement: &str,
    gave: &[&'static str],
    asks: &Container,
) -> Result<ContainerAdjustment, String> {
    runtime_side(async {
        let place = Place::new();
        let listener = place.listen();
        let _daemon = Daemon::start(&place.path, RELAXED, seating(placement, gave));
        let runtime = FakeRuntime::over(listener.accept().await.unwrap().0).await;
        runtime.configure(version).await.unwrap();
        runtime.synchronize_nothing().await;
        let answer = runtime.create(guaranteed_pod("p"), asks.clone()).await;
        let mut adjust = answer.map_err(|error| error.to_string())?.adjust.unwrap_or_default();
        // The rest is others' subject: the record, the CPUs and the memory policy.
        adjust.annotations.remove("allocation.maitred.io");
        Ok(adjust)
    })
}

fn by_env(uuids: &str) -> Container {
    Container { env: vec![format!("{VISIBLE}={uuids}")], ..container("c") }
}

fn by_mounts(uuids: &[&str]) -> Container {
    let mount = |uuid: &&str| Mount {
        destination: format!("{MOUNTS}/{uuid}"),
        source: "/dev/null".into(),
        ..Default::default()
    };
    let env = vec![format!("{VISIBLE}={MOUNTS}")];
    Container { env, mounts: uuids.iter().map(mount).collect(), ..container("c") }
}

/// As the runtime shows it when it has expanded the CDI names; the annotation stays to be seen, the CRI field from
/// NRI 0.12 on.
fn by_cdi(uuids: &[&str], annotated: bool, shown: bool) -> Container {
    let mut asks = Container { env: vec![format!("{VISIBLE}=void")], ..container("c") };
    let nodes = uuids.iter().map(|uuid| node_of(uuid)).chain([(CONTROL.0.to_owned(), CONTROL.1)]);
    asks.linux.as_mut().unwrap().devices =
        nodes.map(|(path, (major, minor))| device(&path, major, minor)).collect();
    let names: Vec<String> = uuids.iter().map(|uuid| name_of(uuid)).collect();
    if annotated {
        asks.annotations.insert(CDI_KEY.into(), names.join(","));
    } else if shown {
        asks.cdi_devices = names.into_iter().map(|name| CDIDevice { name, ..Default::default() }).collect();
    }
    asks
}

fn device(path: &str, major: i64, minor: i64) -> LinuxDevice {
    LinuxDevice { path: path.into(), type_: "c".into(), major, minor, ..Default::default() }
}

fn denied((major, minor): Numbers) -> LinuxDeviceCgroup {
    let number = |value| MessageField::some(OptionalInt64 { value, ..Default::default() });
    LinuxDeviceCgroup {
        allow: false,
        type_: "c".into(),
        major: number(major),
        minor: number(minor),
        access: "rwm".into(),
        ..Default::default()
    }
}

/// The devices' part of an adjustment.
fn devices_of(adjust: &ContainerAdjustment) -> ContainerAdjustment {
    let mut part = adjust.clone();
    let linux = part.linux.mut_or_insert_default();
    linux.memory_policy = MessageField::none();
    if let Some(resources) = linux.resources.as_mut() {
        resources.cpu = MessageField::none();
        if resources.devices.is_empty() {
            linux.resources = MessageField::none();
        }
    }
    if *part.linux == Default::default() {
        part.linux = MessageField::none();
    }
    part
}

/// The GPUs whose nodes open, and whose numbers the cgroup allows.
fn usable(spec: &Spec) -> Vec<&'static str> {
    let opens = |uuid: &str| {
        let (path, numbers) = node_of(uuid);
        let open = spec.open(&path) == Open::Allowed;
        assert_eq!(open, spec.allows(numbers), "{path}: the node and its cgroup rule disagree");
        open
    };
    GPUS.into_iter().map(|(uuid, _)| uuid).filter(|uuid| opens(uuid)).collect()
}

#[test]
fn the_environment_names_the_gpu_that_fits() {
    for version in ["v2.2.1", "v2.3.0"] {
        let asks = by_env("GPU-a");
        let adjust = answer(version, "repair", &["GPU-a"], &asks).unwrap();
        assert_eq!(adjust.linux.resources.cpu.cpus, "4-7");
        let variable = KeyValue { key: VISIBLE.into(), value: "GPU-b".into(), ..Default::default() };
        let expected = ContainerAdjustment { env: vec![variable], ..Default::default() };
        assert_eq!(devices_of(&adjust), expected);
        assert_eq!(Spec::before(&asks).adjusted(&adjust, &cdi()).env[VISIBLE], "GPU-b");
    }
}

#[test]
fn a_mount_takes_the_place_of_a_mount() {
    let asks = by_mounts(&["GPU-a"]);
    let adjust = answer("v2.2.1", "repair", &["GPU-a"], &asks).unwrap();
    let gone = Mount { destination: format!("-{MOUNTS}/GPU-a"), ..Default::default() };
    let new = Mount {
        destination: format!("{MOUNTS}/GPU-b"),
        type_: "bind".into(),
        source: "/dev/null".into(),
        options: ["rbind", "rprivate", "ro"].map(String::from).into(),
        ..Default::default()
    };
    assert_eq!(devices_of(&adjust), ContainerAdjustment { mounts: vec![gone, new], ..Default::default() });
    let spec = Spec::before(&asks).adjusted(&adjust, &cdi());
    assert_eq!(spec.mounts, [format!("{MOUNTS}/GPU-b")]);
    assert_eq!(spec.env[VISIBLE], MOUNTS);
}

#[test]
fn a_cdi_device_goes_with_its_node_and_its_right() {
    for (annotated, shown, version) in
        [(true, false, "v2.2.1"), (false, false, "v2.2.1"), (false, true, "v2.3.0")]
    {
        let asks = by_cdi(&["GPU-a"], annotated, shown);
        let before = Spec::before(&asks);
        assert_eq!(usable(&before), ["GPU-a"]);

        let adjust = answer(version, "repair", &["GPU-a"], &asks).unwrap();

        let (path, numbers) = node_of("GPU-a");
        let mut expected = ContainerAdjustment {
            cdi_devices: vec![CDIDevice { name: name_of("GPU-b"), ..Default::default() }],
            ..Default::default()
        };
        if annotated {
            expected.annotations.insert(CDI_KEY.into(), name_of("GPU-b"));
        }
        let linux = expected.linux.mut_or_insert_default();
        linux.devices = vec![LinuxDevice { path: format!("-{path}"), ..Default::default() }];
        linux.resources.mut_or_insert_default().devices = vec![denied(numbers)];
        assert_eq!(devices_of(&adjust), expected, "annotated {annotated}, {version}");

        let after = before.adjusted(&adjust, &cdi());
        assert_eq!(usable(&after), ["GPU-b"]);
        assert_eq!((after.open(&path), after.open(CONTROL.0)), (Open::Absent, Open::Allowed));
        assert_eq!(after.env[VISIBLE], "void");
    }
}

#[test]
fn choose_takes_the_pair_and_keeps_what_was_right() {
    let own = ["GPU-a", "GPU-c"];
    let ways =
        [by_env("GPU-a,GPU-c"), by_mounts(&own), by_cdi(&own, true, false), by_cdi(&own, false, false)];
    for (asks, version) in ways.iter().flat_map(|asks| ["v2.2.1", "v2.3.0"].map(|version| (asks, version))) {
        let adjust = answer(version, "choose", &own, asks).unwrap();
        let after = Spec::before(asks).adjusted(&adjust, &cdi());
        assert_eq!(adjust.linux.resources.cpu.cpus, "4-7");
        match after.env[VISIBLE].as_str() {
            "void" => {
                assert_eq!(usable(&after), ["GPU-b", "GPU-c"]);
                assert_eq!(adjust.cdi_devices.len(), 1, "the one that stays is not added again");
                if asks.annotations.contains_key(CDI_KEY) {
                    let names = [name_of("GPU-c"), name_of("GPU-b")].join(",");
                    assert_eq!(adjust.annotations[CDI_KEY], names, "what the runtime would read next");
                }
            }
            MOUNTS => assert_eq!(after.mounts, ["GPU-c", "GPU-b"].map(|uuid| format!("{MOUNTS}/{uuid}"))),
            named => assert_eq!(named, "GPU-b,GPU-c"),
        }
    }
}

#[test]
fn choose_leaves_alone_what_is_the_best_already() {
    let own = ["GPU-b", "GPU-c"];
    for asks in
        [by_env("GPU-b,GPU-c"), by_mounts(&own), by_cdi(&own, true, false), by_cdi(&own, false, false)]
    {
        let adjust = answer("v2.2.1", "choose", &own, &asks).unwrap();
        assert_eq!(devices_of(&adjust), ContainerAdjustment::default());
    }
}

#[test]
fn below_nri_0_10_a_device_is_refused_and_nothing_is_half_done() {
    let refusal = answer("v2.1.9", "repair", &["GPU-a"], &by_cdi(&["GPU-a"], false, false)).unwrap_err();
    assert!(refusal.contains("only NRI 0.10 or later"), "{refusal}");
    let kept = answer("v2.2.1", "keep", &["GPU-a"], &by_cdi(&["GPU-a"], false, false)).unwrap_err();
    assert!(kept.contains("TopologyAffinityError"), "{kept}");
    // What fits is not touched.
    let fits = answer("v2.2.1", "repair", &["GPU-c"], &by_cdi(&["GPU-c"], true, false)).unwrap();
    assert_eq!(devices_of(&fits), ContainerAdjustment::default());
}
