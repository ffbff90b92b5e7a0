use super::*;
use crate::decision::Decision;
use crate::decision::testing::limits;

fn four(pod: &PodFacts) -> ContainerFacts {
    let container = whole(&pod.name, 4);
    ContainerFacts { sandbox: pod.id.clone(), state: ContainerState::Running, ..container }
}

fn gone(cgroups: &Fake, paths: &[&str]) {
    lock(&cgroups.gone).extend(paths.iter().map(|path| (*path).to_owned()));
}

fn held(seating: &Seating) -> usize {
    seating.current.as_ref().unwrap().state.ledger().iter().count()
}

/// containerd tells of no end of pods that it found when it started.
#[test]
fn pods_that_ended_without_a_word_hold_nobody_up() {
    let Rig { cgroups, mut seating, .. } = rig();
    seating.configure(&host("")).unwrap();
    let pods = ["old", "other", "kata"].map(pod);
    let [old, other, kata] = &pods;
    let gone = |path: &str| gone(&cgroups, &[path]);
    gone(&kata.cgroups_path);
    for (name, cpus) in [("old", "4-7"), ("other", "8-11"), ("kata", "12-15")] {
        cgroups.set(&format!("/kubepods/pod/{name}"), cpus);
    }
    seating.handle(everything(pods.to_vec(), pods.iter().map(four).collect()));
    assert_eq!(held(&seating), 3);

    // A sandbox dies and its container runs on; a container ends and its pod lives.
    gone(&old.cgroups_path);
    gone("/kubepods/pod/other");
    let early = seating.handle(Event::Create(pod("early"), whole("early", 4)));
    assert!(matches!(early.reply, Reply::Refuse(_)), "{early:?}");

    gone("/kubepods/pod/old");
    let next = seating.handle(Event::Create(pod("next"), whole("next", 4)));
    assert_eq!((&next.verdicts[0].pod, next.verdicts[0].decision), (&old.name, Decision::Released));
    assert_eq!(edit(next).cpus.unwrap().to_string(), "4-7");

    // Before a pod begins nobody need be refused first.
    gone(&other.cgroup_parent);
    gone("/kubepods/pod/kata");
    let later = seating.handle(Event::RunPod(pod("later")));
    assert_eq!(later.verdicts[0].pod, other.name);
    assert_eq!(held(&seating), 2, "a sandbox whose cgroup was never seen has not ended: {later:?}");
}

/// The runtime lists what lives, and a pod can end before its cgroups are looked at, whatever its containers had come
/// to. Where we do not see the cgroup of the pod that asks either, we may be looking in the wrong place.
#[test]
fn a_pod_that_ends_after_it_was_listed_is_found_out_beside_a_living_one() {
    let Rig { cgroups, mut seating, .. } = rig();
    seating.configure(&host("")).unwrap();
    let [running, created, hidden, kept] = ["running", "created", "hidden", "kept"].map(pod);
    let elsewhere = PodFacts { cgroup_parent: "/machine".into(), ..pod("elsewhere") };
    for (pod, cpus) in [(&running, "4-5"), (&created, "6-7"), (&hidden, "8-11"), (&elsewhere, "0-15")] {
        gone(&cgroups, &[&pod.cgroups_path, &pod.cgroup_parent]);
        cgroups.set(&format!("/kubepods/pod/{}", pod.name), cpus);
    }
    cgroups.set("/kubepods/pod/kept", "12-15");
    gone(&cgroups, &["/kubepods/pod/running", "/kubepods/pod/created", "/kubepods/pod/elsewhere"]);
    let two = |pod| ContainerFacts { resources: limits(2000, 1 << 30), ..four(pod) };
    let made = ContainerFacts { state: ContainerState::Created, ..two(&created) };
    let containers = vec![two(&running), made, four(&hidden), four(&kept), four(&elsewhere)];
    let pods = vec![running.clone(), created.clone(), hidden, kept, elsewhere.clone()];
    seating.handle(everything(pods, containers));
    assert_eq!(held(&seating), 4, "what the runtime says to live is believed at first");

    let unseen = pod("unseen");
    gone(&cgroups, &[&unseen.cgroup_parent]);
    // Not a cgroup that the kubelet makes for the pod: it is there whoever lives.
    let shared = PodFacts { cgroup_parent: "/kubepods".into(), ..pod("shared") };
    for asks in [&unseen, &shared] {
        seating.handle(Event::RunPod(asks.clone()));
        assert_eq!(held(&seating), 4, "{}", asks.name);
    }
    let refused = seating.handle(Event::Create(unseen, whole("unseen", 4)));
    assert!(matches!(refused.reply, Reply::Refuse(_)), "{refused:?}");
    assert_eq!(held(&seating), 4);

    let next = seating.handle(Event::Create(pod("next"), whole("next", 4)));
    let released: Vec<_> = next.verdicts[..2].iter().map(|one| (&one.pod, one.decision)).collect();
    assert_eq!(released, [(&created.name, Decision::Released), (&running.name, Decision::Released)]);
    assert_eq!(edit(next).cpus.unwrap().to_string(), "4-7");
    assert_eq!(held(&seating), 3);
    let state = &seating.current.as_ref().unwrap().state;
    assert!(state.knows_sandbox(&elsewhere.id), "nobody knows which cgroup it must have");
}

