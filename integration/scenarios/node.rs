//! The node under test: containerd and maitred, started and stopped by us, and the pods on it.

mod maitred;

use crate::allotted::{self, Book, Files};
use crate::cgroup;
use crate::classes;
use crate::containerd::{self, Version};
use crate::cri::Cri;
use crate::kubelet;
use crate::machine::Machine;
use crate::observe::{self, Opened, Seen};
use crate::options::{Churn, Lane, Options};
use crate::pod::{Container, IMAGES, Pod};
use crate::podresources::{Manner, Server};
use crate::service::Service;
use crate::settings::Settings;
use crate::wait;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
pub const NRI_SOCKET: &str = "/var/run/nri/nri.sock";
pub const CONTAINERD_CONFIG: &str = "/etc/containerd/config.toml";
pub const MAITRED_CONFIG: &str = "/etc/maitred/config.toml";
pub const PLUGINS: &str = "/opt/nri/plugins";
const MAITRED_RUN: &str = "/run/maitred";
/// ContainerState of CRI.
const CONTAINER_EXITED: i32 = 2;
const CALL_LIMIT: Duration = Duration::from_secs(300);

/// A pod that runs, with its containers in the pod's order.
pub struct Seated {
    pub pod: Pod,
    pub sandbox: String,
    pub containers: Vec<String>,
}

pub struct Node {
    pub lane: Lane,
    pub churn: Churn,
    pub machine: Machine,
    pub cri: Cri,
    pub containerd: Service,
    pub version: Version,
    pub maitred: Service,
    with_maitred: bool,
    payload: std::path::PathBuf,
    running: Option<Settings>,
    /// cgroup parents to take away with their pods.
    cgroups: Mutex<Vec<String>>,
    /// What the kubelet has allotted to whom.
    book: Arc<Mutex<Book>>,
    /// The kubelet's podresources service, where a scenario has it.
    pub podresources: Option<Server>,
    /// The files in which the kubelet keeps its allotments, where a scenario has them.
    pub kubelet_files: Option<Files>,
}

impl Node {
    pub fn new(options: &Options) -> Result<Node> {
        let machine = Machine::read()?;
        machine.describe_gpus()?;
        crate::cdi::install(&machine)?;
        crate::machine::install_nvml(&options.payload.join("libfake_nvml.so"))?;
        Ok(Node {
            lane: options.lane,
            churn: options.churn.clone(),
            machine,
            cri: Cri::new(CONTAINERD_SOCKET, CALL_LIMIT),
            containerd: Service::new("containerd"),
            version: Version::ask()?,
            maitred: Service::new("maitred"),
            with_maitred: !options.without_maitred,
            payload: options.payload.clone(),
            running: None,
            cgroups: Mutex::new(Vec::new()),
            book: Arc::default(),
            podresources: None,
            kubelet_files: None,
        })
    }

