//! Exact requests through a real socket: a small podresources server in this process, as the kubelet's behaves.

use bytes::{BufMut, Bytes, BytesMut};
use maitred::discover::kubelet::proto::{
    ContainerDevices, ContainerResources, GetPodResourcesRequest, GetPodResourcesResponse,
    ListPodResourcesResponse, NUMANode, PodResources, TopologyInfo,
};
use maitred::discover::{Kubelet, PodName, Root};
use maitred::model::{AllotmentSource, PodAllotment, PodUid};
use protobuf::{Message, MessageField};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::UnixListener;

const BUDGET: Duration = Duration::from_millis(200);
const SOCKET: &str = "var/lib/kubelet/pod-resources/kubelet.sock";
const CHECKPOINT: &str = "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";

/// How the kubelet takes `Get`.
#[derive(Clone, Copy, PartialEq)]
enum Get {
    Answers,
    /// Before 1.27.
    IsUnknown,
    /// From 1.27 until it became the default.
    IsSwitchedOff,
    /// It hangs.
    NeverAnswers,
}

struct Answers {
    get: Get,
    pods: Vec<PodResources>,
    asked: Mutex<Vec<String>>,
}

/// A served machine: a directory with a socket in it, and what was asked there.
struct Node {
    dir: tempfile::TempDir,
    answers: Arc<Answers>,
    kubelet: Kubelet,
}

fn pod(name: &str, gpu: &str, node: i64) -> PodResources {
    let nodes = vec![NUMANode { ID: node, ..Default::default() }];
    let devices = ContainerDevices {
        resource_name: "nvidia.com/gpu".into(),
        device_ids: vec![gpu.into()],
        topology: MessageField::some(TopologyInfo { nodes, ..Default::default() }),
        ..Default::default()
    };
    let main = ContainerResources {
        name: "main".into(),
        devices: vec![devices],
        cpu_ids: vec![2, 3],
        ..Default::default()
    };
    PodResources { name: name.into(), namespace: "ns".into(), containers: vec![main], ..Default::default() }
}

impl Node {
    fn without_kubelet() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for path in ["sys", "var/lib/kubelet/pod-resources", "var/lib/kubelet/device-plugins"] {
            std::fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        let kubelet = Kubelet::new(Root::open(dir.path()).unwrap(), BUDGET);
        let answers = Answers { get: Get::Answers, pods: Vec::new(), asked: Mutex::default() };
        Self { dir, answers: Arc::new(answers), kubelet }
    }

    fn serve(&mut self, get: Get, pods: Vec<PodResources>) {
        self.answers = Arc::new(Answers { get, pods, asked: Mutex::default() });
        let (path, answers) = (self.dir.path().join(SOCKET), Arc::clone(&self.answers));
        // Bound before anybody asks; the thread serves for as long as the tests run.
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        std::thread::spawn(move || {
            let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            reactor.block_on(async { serve(UnixListener::from_std(listener).unwrap(), answers).await });
        });
    }

    fn with(get: Get, pods: Vec<PodResources>) -> Self {
        let mut node = Self::without_kubelet();
        node.serve(get, pods);
        node
    }

    /// A checkpoint that gives a GPU to the containers `init` and `main` of the pod with that UID.
    fn checkpoint(&self, uid: &str, gpu: &str) {
        let entry = |container: &str| {
            format!(
                r#"{{"PodUID":"{uid}","ContainerName":"{container}","ResourceName":"nvidia.com/gpu","DeviceIDs":{{"1":["{gpu}"]}}}}"#
            )
        };
        let text = format!(
            r#"{{"Data":{{"PodDeviceEntries":[{},{}]}},"Checksum":1}}"#,
            entry("init"),
            entry("main")
        );
        std::fs::write(self.dir.path().join(CHECKPOINT), text).unwrap();
    }

    fn pod(&self, uid: &str, name: &str) -> Option<PodAllotment> {
        self.kubelet.pod(PodName { uid: &uid.into(), namespace: "ns", name })
    }

    fn asked(&self) -> Vec<String> {
        self.answers.asked.lock().unwrap().clone()
    }
}

async fn serve(listener: UnixListener, answers: Arc<Answers>) {
    while let Ok((stream, _)) = listener.accept().await {
        let answers = Arc::clone(&answers);
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::spawn(answer(request, respond, Arc::clone(&answers)));
            }
        });
    }
}