/// Its next sandbox is a life of its own.
#[test]
fn the_kubelet_is_asked_again_about_a_pod_that_ended_without_a_word() {
    let Rig { books, cgroups, mut seating, .. } = rig();
    seating.configure(&host("")).unwrap();
    let old = pod("old");
    seating.handle(everything(vec![old.clone()], vec![]));
    gone(&cgroups, &[&old.cgroups_path]);
    seating.handle(Event::RunPod(pod("other")));
    let next = PodFacts { id: "sandbox-next".into(), ..old };
    seating.handle(Event::Create(next.clone(), container("main")));
    seating.handle(Event::Create(next, ContainerFacts { id: "id-again".into(), ..container("main") }));
    assert_eq!(*lock(&books.0), ["old", "other", "old"]);
}

/// A create that was on its way when its pod ended is decided after the end has been found out, or after a registration
/// that left the pod out.
#[test]
fn a_pod_that_ended_and_was_brought_back_by_a_late_create_is_found_out_again() {
    let Rig { cgroups, mut seating, .. } = rig();
    seating.configure(&host("")).unwrap();
    let old = pod("old");
    let late = || Event::Create(old.clone(), ContainerFacts { sandbox: old.id.clone(), ..whole("late", 4) });
    cgroups.set("/kubepods/pod/old", "4-7");
    seating.handle(everything(vec![old.clone()], vec![four(&old)]));
    gone(&cgroups, &[&old.cgroups_path, &old.cgroup_parent, "/kubepods/pod/old", "/kubepods/pod/late"]);
    for name in ["one", "two", "registration"] {
        if name == "registration" {
            seating.handle(everything(vec![old.clone()], vec![]));
        }
        seating.handle(Event::RunPod(pod(name)));
        assert_eq!(held(&seating), 0, "before {name}");
        edit(seating.handle(late()));
        assert_eq!(held(&seating), 1);
        seating.handle(Event::RunPod(pod("between")));
        assert_eq!(held(&seating), 0, "after {name}");
    }

    // Nobody is moved for one that cannot start.
    edit(seating.handle(late()));
    let (living, dead) = (whole("living", 64), ContainerFacts { id: "id-more".into(), ..whole("more", 64) });
    let refused = seating.handle(Event::Create(old.clone(), dead));
    assert!(matches!(refused.reply, Reply::Refuse(_)), "{refused:?}");
    assert_eq!(held(&seating), 1);
    seating.handle(Event::Create(pod("living"), living));
    assert_eq!(held(&seating), 0);
}

/// A sandbox that was stopped while nobody listened is still in the list, and its seats are remembered.
#[test]
fn a_pod_that_ended_while_nobody_listened_gets_no_seat_back() {
    let Rig { cgroups, notes, mut seating, .. } = rig();
    seating.configure(&host("")).unwrap();
    let old = pod("old");
    let key = ContainerKey::new(old.uid.clone(), "old".into());
    let placement = Placement { cpus: "4-7".parse().unwrap(), ..Placement::default() };
    let record = Record::new(&key, &"id-old".into(), &placement);
    let kept = Kept { record, cgroups_path: None, pod_cgroup: None, stopped: true };
    notes.keep(&key, Some(&kept));

    seating.handle(everything(vec![old.clone()], vec![]));
    assert_eq!(held(&seating), 1, "its container may come back");
    lock(&cgroups.gone).push(old.cgroup_parent.clone());
    seating.handle(everything(vec![old], vec![]));
    assert_eq!(held(&seating), 0);
}

#[test]
fn the_late_word_of_an_attempt_that_has_ended_takes_nothing_from_the_next() {
    let Rig { cgroups, mut seating, .. } = rig();
    seating.configure(&host("")).unwrap();
    let pod = pod("a");
    seating.handle(everything(vec![pod.clone()], vec![]));
    let old = four(&pod);
    let made = edit(seating.handle(Event::Create(pod.clone(), old.clone())));
    seating.handle(Event::Stop(pod.clone(), old.clone()));
    let next =
        ContainerFacts { id: "id-next".into(), cgroups_path: "/kubepods/pod/next".into(), ..old.clone() };
    edit(seating.handle(Event::Create(pod.clone(), next.clone())));
    lock(&cgroups.gone).push(old.cgroups_path.clone());

    let mut late = old;
    late.resources.cpus = made.cpus.unwrap().to_string();
    late.annotations.insert(crate::ledger::RECORD_ANNOTATION.into(), made.record.unwrap());
    seating.handle(Event::Started(pod.clone(), late));

    let state = &seating.current.as_ref().unwrap().state;
    let key = ContainerKey::new(pod.uid, next.name);
    assert_eq!(state.ledger().get(&key).unwrap().id.as_ref(), Some(&next.id));
}
