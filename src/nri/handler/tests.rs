mod ended;
mod fakes;

use super::super::decider::{Answer, Decider};
use super::super::hints::Kept;
use super::super::proto::ConfigureRequest;
use super::*;
use crate::decision::Edit;
use crate::decision::testing::{container, machine, pod, settings, whole};
use crate::engine::Reserve;
use crate::ledger::Record;
use crate::model::{ContainerKey, PodFacts};
use fakes::{Books, Fake, Heard, Notes, Slots};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

struct Rig {
    books: Arc<Books>,
    slots: Arc<Slots>,
    cgroups: Arc<Fake>,
    notes: Arc<Notes>,
    heard: Arc<Heard>,
    off: Arc<AtomicBool>,
    readable: Arc<AtomicBool>,
    seating: Seating,
}

fn rig() -> Rig {
    rig_with(Arc::default())
}

fn rig_with(notes: Arc<Notes>) -> Rig {
    let (cgroups, off) = (Arc::new(Fake::default()), Arc::new(AtomicBool::new(false)));
    let readable = Arc::new(AtomicBool::new(true));
    let (switch, may) = (Arc::clone(&off), Arc::clone(&readable));
    let prepare = move |_: &Host| match may.load(Ordering::Relaxed) {
        false => Err("sys/devices/system/node is gone".into()),
        true => {
            let settings = settings();
            let state = State::new(Arc::new(machine()), &Reserve::default(), &settings.annotation_pool)?;
            Ok(Setup { state, settings })
        }
    };
    let (books, slots) = (Arc::new(Books::default()), Arc::new(Slots::default()));
    let heard = Arc::new(Heard::default());
    let around = Around {
        cgroups: Arc::clone(&cgroups) as _,
        hints: Arc::clone(&notes) as _,
        allotments: Arc::clone(&books) as _,
        devices: Arc::clone(&slots) as _,
        witness: Arc::clone(&heard) as _,
    };
    let seating = Seating::new(prepare, around, move || switch.load(Ordering::Relaxed));
    Rig { books, slots, cgroups, notes, heard, off, readable, seating }
}

fn host(nri: &str) -> Host {
    Host::new(ConfigureRequest { nri_version: nri.into(), ..Default::default() })
}

fn everything(pods: Vec<PodFacts>, containers: Vec<ContainerFacts>) -> Event {
    Event::Synchronize { pods, containers, observed: BTreeMap::new(), hints: Vec::new() }
}

fn edit(outcome: Outcome) -> Edit {
    match outcome.reply {
        Reply::Adjust(edit) => *edit,
        other => panic!("not adjusted: {other:?}"),
    }
}

#[test]
fn the_switch_counts_from_the_next_event_on() {
    let Rig { off, mut seating, .. } = rig();
    seating.configure(&host("")).unwrap();
    seating.handle(everything(vec![], vec![]));

    off.store(true, Ordering::Relaxed);
    let while_off = seating.handle(Event::Create(pod("a"), whole("a", 2)));
    off.store(false, Ordering::Relaxed);
    let while_on = seating.handle(Event::Create(pod("b"), whole("b", 2)));

    assert_eq!(while_off.reply, Reply::Nothing);
    assert_eq!(edit(while_on).cpus.unwrap().len(), 2);
}

#[test]
fn a_memory_policy_follows_the_hosts_version() {
    for (nri, takes_one) in [("0.8.0", false), ("0.12.0", true)] {
        let mut seating = rig().seating;
        seating.configure(&host(nri)).unwrap();
        seating.handle(everything(vec![], vec![]));

        let edit = edit(seating.handle(Event::Create(pod("a"), whole("a", 2))));

        assert_eq!(edit.memory_policy.is_some(), takes_one, "{nri}");
    }
}