async fn answer(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    answers: Arc<Answers>,
) {
    let method = request.uri().path().rsplit('/').next().unwrap().to_owned();
    assert_eq!(request.uri().path(), format!("/v1.PodResourcesLister/{method}"));
    let mut body = request.into_body();
    let mut message = BytesMut::new();
    while let Some(chunk) = body.data().await {
        message.extend_from_slice(&chunk.unwrap());
    }
    answers.asked.lock().unwrap().push(method.clone());
    let answered = match (method.as_str(), answers.get) {
        ("List", _) => {
            let all = ListPodResourcesResponse { pod_resources: answers.pods.clone(), ..Default::default() };
            Ok(all.write_to_bytes().unwrap())
        }
        (_, Get::Answers) => one(&message[5..], &answers.pods),
        (_, Get::IsUnknown) => Err((12, "unknown method Get for service v1.PodResourcesLister")),
        (_, Get::IsSwitchedOff) => Err((2, "PodResources API Get method disabled")),
        (_, Get::NeverAnswers) => std::future::pending().await,
    };
    let head = http::Response::builder().header("content-type", "application/grpc");
    let (code, text) = match answered {
        Ok(bytes) => {
            let mut sent = respond.send_response(head.body(()).unwrap(), false).unwrap();
            let mut framed = BytesMut::new();
            framed.put_u8(0);
            framed.put_u32(bytes.len() as u32);
            framed.extend_from_slice(&bytes);
            sent.send_data(framed.freeze(), false).unwrap();
            let mut trailers = http::HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().unwrap());
            return sent.send_trailers(trailers).unwrap();
        }
        Err(refusal) => refusal,
    };
    let refusal = head.header("grpc-status", code).header("grpc-message", text);
    respond.send_response(refusal.body(()).unwrap(), true).unwrap();
}

fn one(message: &[u8], pods: &[PodResources]) -> Result<Vec<u8>, (u32, &'static str)> {
    let wanted = GetPodResourcesRequest::parse_from_bytes(message).unwrap();
    let found = pods.iter().find(|pod| pod.name == wanted.pod_name && pod.namespace == wanted.pod_namespace);
    let found = found.cloned().ok_or((5, "pod is not there"))?;
    let answer = GetPodResourcesResponse { pod_resources: MessageField::some(found), ..Default::default() };
    Ok(answer.write_to_bytes().unwrap())
}

/// The only device of a container and its node.
fn gpu(allotment: &PodAllotment, container: &str) -> (String, String) {
    let devices = &allotment.containers[&container.into()].devices[&"nvidia.com/gpu".into()];
    let (id, nodes) = devices.first_key_value().unwrap();
    (id.clone(), nodes.as_ref().map(ToString::to_string).unwrap_or_default())
}

fn is(id: &str, node: &str) -> (String, String) {
    (id.to_owned(), node.to_owned())
}

#[test]
fn one_pod_is_asked_for_by_its_name() {
    let node = Node::with(Get::Answers, vec![pod("other", "GPU-b", 0), pod("vllm", "GPU-a::1", 1)]);
    let told = node.pod("u-1", "vllm").unwrap();
    assert_eq!((told.source, gpu(&told, "main")), (AllotmentSource::PodResources, is("GPU-a::1", "1")));
    assert_eq!(told.containers[&"main".into()].cpus.as_ref().unwrap().to_string(), "2-3");
    assert_eq!(node.asked(), ["Get"]);
    assert_eq!(node.pod("u-2", "unheard-of"), None, "nobody tells");
}

#[test]
fn an_older_kubelet_lists_and_is_not_asked_twice() {
    for get in [Get::IsUnknown, Get::IsSwitchedOff] {
        let node = Node::with(get, vec![pod("vllm", "GPU-a", 1), pod("other", "GPU-b", 0)]);
        assert_eq!(gpu(&node.pod("u-1", "vllm").unwrap(), "main"), is("GPU-a", "1"));
        assert_eq!(gpu(&node.pod("u-2", "other").unwrap(), "main"), is("GPU-b", "0"));
        assert_eq!(node.asked(), ["Get", "List", "List"]);
    }
}

#[test]
fn a_kubelet_that_hangs_costs_the_budget_and_the_checkpoint_speaks() {
    let node = Node::with(Get::NeverAnswers, Vec::new());
    node.checkpoint("u-1", "GPU-c");
    let started = Instant::now();
    let told = node.pod("u-1", "vllm").unwrap();
    let took = started.elapsed();
    assert!(took >= BUDGET && took < BUDGET * 10, "{took:?}");
    assert_eq!((told.source, gpu(&told, "main")), (AllotmentSource::Checkpoint, is("GPU-c", "1")));
}

