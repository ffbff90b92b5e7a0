//! The daemon as a process: its log's reader is stuck or its disk full, it is killed, another runs already, `/run`
//! becomes read-only under it.

use super::runtime_side;
use crate::discover::tree::{Regular, Tree};
use crate::fake_runtime::{FakeRuntime, Place, container, guaranteed_pod, patience};
use maitred::ledger::RECORD_ANNOTATION;
use maitred::model::CpuSet;
use maitred::nri::proto::{self, Container, PodSandbox, SynchronizeRequest};
use protobuf::EnumOrUnknown;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use tokio::net::UnixListener;

/// Two nodes of eight CPUs.
const MACHINE: Regular = Regular { sockets: 2, nodes_per_socket: 1, cores_per_node: 4, threads: 2 };

/// A machine with a socket on it and everything else that a daemon needs.
struct Node {
    tree: Tree,
    dir: tempfile::TempDir,
    place: Place,
    listener: UnixListener,
}

/// Killed when dropped.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Node {
    fn new(level: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("run")).unwrap();
        let config = format!(
            "version = 1\n[log]\nlevel = \"{level}\"\n[metrics]\nlisten = \"off\"\n[memory]\ndelivery = \"cpuset\"\n"
        );
        std::fs::write(dir.path().join("config.toml"), config).unwrap();
        let place = Place::new();
        let listener = place.listen();
        Self { tree: MACHINE.tree(), dir, place, listener }
    }

    /// `maitred nri`, at the end of `inside`'s words.
    fn command(&self, inside: &[&str]) -> Command {
        let mut words = inside.iter().copied().chain([env!("CARGO_BIN_EXE_maitred")]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).args(["nri", "--socket"]).arg(&self.place.path);
        command.arg("--sysroot").arg(self.tree.path());
        command.arg("--config").arg(self.dir.path().join("config.toml"));
        command.arg("--store").arg(self.dir.path().join("run/maitred"));
        command
    }

    fn start(&self, stderr: Stdio) -> Daemon {
        Daemon(self.command(&[]).stderr(stderr).spawn().unwrap())
    }

    /// The connection of the next daemon, told of these pods and containers.
    async fn registered(&self, pods: Vec<PodSandbox>, containers: Vec<Container>) -> FakeRuntime {
        let runtime = FakeRuntime::over(self.listener.accept().await.unwrap().0).await;
        runtime.configure("v2.1.9").await.unwrap();
        let everything = SynchronizeRequest { pods, containers, ..Default::default() };
        runtime.plugin.synchronize(patience(), &everything).await.unwrap();
        runtime
    }
}

/// Four whole CPUs in a pod of that name.
fn four(name: &str) -> (PodSandbox, Container) {
    let mut one = container(name);
    one.pod_sandbox_id = format!("sandbox-{name}");
    one.linux.as_mut().unwrap().cgroups_path = format!("/kubepods/poduid-{name}/{name}");
    (guaranteed_pod(name), one)
}

/// Makes it; as the runtime has it then, with its CPUs.
async fn made(runtime: &FakeRuntime, name: &str) -> (Container, CpuSet) {
    let (pod, asked) = four(name);
    let adjust = runtime.create(pod, asked.clone()).await.unwrap().adjust.unwrap();
    let mut made = asked;
    made.state = EnumOrUnknown::new(proto::ContainerState::CONTAINER_RUNNING);
    made.annotations.insert(RECORD_ANNOTATION.into(), adjust.annotations[RECORD_ANNOTATION].clone());
    let cpu = made.linux.as_mut().unwrap().resources.as_mut().unwrap().cpu.as_mut().unwrap();
    cpu.cpus = adjust.linux.resources.cpu.cpus.clone();
    (made, adjust.linux.resources.cpu.cpus.parse().unwrap())
}

/// Makes as many as the node takes and asks for many more; each is answered, and by a decision.
async fn many_are_answered(runtime: &FakeRuntime, count: usize) {
    for number in 0..count {
        let (pod, asked) = four(&number.to_string());
        if let Err(error) = runtime.create(pod, asked).await {
            assert!(error.to_string().contains("TopologyAffinityError"), "container {number}: {error}");
        }
    }
}

