//! What a scenario asks for: a pod as a user writes it, with requests and limits.

use crate::cdi;
use crate::list::Set;
use crate::machine::Gpu;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

pub const MIB: u64 = 1 << 20;
pub const SANDBOX_IMAGE: &str = "maitred.test/pause:1";
pub const TENANT_IMAGE: &str = "maitred.test/tenant:1";
/// As CUDA images are: NVIDIA_VISIBLE_DEVICES=all in the image's own environment.
pub const CUDA_IMAGE: &str = "maitred.test/cuda:1";
pub const IMAGES: [&str; 3] = [SANDBOX_IMAGE, TENANT_IMAGE, CUDA_IMAGE];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Qos {
    Guaranteed,
    Burstable,
    BestEffort,
}

/// Requests and limits of one container; 0 is "not stated". CPUs in thousandths, memory in bytes.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    pub cpu_request: u64,
    pub cpu_limit: u64,
    pub memory_request: u64,
    pub memory_limit: u64,
    /// Page size in bytes → bytes.
    pub hugepages: BTreeMap<u64, u64>,
}

#[derive(Debug, Clone)]
pub struct Container {
    pub name: String,
    pub image: &'static str,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub annotations: BTreeMap<String, String>,
    pub resources: Resources,
    /// Host path and container path of each.
    pub mounts: Vec<(String, String)>,
    /// Host path and container path of each device node that CRI passes.
    pub devices: Vec<(String, String)>,
    /// Fully qualified CDI names in the CRI field.
    pub cdi_devices: Vec<String>,
    /// What the kubelet has allotted, whatever the container shows of it.
    pub allotted: Vec<Allotment>,
    /// Its exclusive CPUs, where the kubelet manages them.
    pub cpus: Option<Set>,
}

/// Devices of one resource, each with the node the device plugin gave it.
#[derive(Debug, Clone)]
pub struct Allotment {
    pub resource: &'static str,
    pub devices: Vec<(String, Option<u32>)>,
}

pub const GPU_RESOURCE: &str = "nvidia.com/gpu";
pub const VISIBLE: &str = "NVIDIA_VISIBLE_DEVICES";
/// Below it the device plugin mounts a file for each GPU, under the strategy `volume-mounts`.
pub const GPU_MOUNTS: &str = "/var/run/nvidia-container-devices";

/// How a device plugin hands GPUs to a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    Env,
    Mounts,
    CdiAnnotation,
    CriCdi,
}

impl Delivery {
    pub const ALL: [Delivery; 4] =
        [Delivery::Env, Delivery::Mounts, Delivery::CdiAnnotation, Delivery::CriCdi];

    pub fn name(self) -> &'static str {
        match self {
            Delivery::Env => "env",
            Delivery::Mounts => "mounts",
            Delivery::CdiAnnotation => "cdi-annotation",
            Delivery::CriCdi => "cri-cdi",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Pod {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub annotations: BTreeMap<String, String>,
    /// Where the kubelet heard of the pod: `api`, or `file` for a static pod.
    pub source: &'static str,
    /// The runtime class's handler; empty is the default one.
    pub handler: &'static str,
    /// Only the pod's cgroup has its hugepage limits, as with containerd's `disable_hugetlb_controller`.
    pub hides_hugepages: bool,
    /// Its containers run under the runtime's default seccomp profile.
    pub default_seccomp: bool,
    pub containers: Vec<Container>,
}

/// A UID in the API server's form, its last group counting up within this process.
fn next_uid() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("5eed0000-{:04x}-4000-8000-{:012x}", std::process::id() & 0xffff, count)
}

impl Pod {
    fn of(name: &str, resources: Resources) -> Pod {
        let container = Container {
            name: "main".to_owned(),
            image: TENANT_IMAGE,
            args: vec!["pause".to_owned()],
            env: Vec::new(),
            annotations: BTreeMap::new(),
            resources,
            mounts: Vec::new(),
            devices: Vec::new(),
            cdi_devices: Vec::new(),
            allotted: Vec::new(),
            cpus: None,
        };
        Pod {
            name: name.to_owned(),
            namespace: "default".to_owned(),
            uid: next_uid(),
            annotations: BTreeMap::new(),
            source: "api",
            handler: "",
            hides_hugepages: false,
            default_seccomp: false,
            containers: vec![container],
        }
    }

    /// Requests equal limits: whole CPUs and memory of its own.
    pub fn guaranteed(name: &str, cpus: u64, mib: u64) -> Pod {
        Pod::of(
            name,
            Resources {
                cpu_request: cpus * 1000,
                cpu_limit: cpus * 1000,
                memory_request: mib * MIB,
                memory_limit: mib * MIB,
                hugepages: BTreeMap::new(),
            },
        )
    }

    /// A request and no limit: what most pods of a cluster are.
    pub fn burstable(name: &str, milli_cpus: u64) -> Pod {
        Pod::of(name, Resources { cpu_request: milli_cpus, memory_request: 32 * MIB, ..Default::default() })
    }

    pub fn best_effort(name: &str) -> Pod {
        Pod::of(name, Resources::default())
    }