    /// How long a condition may take to come about. Without maitred it never will: look briefly.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(match (self.lane, self.with_maitred) {
            (Lane::Native, true) => 30,
            (Lane::Guest, true) => 180,
            (Lane::Native, false) => 1,
            (Lane::Guest, false) => 5,
        })
    }

    pub fn start_containerd(&mut self) -> Result<()> {
        fs::create_dir_all("/etc/containerd")?;
        let classes = classes::of_all_kinds(self.version);
        fs::write(CONTAINERD_CONFIG, containerd::config(self.lane, self.version, &classes))?;
        classes::install(self.with_maitred.then(|| self.payload.join("maitred")).as_deref())?;
        self.containerd.start(Command::new("containerd").args(["--config", CONTAINERD_CONFIG]))?;
        let (cri, containerd) = (&self.cri, &mut self.containerd);
        let limit = Duration::from_secs(120);
        wait::until_alive(limit, "containerd is ready for pods", || containerd.check_alive(), || cri.ready())
    }

    pub fn import_images(&self) -> Result<()> {
        let archive = self.payload.join("images.tar");
        let status = Command::new("ctr")
            .args(["--namespace", "k8s.io", "images", "import", "--local"])
            .arg(&archive)
            .stdout(std::process::Stdio::null())
            .status()
            .context("starting ctr")?;
        anyhow::ensure!(status.success(), "ctr images import {}: {status}", archive.display());
        // CRI learns of an import by an event, a moment later.
        wait::until(Duration::from_secs(60), "CRI has the images", || {
            let known = self.cri.list_images()?;
            Ok(IMAGES.iter().all(|image| known.iter().any(|tag| tag == image)))
        })
    }

    /// Makes the node ready for a scenario: no pods, and maitred running with these settings.
    pub fn prepare(&mut self, settings: &Settings) -> Result<()> {
        self.clean()?;
        self.podresources = None;
        self.kubelet_files = None;
        allotted::remove_files();
        if !self.containerd.is_running() {
            self.start_containerd()?;
        }
        if self.running.as_ref() != Some(settings) || !self.maitred.is_running() {
            self.stop_maitred()?;
            self.forget();
            self.start_maitred(settings)?;
        }
        Ok(())
    }

    /// After a failure nothing is trusted: the next scenario gets a maitred that knows nothing.
    pub fn distrust(&mut self) {
        self.running = None;
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self, pod: &Pod) -> Result<()> {
        let mut book = self.book();
        book.admit(pod);
        match self.kubelet_files {
            None => Ok(()),
            Some(Files::Devices) => book.write_checkpoint(),
            Some(Files::DevicesAndCpus) => {
                book.write_cpu_state(&self.machine.all_cpus())?;
                book.write_checkpoint()
            }
        }
    }

    /// From now on the kubelet's podresources service stands, in that manner.
    pub fn serve_podresources(&mut self, manner: Manner) -> Result<()> {
        self.podresources = None;
        if self.lane == Lane::Guest {
            // Every kubelet has its checkpoint too, and an emulated one may be too slow for the tenth of a second it has.
            self.kubelet_files.get_or_insert(Files::Devices);
        }
        self.podresources = Some(Server::start(manner, self.book.clone())?);
        Ok(())
    }

    /// The pod's cgroup and sandbox. The kubelet has admitted it by then: its devices are allotted.
    pub fn sandbox(&self, pod: &Pod) -> Result<String> {
        self.admit(pod)?;
        self.cgroups.lock().unwrap_or_else(|poison| poison.into_inner()).push(pod.cgroup_parent());
        kubelet::make_pod_cgroup(pod)?;
        self.cri.run_pod_sandbox(&kubelet::sandbox_config(pod), pod.handler)
    }

    /// One attempt at a container, created and not yet started.
    pub fn create(&self, pod: &Pod, container: &Container, sandbox: &str, attempt: u32) -> Result<String> {
        self.cri.create_container(&kubelet::create_request(pod, container, sandbox, attempt))
    }

    /// The whole pod, all its containers started.
    pub fn run(&self, pod: Pod) -> Result<Seated> {
        let context = || format!("pod {}/{}", pod.namespace, pod.name);
        let sandbox = self.sandbox(&pod).with_context(context)?;
        let mut containers = Vec::new();
        for container in &pod.containers {
            let id = self.create(&pod, container, &sandbox, 0).with_context(context)?;
            self.cri.start_container(&id).with_context(context)?;
            containers.push(id);
        }
        Ok(Seated { sandbox, containers, pod })
    }

    /// What the first container of a pod really got.
    pub fn look(&self, seated: &Seated) -> Result<Seen> {
        self.look_at(&seated.containers[0])
            .with_context(|| format!("looking at pod {}/{}", seated.pod.namespace, seated.pod.name))
    }

    pub fn look_at(&self, container: &str) -> Result<Seen> {
        observe::container(&self.cri, container, self.lane.start_limit())
    }

    /// How each path that the first container of a pod was told to open did open inside it.
    pub fn opened(&self, seated: &Seated) -> Result<BTreeMap<String, Opened>> {
        let log = kubelet::log_file(&seated.pod, &seated.pod.containers[0], 0);
        observe::opened(Path::new(&log), self.lane.start_limit())
    }

    /// Kills the pod's first container from outside and waits until containerd has noticed.
    pub fn crash(&self, seated: &Seated) -> Result<()> {
        let container = &seated.containers[0];
        observe::kill(observe::pid(&self.cri, container)?)?;
        self.wait_exited(container)
    }

    pub fn wait_exited(&self, container: &str) -> Result<()> {
        wait::until(self.lane.start_limit(), "containerd sees that the container has ended", || {
            let answer = self.cri.container_status(container, false)?;
            Ok(answer.status.state == CONTAINER_EXITED)
        })
    }

    /// A new attempt at the pod's first container after the last one ended, as the kubelet restarts it.
    pub fn restart(&self, seated: &mut Seated, attempt: u32) -> Result<()> {
        let pod = &seated.pod;
        let id = self.create(pod, &pod.containers[0], &seated.sandbox, attempt)?;
        self.cri.start_container(&id)?;
        seated.containers[0] = id;
        Ok(())
    }

    /// The pod's end, as the kubelet brings it about.
    pub fn remove(&self, seated: &Seated) -> Result<()> {
        for container in &seated.containers {
            self.cri.stop_container(container)?;
        }
        self.remove_pod(&seated.pod, &seated.sandbox)
    }

    /// `remove`, where no container runs any more.
    pub fn remove_pod(&self, pod: &Pod, sandbox: &str) -> Result<()> {
        self.remove_sandbox(sandbox)?;
        self.book().forget(pod);
        cgroup::remove(&pod.cgroup_parent());
        Ok(())
    }

    fn remove_sandbox(&self, id: &str) -> Result<()> {
        self.cri.stop_pod_sandbox(id)?;
        self.cri.remove_pod_sandbox(id)
    }

    /// Ends every pod on the node, all at once.
    pub fn clean(&self) -> Result<()> {
        if self.containerd.pid().is_none() {
            return Ok(());
        }
        let all = self.cri.list_pod_sandboxes()?;
        std::thread::scope(|scope| {
            let ends: Vec<_> = all.iter().map(|pod| scope.spawn(|| self.remove_sandbox(&pod.id))).collect();
            ends.into_iter().try_for_each(|end| end.join().expect("ending a pod does not panic"))
        })?;
        self.book().clear();
        for path in self.cgroups.lock().unwrap_or_else(|poison| poison.into_inner()).drain(..) {
            cgroup::remove(&path);
        }
        Ok(())
    }

    pub fn shut_down(&mut self) -> Result<()> {
        let cleaned = self.clean();
        self.maitred.kill()?;
        self.containerd.kill()?;
        cleaned
    }
}