/// A link among containerd's plugins that is made while the unit runs. By its status the unit knows that it is not to start
/// it again.
#[test]
fn one_that_a_runtime_has_launched_takes_the_place_of_another() {
    runtime_side(async {
        let node = Node::new("info");
        let mut first = node.start(Stdio::null());
        node.registered(vec![], vec![]).await;
        let (theirs, ours) = std::os::unix::net::UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut command = node.command(&["sh", "-c", "exec \"$@\" 3<&0", "sh"]);
        command.env("NRI_PLUGIN_SOCKET", "3").stdin(Stdio::from(std::os::fd::OwnedFd::from(ours)));
        let mut second = Daemon(command.stderr(Stdio::null()).spawn().unwrap());
        let runtime = FakeRuntime::over(tokio::net::UnixStream::from_std(theirs).unwrap()).await;
        assert_eq!(first.0.wait().unwrap().code(), Some(4));
        runtime.configure("v2.1.9").await.unwrap();
        assert!(second.0.try_wait().unwrap().is_none());
    });
}

#[test]
fn who_does_not_read_the_log_holds_up_no_answer() {
    runtime_side(async {
        let node = Node::new("trace");
        let mut daemon = node.start(Stdio::piped());
        let runtime = node.registered(vec![], vec![]).await;

        // Far more than a pipe and the queue before it hold.
        many_are_answered(&runtime, 1500).await;

        let log = BufReader::new(daemon.0.stderr.take().unwrap());
        let lost = "lines of this log are lost: whoever reads it was stuck";
        let told = tokio::task::spawn_blocking(move || log.lines().any(|line| line.unwrap().contains(lost)));
        // It is told with the lines that follow.
        let telling = async {
            loop {
                many_are_answered(&runtime, 1).await;
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            told = told => assert!(told.unwrap(), "the daemon has ended"),
            () = telling => {}
        }
    });
}

#[test]
fn a_full_disk_for_the_log_ends_nothing() {
    runtime_side(async {
        let node = Node::new("trace");
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut daemon = node.start(full.into());
        let runtime = node.registered(vec![], vec![]).await;
        many_are_answered(&runtime, 50).await;
        assert!(daemon.0.try_wait().unwrap().is_none());
    });
}

#[test]
fn a_second_daemon_ends_at_once_and_names_the_first() {
    runtime_side(async {
        let node = Node::new("info");
        let first = node.start(Stdio::null());
        let runtime = node.registered(vec![], vec![]).await;
        let mut second = node.command(&[]);
        let ended = tokio::task::spawn_blocking(move || second.output().unwrap()).await.unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(3), "{said}");
        assert!(said.contains("another maitred daemon holds"), "{said}");
        assert!(said.contains(&format!("(pid {})", first.0.id())), "{said}");
        made(&runtime, "still-served").await;
    });
}

#[test]
fn a_killed_daemon_leaves_nothing_to_be_given_twice() {
    runtime_side(async {
        let node = Node::new("info");
        let daemon = node.start(Stdio::null());
        let runtime = node.registered(vec![], vec![]).await;
        let (running, of_running) = made(&runtime, "running").await;
        drop((daemon, runtime));

        let _next = node.start(Stdio::null());
        let runtime = node.registered(vec![four("running").0], vec![running]).await;
        let (_, next) = made(&runtime, "next").await;
        assert!(next.is_disjoint(&of_running), "{next} and {of_running}");
        let (_, third) = made(&runtime, "third").await;
        assert!(third.is_disjoint(&of_running.union(&next)), "{third}");
    });
}

#[test]
fn a_run_that_becomes_read_only_is_told_and_placing_goes_on() {
    runtime_side(async {
        let node = Node::new("info");
        let run = node.dir.path().join("run");
        let bind = format!("mount --bind {0} {0} && exec \"$@\"", run.display());
        let inside = ["unshare", "--mount", "sh", "-c", &bind, "sh"];
        let mut daemon = Daemon(node.command(&inside).stderr(Stdio::piped()).spawn().unwrap());
        let accepted = tokio::time::timeout(std::time::Duration::from_secs(10), node.listener.accept()).await;
        let Ok(Ok((stream, _))) = accepted else {
            eprintln!("skipped: no mounts are permitted here");
            return;
        };
        let runtime = FakeRuntime::welcome(stream).await;
        let (_, before) = made(&runtime, "before").await;
        // On top: what the daemon has open for writing keeps the mount below from becoming so.
        let remount = format!("mount --bind {0} {0} && mount -o remount,bind,ro {0}", run.display());
        let pid = daemon.0.id().to_string();
        let status =
            Command::new("nsenter").args(["--target", &pid, "--mount", "sh", "-c", &remount]).status();
        assert!(status.unwrap().success());

        let (_, after) = made(&runtime, "after").await;

        assert!(after.is_disjoint(&before));
        let log = BufReader::new(daemon.0.stderr.take().unwrap());
        let told = move || log.lines().any(|line| line.unwrap().contains("going on in memory"));
        assert!(tokio::task::spawn_blocking(told).await.unwrap());
    });
}