#[test]
fn the_checkpoint_tells_of_init_containers_and_knows_who_has_nothing() {
    let node = Node::without_kubelet();
    assert_eq!(node.pod("u-1", "vllm"), None);
    node.checkpoint("u-1", "GPU-c");
    let told = node.pod("u-1", "vllm").unwrap();
    assert_eq!((gpu(&told, "init"), told.containers.len()), (is("GPU-c", "1"), 2));
    assert_eq!(told.containers[&"main".into()].cpus, None, "no CPU Manager state");
    assert!(node.pod("u-2", "other").unwrap().containers.is_empty(), "given nothing is known, not unknown");
    let state = r#"{"policyName":"static","defaultCpuSet":"0","entries":{"u-1":{"main":"4-5","side":"6"}}}"#;
    std::fs::write(node.dir.path().join("var/lib/kubelet/cpu_manager_state"), state).unwrap();
    let told = node.pod("u-1", "vllm").unwrap();
    let cpus = |name: &str| told.containers[&name.into()].cpus.as_ref().unwrap().to_string();
    assert_eq!((cpus("main"), cpus("side"), cpus("init")), ("4-5".into(), "6".into(), String::new()));
}

#[test]
fn a_socket_that_appears_is_used() {
    let mut node = Node::without_kubelet();
    node.checkpoint("u-1", "GPU-c");
    assert_eq!(node.pod("u-1", "vllm").unwrap().source, AllotmentSource::Checkpoint);
    node.serve(Get::Answers, vec![pod("vllm", "GPU-a", 0)]);
    assert_eq!(node.pod("u-1", "vllm").unwrap().source, AllotmentSource::PodResources);
}

/// A terminated pod is still listed beside the one that took its name; neither has a UID.
#[test]
fn of_two_pods_of_one_name_the_checkpoint_tells_which() {
    let node = Node::with(Get::IsUnknown, vec![pod("db-0", "GPU-a", 0), pod("db-0", "GPU-b", 1)]);
    assert_eq!(node.pod("u-2", "db-0"), None, "a guess is worse than nothing");
    node.checkpoint("u-2", "GPU-b");
    assert_eq!(gpu(&node.pod("u-2", "db-0").unwrap(), "main"), is("GPU-b", "1"));
}

#[test]
fn many_pods_are_one_question() {
    let node = Node::with(Get::Answers, vec![pod("a", "GPU-a", 0), pod("b", "GPU-b", 1)]);
    let uids: Vec<PodUid> = ["u-a", "u-b", "u-c"].map(PodUid::from).to_vec();
    let names: Vec<_> =
        uids.iter().zip(["a", "b", "c"]).map(|(uid, name)| PodName { uid, namespace: "ns", name }).collect();
    let told = node.kubelet.pods(&names);
    assert_eq!((told.len(), gpu(&told[&uids[1]], "main")), (2, is("GPU-b", "1")));
    assert_eq!(node.asked(), ["List"]);
}

#[test]
fn whoever_else_listens_there_is_no_kubelet() {
    let node = Node::without_kubelet();
    node.checkpoint("u-1", "GPU-c");
    let listener = std::os::unix::net::UnixListener::bind(node.dir.path().join(SOCKET)).unwrap();
    let talker = std::thread::spawn(move || {
        use std::io::Write;
        let _ = listener.accept().unwrap().0.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    assert_eq!(node.pod("u-1", "vllm").unwrap().source, AllotmentSource::Checkpoint);
    talker.join().unwrap();
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |per_cent: usize| times[(times.len() - 1) * per_cent / 100];
    println!("{what}: p50 {:?}, p99 {:?}, most {:?} of {}", at(50), at(99), at(100), times.len());
}

fn timed(count: usize, mut work: impl FnMut()) -> Vec<Duration> {
    let one = |_| {
        let started = Instant::now();
        work();
        started.elapsed()
    };
    (0..count).map(one).collect()
}

/// What a decision waits for. Run with
/// `cargo test --release --test suite measure_podresources -- --ignored --nocapture --test-threads 1`.
#[test]
#[ignore = "a measurement"]
fn measure_podresources() {
    let pods: Vec<_> = (0..110).map(|n| pod(&format!("pod-{n}"), &format!("GPU-{n}"), n % 8)).collect();
    for (what, get) in [("Get of one of 110 pods", Get::Answers), ("List of 110 pods", Get::IsUnknown)] {
        let node = Node::with(get, pods.clone());
        print(what, timed(1000, || assert!(node.pod("u-1", "pod-77").is_some())));
    }
    let node = Node::without_kubelet();
    let entry = |n: usize| {
        format!(
            r#"{{"PodUID":"u-{n}","ContainerName":"c","ResourceName":"r","DeviceIDs":{{"0":["d"]}},"AllocResp":"{}"}}"#,
            "x".repeat(600)
        )
    };
    let entries: Vec<_> = (0..110).map(entry).collect();
    write(
        &node.dir.path().join(CHECKPOINT),
        &format!(r#"{{"Data":{{"PodDeviceEntries":[{}]}}}}"#, entries.join(",")),
    );
    print("checkpoint of 110 pods", timed(1000, || assert!(node.pod("u-1", "pod-1").is_some())));
}

fn write(path: &Path, text: &str) {
    std::fs::write(PathBuf::from(path), text).unwrap();
}