#[test]
fn hidden_huge_pages_are_looked_for_before_the_decision() {
    let mut seating = rig().seating;
    seating.configure(&host("")).unwrap();
    seating.handle(everything(vec![], vec![]));
    let huge = PodFacts { cgroup_parent: "/kubepods/podhuge".into(), ..pod("a") };
    let mut facts = whole("a", 2);
    facts.mounts.push(MountFacts { source: "/huge".into(), destination: "/dev/hugepages".into() });

    let record = edit(seating.handle(Event::Create(huge, facts.clone()))).record.unwrap();
    assert!(record.contains(r#"{"nodes":"0","type":"hugepages-2Mi","bytes":4194304}"#), "{record}");
    let none = edit(seating.handle(Event::Create(pod("b"), ContainerFacts { id: "id-b".into(), ..facts })));
    assert!(!none.record.unwrap().contains("hugepages"));
}

#[test]
fn what_has_started_is_held_against_its_placement_unless_nothing_is_done() {
    let Rig { off, mut seating, .. } = rig();
    seating.configure(&host("")).unwrap();
    seating.handle(everything(vec![], vec![]));
    edit(seating.handle(Event::Create(pod("a"), whole("a", 2))));
    seating.handle(Event::Started(pod("a"), whole("a", 2)));
    assert_eq!(seating.started.len(), 1);
    seating.settle(Rest::default());
    assert_eq!(seating.started.len(), 0);
    // A shared container has no placement, and while maitred is off nothing is expected of anybody.
    seating.handle(Event::Started(pod("s"), container("s")));
    off.store(true, Ordering::Relaxed);
    seating.handle(Event::Started(pod("a"), whole("a", 2)));
    assert_eq!(seating.started.len(), 0);
}

#[test]
fn a_first_setup_must_work_and_a_later_one_may_fail() {
    let Rig { readable, mut seating, .. } = rig();
    readable.store(false, Ordering::Relaxed);
    assert_eq!(seating.configure(&host("")).unwrap_err().to_string(), "sys/devices/system/node is gone");

    readable.store(true, Ordering::Relaxed);
    seating.configure(&host("")).unwrap();
    readable.store(false, Ordering::Relaxed);
    seating.configure(&host("")).unwrap();

    seating.handle(everything(vec![], vec![]));
    edit(seating.handle(Event::Create(pod("a"), whole("a", 2))));
}

#[test]
fn synchronize_reads_the_cgroups_of_what_has_not_stopped() {
    let Rig { cgroups, mut seating, .. } = rig();
    seating.configure(&host("")).unwrap();
    let stopped = ContainerFacts { state: ContainerState::Stopped, ..container("stopped") };
    let odd = ContainerFacts { cgroups_path: "/unreadable".into(), ..container("odd") };

    seating.handle(everything(vec![pod("a")], vec![container("a"), stopped, odd]));

    assert_eq!(*lock(&cgroups.read), ["/kubepods/pod/a", "/unreadable"]);
}

#[test]
fn the_fallback_refuses_what_counts_on_us_and_nothing_else() {
    let Rig { off, mut seating, .. } = rig();
    let fallback = seating.fallback();
    let refused = |event: &Event| matches!(fallback.on_failure(event, "a test"), Reply::Refuse(_));
    let counts = Event::Create(pod("a"), whole("a", 2));
    assert!(!refused(&counts), "nothing is known of who is exempt");

    seating.configure(&host("")).unwrap();

    assert!(refused(&counts));
    assert!(!refused(&Event::Create(pod("a"), container("a"))), "no whole CPUs");
    let system = PodFacts { namespace: "kube-system".into(), ..pod("a") };
    assert!(!refused(&Event::Create(system, whole("a", 2))), "exempt");
    off.store(true, Ordering::Relaxed);
    assert!(!refused(&counts), "off");
}

fn on_reactor<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

const LONG: Duration = Duration::from_secs(5);

/// A shared container whose update the runtime lost: its cgroup still has the CPUs just given away.
#[test]
fn after_a_start_stale_cgroups_are_corrected() {
    let Rig { cgroups, seating, .. } = rig();
    on_reactor(async {
        let decider = Decider::spawn(seating, None).unwrap();
        decider.configure(host(""), LONG).await.unwrap();
        decider.ask(everything(vec![], vec![]), LONG).await.unwrap();
        let shared = container("shared");
        decider.ask(Event::Create(pod("s"), shared.clone()), LONG).await.unwrap();
        cgroups.set(&shared.cgroups_path, "0-15");

        let placed = whole("placed", 4);
        let Answer { updates, .. } =
            decider.ask(Event::Create(pod("p"), placed.clone()), LONG).await.unwrap();
        decider.ask(Event::Started(pod("p"), placed), LONG).await.unwrap();

        let wanted = updates[0].cpus.to_string();
        assert_ne!(wanted, "0-15");
        until(|| cgroups.cpus(&shared.cgroups_path) == wanted).await;
    });
}

/// Two shared containers on a node where a pod has just ended: the write that gives its CPUs back to the first of them
/// is under way and takes long, that to the second waits.
async fn while_a_write_is_under_way(cgroups: &Fake, seating: Seating) -> (Decider, [String; 2]) {
    let decider = Decider::spawn(seating, None).unwrap();
    decider.configure(host(""), LONG).await.unwrap();
    decider.ask(everything(vec![], vec![]), LONG).await.unwrap();
    let shared = ["one", "two"].map(container);
    for one in &shared {
        create(&decider, cgroups, one.clone()).await;
    }
    create(&decider, cgroups, whole("a", 4)).await;
    cgroups.slow.store(true, Ordering::Relaxed);
    decider.ask(Event::StopPod(pod("a")), LONG).await.unwrap();
    until(|| !lock(&cgroups.begun).is_empty()).await;
    (decider, shared.map(|one| one.cgroups_path))
}

/// Makes a container in a pod of its name; what the answer says of others the runtime carries out at once.
async fn create(decider: &Decider, cgroups: &Fake, container: ContainerFacts) {
    let event = Event::Create(pod(container.name.as_str()), container);
    let answer = decider.ask(event, LONG).await.unwrap();
    answer.updates.iter().for_each(|one| cgroups.set(&one.cgroups_path, &one.cpus.to_string()));
}

#[test]
fn no_late_write_undoes_what_an_answer_says() {
    let Rig { cgroups, seating, .. } = rig();
    on_reactor(async {
        let (decider, shared) = while_a_write_is_under_way(&cgroups, seating).await;
        create(&decider, &cgroups, whole("b", 2)).await;
        let wanted = cgroups.cpus(&shared[0]);
        cgroups.slow.store(false, Ordering::Relaxed);

        // The one that had begun cannot be taken back: it is made good.
        until(|| lock(&cgroups.begun).len() == 2).await;
        assert_eq!(*lock(&cgroups.begun), [&*shared[0], &*shared[0]], "the other was not to begin at all");
        until(|| shared.iter().all(|one| cgroups.cpus(one) == wanted)).await;
    });
}

/// It says what the next write says again; the runtime has carried out another answer in between.
#[test]
fn a_write_that_is_under_way_is_not_taken_for_the_next_one() {
    let Rig { cgroups, seating, .. } = rig();
    cgroups.done_first.store(true, Ordering::Relaxed);
    on_reactor(async {
        let (decider, shared) = while_a_write_is_under_way(&cgroups, seating).await;
        let wanted = cgroups.cpus(&shared[0]);
        create(&decider, &cgroups, whole("b", 2)).await;
        assert_ne!(cgroups.cpus(&shared[0]), wanted);
        decider.ask(Event::StopPod(pod("b")), LONG).await.unwrap();
        cgroups.slow.store(false, Ordering::Relaxed);
        until(|| shared.iter().all(|one| cgroups.cpus(one) == wanted)).await;
    });
}

/// What its answer would have said of others has taken the place of what was to be written.
#[test]
fn a_create_that_is_taken_back_has_all_cgroups_looked_at() {
    let mut seating = rig().seating;
    seating.configure(&host("")).unwrap();
    seating.handle(everything(vec![], vec![]));
    seating.handle(Event::Create(pod("a"), whole("a", 4)));
    seating.sweep = false;
    seating.handle(Event::Abandon(whole("a", 4).id));
    assert!(seating.sweep);
}

async fn until(done: impl Fn() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came about");
}

/// Four pages are free on node 0, whatever the node's total says.
#[test]
fn huge_pages_are_read_when_some_are_asked_for() {
    let mut seating = rig().seating;
    seating.configure(&host("")).unwrap();
    seating.handle(everything(vec![], vec![]));
    let asking = |name: &str, pages: u64| {
        let mut facts = whole(name, 1);
        facts.env = vec!["NVIDIA_VISIBLE_DEVICES=GPU-a".into()];
        facts.resources.hugepage_limits = vec![("2MB".into(), pages << 21)];
        facts
    };
    let first = seating.handle(Event::Create(pod("a"), asking("a", 3)));
    assert!(edit(first).mems.is_some());
    let second = seating.handle(Event::Create(pod("b"), asking("b", 2)));
    assert!(matches!(second.reply, Reply::Refuse(_)), "one page is left");
}

#[test]
fn a_pod_of_exclusive_containers_is_not_throttled_as_a_whole() {
    let Rig { cgroups, seating, .. } = rig();
    on_reactor(async {
        let decider = Decider::spawn(seating, None).unwrap();
        decider.configure(host(""), LONG).await.unwrap();
        decider.ask(everything(vec![], vec![]), LONG).await.unwrap();
        let whole = whole("a", 4);
        let all = PodFacts { resources: Some(whole.resources.clone()), ..pod("a") };
        decider.ask(Event::Create(all, whole), LONG).await.unwrap();
        until(|| *lock(&cgroups.unthrottled) == ["/kubepods/poduid-a"]).await;
    });
}

/// The container had stopped when maitred was killed: no runtime speaks of it, its seat is kept all the same.
#[test]
fn a_stopped_containers_seat_survives_the_daemon_but_not_its_pod() {
    let Rig { notes, seating, .. } = rig();
    on_reactor(async {
        let decider = Decider::spawn(seating, None).unwrap();
        decider.configure(host(""), LONG).await.unwrap();
        decider.ask(everything(vec![pod("a")], vec![]), LONG).await.unwrap();
        decider.ask(Event::Create(pod("a"), whole("a", 4)), LONG).await.unwrap();
        decider.ask(Event::Stop(pod("a"), whole("a", 4)), LONG).await.unwrap();
        until(|| !lock(&notes.0).is_empty()).await;
    });
    let held = notes.load()[0].placement().cpus.clone();

    let mut next = rig_with(Arc::clone(&notes)).seating;
    next.configure(&host("")).unwrap();
    next.handle(everything(vec![pod("a")], vec![]));
    let other = edit(next.handle(Event::Create(pod("b"), whole("b", 4)))).cpus.unwrap();
    assert!(other.is_disjoint(&held), "{other} and {held}");

    let Rig { notes, seating, .. } = rig_with(notes);
    on_reactor(async {
        let decider = Decider::spawn(seating, None).unwrap();
        decider.configure(host(""), LONG).await.unwrap();
        decider.ask(everything(vec![], vec![]), LONG).await.unwrap();
        until(|| lock(&notes.0).is_empty()).await;
    });
}

#[test]
fn the_kubelet_is_asked_once_about_a_pod() {
    let Rig { books, mut seating, .. } = rig();
    seating.configure(&host("")).unwrap();
    seating.handle(everything(vec![pod("old")], vec![]));
    seating.handle(Event::RunPod(pod("a")));
    seating.handle(Event::Create(pod("a"), container("main")));
    seating.handle(Event::Create(pod("old"), container("main")));
    assert_eq!(*lock(&books.0), ["old", "a"]);
}

#[test]
fn changed_devices_are_read_again_after_the_answer() {
    let Rig { slots, seating, .. } = rig();
    on_reactor(async {
        let decider = Decider::spawn(seating, None).unwrap();
        decider.configure(host(""), LONG).await.unwrap();
        decider.ask(everything(vec![], vec![]), LONG).await.unwrap();
        slots.changed.store(true, Ordering::Relaxed);
        decider.ask(Event::RunPod(pod("a")), LONG).await.unwrap();
        until(|| *lock(&slots.read) == 1).await;
        decider.ask(Event::RunPod(pod("b")), LONG).await.unwrap();
        assert_eq!(*lock(&slots.read), 1, "nothing has changed since");
    });
}

#[test]
fn whoever_watches_hears_of_each_verdict_after_the_answer() {
    let Rig { heard, mut seating, .. } = rig();
    seating.configure(&host("")).unwrap();
    seating.handle(everything(vec![], vec![]));
    assert_eq!(heard.take(), ["configured"]);
    let mut decide = |name: &str, cpus| {
        let outcome = seating.handle(Event::Create(pod(name), whole(name, cpus)));
        assert!(heard.take().is_empty(), "before the answer");
        seating.settle(Rest {
            verdicts: outcome.verdicts,
            took: Some(Duration::from_micros(40)),
            ..Rest::default()
        });
        heard.take()
    };
    assert_eq!(decide("a", 2), ["placed said Some(0) short None holders Some(1)", "decided", "1 hold"],);
    let refused = decide("wide", 64);
    assert!(refused[0].starts_with("rejected said Some(0) short Some("), "{refused:?}");
    assert_eq!(refused[1..], ["decided"], "nothing is held that was not before");
    let again = decide("wide", 64);
    assert!(again[0].starts_with("rejected said None short Some("), "{again:?}");
}