    /// Requests and limits this many thousandths of a CPU.
    pub fn milli_cpus(mut self, milli_cpus: u64) -> Pod {
        let resources = &mut self.containers[0].resources;
        (resources.cpu_request, resources.cpu_limit) = (milli_cpus, milli_cpus);
        self
    }

    pub fn namespace(mut self, namespace: &str) -> Pod {
        self.namespace = namespace.to_owned();
        self
    }

    /// As the kubelet marks what it reads from its manifest directory.
    pub fn static_pod(mut self) -> Pod {
        self.source = "file";
        self
    }

    pub fn handler(mut self, handler: &'static str) -> Pod {
        self.handler = handler;
        self
    }

    pub fn default_seccomp(mut self) -> Pod {
        self.default_seccomp = true;
        self
    }

    pub fn annotation(mut self, key: &str, value: &str) -> Pod {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    pub fn image(mut self, image: &'static str) -> Pod {
        self.containers[0].image = image;
        self
    }

    pub fn env(mut self, key: &str, value: &str) -> Pod {
        self.containers[0].env.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Hands these GPUs to the first container, as a device plugin that uses this strategy does.
    pub fn gpus(mut self, delivery: Delivery, gpus: &[&Gpu]) -> Pod {
        let container = &mut self.containers[0];
        let uuids: Vec<&str> = gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        let names: Vec<String> = gpus.iter().map(|gpu| gpu.cdi_name(cdi::PLUGIN_KIND)).collect();
        match delivery {
            Delivery::Env => container.env.push((VISIBLE.to_owned(), uuids.join(","))),
            Delivery::Mounts => {
                container.env.push((VISIBLE.to_owned(), GPU_MOUNTS.to_owned()));
                let mount = |uuid: &&str| ("/dev/null".to_owned(), format!("{GPU_MOUNTS}/{uuid}"));
                container.mounts.extend(uuids.iter().map(mount));
            }
            Delivery::CdiAnnotation => {
                let key = "cdi.k8s.io/nvidia-device-plugin_5eed0000-0000-4000-8000-000000000000";
                container.annotations.insert(key.to_owned(), names.join(","));
            }
            Delivery::CriCdi => container.cdi_devices.extend(names),
        }
        self.allotted(GPU_RESOURCE, gpus.iter().map(|gpu| (gpu.uuid.clone(), Some(gpu.node))))
    }

    /// What the kubelet's books say of the first container.
    pub fn allotted(
        mut self,
        resource: &'static str,
        devices: impl IntoIterator<Item = (String, Option<u32>)>,
    ) -> Pod {
        self.containers[0].allotted.push(Allotment { resource, devices: devices.into_iter().collect() });
        self
    }

    /// Exclusive CPUs that the kubelet's static CPU manager has given to the first container.
    pub fn kubelet_cpus(mut self, cpus: Set) -> Pod {
        self.containers[0].cpus = Some(cpus);
        self
    }

    /// A device node that CRI passes by its host path.
    pub fn device(mut self, host: String, path: String) -> Pod {
        self.containers[0].devices.push((host, path));
        self
    }

    pub fn args(mut self, args: &[&str]) -> Pod {
        self.containers[0].args = args.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// `count` pages of 2 MiB.
    pub fn hugepages_2m(mut self, count: u64) -> Pod {
        self.containers[0].resources.hugepages.insert(2 * MIB, count * 2 * MIB);
        self
    }

    /// The same, and no container's own limits tell of them: an annotation does.
    pub fn hidden_hugepages_2m(self, count: u64) -> Pod {
        let mut pod = self.annotation("hugepages-2Mi.maitred.io", &format!("{}Mi", count * 2));
        pod.hides_hugepages = true;
        pod.hugepages_2m(count)
    }

    /// Adds the containers of `other`, renamed, to this pod.
    pub fn with_container(mut self, name: &str, other: Pod) -> Pod {
        let mut container = other.containers.into_iter().next().expect("a pod has a container");
        container.name = name.to_owned();
        self.containers.push(container);
        self
    }

    pub fn qos(&self) -> Qos {
        let stated = |r: &Resources| r.cpu_request + r.cpu_limit + r.memory_request + r.memory_limit > 0;
        let equal = |r: &Resources| {
            r.cpu_limit > 0
                && r.memory_limit > 0
                && r.cpu_request == r.cpu_limit
                && r.memory_request == r.memory_limit
        };
        let all = || self.containers.iter().map(|container| &container.resources);
        if all().all(equal) {
            Qos::Guaranteed
        } else if all().any(stated) {
            Qos::Burstable
        } else {
            Qos::BestEffort
        }
    }

    /// Below `/kubepods`, as the kubelet's cgroupfs driver names it.
    pub fn cgroup_parent(&self) -> String {
        match self.qos() {
            Qos::Guaranteed => format!("/kubepods/pod{}", self.uid),
            Qos::Burstable => format!("/kubepods/burstable/pod{}", self.uid),
            Qos::BestEffort => format!("/kubepods/besteffort/pod{}", self.uid),
        }
    }
}
