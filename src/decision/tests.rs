//! The reducer as a runtime sees it. CPU 0 is reserved; what the machine is stands in `testing`.

use super::testing::{container, limits, machine, pod, settings, whole};
use super::*;
use crate::engine::Reserve;
use crate::ledger::{RECORD_ANNOTATION, Record};
use crate::model::*;
use std::collections::BTreeMap;
use std::sync::Arc;

mod adoption;
mod answers;

struct Node {
    state: State,
    settings: Settings,
}

impl Node {
    fn new() -> Self {
        Self::with(settings())
    }

    fn with(settings: Settings) -> Self {
        let reserve = Reserve { cpus: Some(settings.reserved.clone()), memory: BTreeMap::new() };
        let state = State::new(Arc::new(machine()), &reserve, &settings.annotation_pool).unwrap();
        Self { state, settings }
    }

    fn step(&mut self, event: Event) -> Outcome {
        step(&mut self.state, event, &self.settings)
    }

    fn create(&mut self, pod: &PodFacts, container: &ContainerFacts) -> Outcome {
        self.step(Event::Create(pod.clone(), container.clone()))
    }

    fn stop(&mut self, pod: &PodFacts, container: &ContainerFacts) -> Outcome {
        self.step(Event::Stop(pod.clone(), container.clone()))
    }

    fn held(&self) -> usize {
        self.state.ledger().iter().count()
    }
}

fn edit(outcome: &Outcome) -> &Edit {
    match &outcome.reply {
        Reply::Adjust(edit) => edit,
        other => panic!("no edit but {other:?}"),
    }
}

fn refusal(outcome: &Outcome) -> String {
    match &outcome.reply {
        Reply::Refuse(rejection) => rejection.to_string(),
        other => panic!("no refusal but {other:?}"),
    }
}

fn cpus(outcome: &Outcome) -> String {
    edit(outcome).cpus.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn updates(outcome: &Outcome) -> Vec<(String, String)> {
    outcome.updates.iter().map(|update| (update.id.to_string(), update.cpus.to_string())).collect()
}

fn line(id: &str, cpus: &str) -> (String, String) {
    (id.to_owned(), cpus.to_owned())
}

/// A container that asks for next to nothing, in a Burstable pod.
fn small(name: &str) -> (PodFacts, ContainerFacts) {
    let pod = PodFacts { cgroup_parent: format!("/kubepods/burstable/pod{name}"), ..pod(name) };
    let mut facts = ContainerFacts { resources: limits(100, 0), ..container(name) };
    facts.oom_score_adj = Some(900);
    (pod, facts)
}

fn on_gpu(mut facts: ContainerFacts, uuid: &str) -> ContainerFacts {
    facts.env.push(format!("NVIDIA_VISIBLE_DEVICES={uuid}"));
    facts
}

fn asking(name: &str, gpus: &str) -> PodFacts {
    let mut pod = pod(name);
    pod.annotations.insert("gpus.maitred.io".into(), gpus.into());
    pod
}

/// What the runtime gives back in Synchronize of a container it made by this edit.
fn made(mut facts: ContainerFacts, sandbox: &PodFacts, outcome: &Outcome) -> ContainerFacts {
    let edit = edit(outcome);
    facts.sandbox = sandbox.id.clone();
    facts.state = ContainerState::Running;
    facts.resources.cpus = edit.cpus.as_ref().map(ToString::to_string).unwrap_or_default();
    facts.resources.mems = edit.mems.as_ref().map(ToString::to_string).unwrap_or_default();
    if let Some(record) = &edit.record {
        facts.annotations.insert(RECORD_ANNOTATION.into(), record.clone());
    }
    for (name, value) in &edit.env {
        facts.env.push(format!("{name}={value}"));
    }
    facts
}

fn synchronize(pods: &[&PodFacts], containers: &[&ContainerFacts]) -> Event {
    let seen = |facts: &&ContainerFacts| {
        let all = || "0-15".parse().unwrap();
        let cpus: CpuSet = facts.resources.cpus.parse().unwrap();
        let cpus = if cpus.is_empty() { all() } else { cpus };
        (facts.id.clone(), Observed { cpus: Some(cpus), mems: None })
    };
    Event::Synchronize {
        pods: pods.iter().map(|pod| (*pod).clone()).collect(),
        containers: containers.iter().map(|facts| (*facts).clone()).collect(),
        observed: containers.iter().map(seen).collect(),
        hints: Vec::new(),
    }
}

#[test]
fn a_guaranteed_container_is_seated_whole() {
    let outcome = Node::new().create(&pod("a"), &on_gpu(whole("main", 4), "GPU-c"));
    let edit = edit(&outcome);
    assert_eq!(cpus(&outcome), "8-11");
    assert_eq!(edit.mems.as_ref().unwrap().to_string(), "2");
    assert!(edit.drop_quota && edit.record.is_some() && edit.env.is_empty());
    assert_eq!(outcome.verdicts[0].decision, Decision::Placed);
    assert_eq!(outcome.verdicts[0].request, "4 CPUs, 1Gi, nvidia.com/gpu GPU-c (claimed)");
}

#[test]
fn two_containers_never_share_a_cpu_and_the_fifth_is_refused() {
    let mut node = Node::new();
    let mut seen = CpuSet::new();
    for name in ["a", "b", "c"] {
        let outcome = node.create(&pod(name), &whole(name, 4));
        let got = edit(&outcome).cpus.clone().unwrap();
        assert!(seen.is_disjoint(&got) && got.len() == 4);
        seen = seen.union(&got);
    }
    let refused = node.create(&pod("d"), &whole("d", 4));
    let text = refusal(&refused);
    assert!(text.starts_with("TopologyAffinityError: container d: "), "{text}");
    assert!(text.contains("node 0 has 3 CPUs free"), "{text}");
    assert_eq!(node.held(), 3);
}

#[test]
fn shared_containers_lose_and_regain_what_is_given_away() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    assert_eq!(node.create(&small_pod, &small).reply, Reply::Nothing, "nothing is taken yet");
    let first = node.create(&pod("a"), &whole("a", 4));
    assert_eq!(cpus(&first), "4-7");
    assert_eq!(updates(&first), [line("id-s", "0-3,8-15")]);
    let (late_pod, late) = super::tests::small("late");
    assert_eq!(cpus(&node.create(&late_pod, &late)), "0-3,8-15");
    let lent = node.stop(&pod("a"), &whole("a", 4));
    assert_eq!(updates(&lent), [line("id-late", "0-15"), line("id-s", "0-15")]);
    let ended = node.step(Event::StopPod(pod("a")));
    assert!(ended.updates.is_empty() && ended.writes.is_empty(), "the CPUs were back already");
    assert_eq!(node.held(), 0);
}

#[test]
fn a_pods_own_quota_goes_with_its_last_shared_cpu() {
    let mut node = Node::new();
    let mut two = pod("a");
    two.resources = Some(limits(4000, 2 << 30));
    assert_eq!(node.create(&two, &whole("x", 2)).quotas, [] as [&str; 0]);
    assert_eq!(node.create(&two, &whole("y", 2)).quotas, ["/kubepods/poduid-a"]);
    let mut mixed = pod("b");
    mixed.resources = Some(limits(2500, 2 << 30));
    assert_eq!(node.create(&mixed, &whole("z", 2)).quotas, [] as [&str; 0]);
}

#[test]
fn lent_cpus_stay_closed_and_a_restart_gets_its_own_back() {
    let mut node = Node::new();
    let first = node.create(&pod("a"), &whole("a", 4));
    node.stop(&pod("a"), &whole("a", 4));
    let other = node.create(&pod("b"), &whole("b", 4));
    assert_ne!(cpus(&first), cpus(&other));
    let again = ContainerFacts { id: "id-a2".into(), ..whole("a", 4) };
    assert_eq!(cpus(&node.create(&pod("a"), &again)), cpus(&first));
}

#[test]
fn the_stop_of_an_old_attempt_takes_nothing_from_the_new_one() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    node.create(&small_pod, &small);
    node.create(&pod("a"), &whole("a", 4));
    let again = ContainerFacts { id: "id-a2".into(), ..whole("a", 4) };
    node.create(&pod("a"), &again);
    assert_eq!(node.stop(&pod("a"), &whole("a", 4)).updates, []);
    assert_eq!(updates(&node.stop(&pod("a"), &again)), [line("id-s", "0-15")]);
}

#[test]
fn the_old_sandbox_takes_nothing_from_the_new_one() {
    let mut node = Node::new();
    let old = pod("a");
    let new = PodFacts { id: "sandbox-a2".into(), ..pod("a") };
    node.step(Event::RunPod(old.clone()));
    node.step(Event::RunPod(new.clone()));
    node.create(&new, &whole("a", 4));
    node.step(Event::StopPod(old));
    assert_eq!(node.held(), 1);
    node.step(Event::StopPod(new));
    assert_eq!(node.held(), 0);
}

#[test]
fn gpus_by_annotation_are_chosen_and_written_by_uuid() {
    let mut node = Node::with(Settings { annotation_pool: AnnotationPool::All, ..settings() });
    let facts = on_gpu(whole("main", 2), "all");
    let first = node.create(&asking("a", "2"), &facts);
    assert_eq!(edit(&first).env, [("NVIDIA_VISIBLE_DEVICES".to_owned(), "GPU-a,GPU-b".to_owned())]);
    assert_eq!(cpus(&first), "2-3");
    let second = node.create(&asking("b", "2"), &facts);
    assert_eq!(edit(&second).env[0].1, "GPU-c,GPU-d");
    let third = node.create(&asking("c", "1"), &facts);
    assert!(refusal(&third).contains("GPU"), "{}", refusal(&third));
}

#[test]
fn a_pool_of_some_gpus_is_all_an_annotation_can_reach() {
    let pool = AnnotationPool::Only(["GPU-d".into()].into());
    let mut node = Node::with(Settings { annotation_pool: pool, ..settings() });
    let outcome = node.create(&asking("a", "all"), &whole("main", 2));
    assert_eq!(edit(&outcome).env[0].1, "GPU-d");
    assert!(cpus(&outcome).starts_with('8'), "{}", cpus(&outcome));
}

#[test]
fn a_name_in_the_environment_takes_no_gpu_from_another_pod() {
    for pool in [AnnotationPool::All, AnnotationPool::Only(["GPU-a".into()].into())] {
        let mut node = Node::with(Settings { annotation_pool: pool, ..settings() });
        assert_eq!(edit(&node.create(&asking("a", "1"), &whole("a", 1))).env[0].1, "GPU-a");
        // By UUID, by index, as a replica: all the same GPU.
        for name in ["GPU-a", "0", "GPU-a::1"] {
            let thief = node.create(&pod("b"), &on_gpu(whole("b", 1), name));
            assert!(refusal(&thief).contains("GPU-a, which was given to uid-a/a"), "{}", refusal(&thief));
        }
        let exporter = ContainerFacts { id: "id-x".into(), name: "x".into(), ..whole("x", 1) };
        let beside = node.create(&asking("a", "0"), &on_gpu(exporter, "GPU-a"));
        assert!(matches!(beside.reply, Reply::Adjust(_)), "a pod's own containers may share: {beside:?}");
        let other = node.create(&pod("c"), &on_gpu(whole("c", 1), "GPU-b"));
        assert!(matches!(other.reply, Reply::Adjust(_)), "{other:?}");
    }
}

#[test]
fn every_gpu_by_an_images_env_is_said_and_left() {
    let mut node = Node::new();
    let (pod, facts) = small("s");
    let outcome = node.create(&pod, &on_gpu(facts, "all"));
    assert_eq!(outcome.reply, Reply::Nothing);
    assert!(outcome.verdicts[0].warn && outcome.verdicts[0].reason.contains("every GPU"));
}

#[test]
fn a_gpu_nobody_knows_is_not_aligned() {
    let outcome = Node::new().create(&pod("a"), &on_gpu(whole("main", 2), "GPU-gone"));
    assert!(refusal(&outcome).contains("GPU-gone"), "{}", refusal(&outcome));
}

#[test]
fn the_exempt_start_on_a_full_node_and_it_is_said() {
    let mut node = Node::new();
    for name in ["a", "b", "c"] {
        node.create(&pod(name), &whole(name, 4));
    }
    let system = PodFacts { namespace: "kube-system".into(), ..pod("sys") };
    let outcome = node.create(&system, &whole("sys", 4));
    assert_eq!(cpus(&outcome), "0-3");
    assert_eq!(outcome.verdicts[0].decision, Decision::Exempt);
    assert!(outcome.verdicts[0].reason.contains("would have been refused: TopologyAffinityError"));
    let mut broken = system;
    broken.annotations.insert("policy.maitred.io".into(), "strict".into());
    assert_eq!(cpus(&node.create(&broken, &container("sys2"))), "0-3");
}

#[test]
fn a_malformed_annotation_refuses_that_pod_only() {
    let mut node = Node::new();
    let mut bad = pod("a");
    bad.annotations.insert("gpus.maitred.io".into(), "two".into());
    let outcome = node.create(&bad, &whole("main", 2));
    assert!(refusal(&outcome).starts_with(
        "InvalidRequestError: container main: annotation \"gpus.maitred.io\" is \"two\": expected a number"
    ));
    assert_eq!(cpus(&node.create(&pod("b"), &whole("main", 4))), "4-7");
}

#[test]
fn a_record_nobody_but_us_can_have_written_is_refused() {
    let mut facts = whole("main", 2);
    facts.annotations.insert(RECORD_ANNOTATION.into(), "{}".into());
    assert!(refusal(&Node::new().create(&pod("a"), &facts)).contains("only maitred writes it"));
}

#[test]
fn audit_says_everything_and_changes_nothing() {
    let mut node = Node::with(Settings { mode: Mode::Audit, ..settings() });
    let (small_pod, small) = small("s");
    node.create(&small_pod, &small);
    for name in ["a", "b", "c", "d"] {
        let outcome = node.create(&pod(name), &whole(name, 4));
        assert!(outcome.reply == Reply::Nothing && outcome.updates.is_empty());
        assert!(outcome.verdicts[0].simulated);
        let wanted = if name == "d" { Decision::Rejected } else { Decision::Placed };
        assert_eq!(outcome.verdicts[0].decision, wanted);
    }
    assert_eq!(node.held(), 3, "the ledger is simulated");
}

#[test]
fn off_lets_everything_through_and_on_catches_up() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    node.settings.mode = Mode::Off;
    node.create(&small_pod, &small);
    let off = node.create(&pod("a"), &whole("a", 4));
    assert!(off.reply == Reply::Nothing && off.updates.is_empty() && node.held() == 0);
    node.settings.mode = Mode::Enforce;
    let on = node.create(&pod("b"), &whole("b", 4));
    assert_eq!(updates(&on), [line("id-a", "0-3,8-15"), line("id-s", "0-3,8-15")]);
}

#[test]
fn a_late_result_is_taken_back() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    node.create(&small_pod, &small);
    let lost = node.create(&pod("a"), &whole("a", 4));
    node.step(Event::Abandon("id-a".into()));
    assert_eq!(node.held(), 0);
    let next = node.create(&pod("b"), &whole("b", 4));
    assert_eq!(cpus(&next), cpus(&lost));
    assert_eq!(updates(&next), [line("id-s", "0-3,8-15")], "the lost reply's update is sent again");
}

#[test]
fn an_abandoned_restart_still_holds_its_seat() {
    let mut node = Node::new();
    node.create(&pod("a"), &whole("a", 4));
    node.stop(&pod("a"), &whole("a", 4));
    node.create(&pod("a"), &ContainerFacts { id: "id-a2".into(), ..whole("a", 4) });
    node.step(Event::Abandon("id-a2".into()));
    assert_eq!(node.held(), 1);
    assert_ne!(cpus(&node.create(&pod("b"), &whole("b", 4))), "4-7");
}

#[test]
fn an_update_cannot_undo_a_placement() {
    let mut node = Node::new();
    let first = node.create(&pod("a"), &whole("a", 4));
    let wide = Resources { cpus: "0-15".into(), mems: "0-3".into(), ..Resources::default() };
    let answer = node.step(Event::Update(pod("a"), whole("a", 4), wide));
    assert_eq!(cpus(&answer), cpus(&first));
    assert_eq!(edit(&answer).mems, edit(&first).mems);
    let throttled = node.step(Event::Update(pod("a"), whole("a", 4), limits(4000, 1 << 30)));
    assert!(edit(&throttled).drop_quota);
    let resize = node.step(Event::Update(pod("a"), whole("a", 4), limits(6000, 1 << 30)));
    assert!(refusal(&resize).contains("from 4000m to 6000m"), "{}", refusal(&resize));
    let grow = node.step(Event::Update(pod("a"), whole("a", 4), limits(4000, 2 << 30)));
    assert!(refusal(&grow).contains("memory from 1Gi to 2Gi"), "{}", refusal(&grow));
}

#[test]
fn the_cgroup_is_the_truth() {
    let mut node = Node::new();
    let (small_pod, small) = small("s");
    node.step(Event::RunPod(small_pod.clone()));
    node.create(&small_pod, &small);
    node.create(&pod("a"), &whole("a", 4));
    let see = |cpus: &str| {
        let seen = Observed { cpus: Some(cpus.parse().unwrap()), mems: None };
        Event::Observe(BTreeMap::from([("id-s".into(), seen)]))
    };
    let stale = node.step(see("0-15"));
    assert_eq!(stale.writes[0].cpus.to_string(), "0-3,8-15");
    assert_eq!(stale.verdicts[0].decision, Decision::Repaired);
    assert!(node.step(see("0-15")).writes.is_empty(), "it was tried and changed nothing");
    assert!(node.step(see("0-3,8-15")).writes.is_empty());
    assert_eq!(node.step(see("0-7")).writes.len(), 1);
    let unread = Event::Observe(BTreeMap::from([("id-s".into(), Observed::default())]));
    assert!(node.step(unread).writes.is_empty(), "unread is not empty");
}

#[test]
fn a_restarted_daemon_finds_everything_where_it_was() {
    let mut node = Node::with(Settings { annotation_pool: AnnotationPool::All, ..settings() });
    let (small_pod, small) = small("s");
    let pods = [asking("a", "2"), pod("b")];
    node.create(&small_pod, &small);
    let a = made(whole("a", 2), &pods[0], &node.create(&pods[0], &whole("a", 2)));
    let b = made(whole("b", 4), &pods[1], &node.create(&pods[1], &whole("b", 4)));
    let before: Vec<_> = node.state.ledger().iter().map(|(k, h)| (k.clone(), h.placement.clone())).collect();
    let mut s = small;
    s.sandbox = small_pod.id.clone();
    s.resources.cpus = node.state.ledger().shared_pool(&CpuOptions::default()).to_string();

    let mut fresh = Node::with(node.settings.clone());
    let outcome = fresh.step(synchronize(&[&small_pod, &pods[0], &pods[1]], &[&s, &a, &b]));

    assert_eq!(outcome.updates, [], "nothing changes for those that run");
    let after: Vec<_> = fresh.state.ledger().iter().map(|(k, h)| (k.clone(), h.placement.clone())).collect();
    assert_eq!(before, after);
    let third = fresh.create(&asking("c", "2"), &whole("c", 2));
    assert_eq!(edit(&third).env[0].1, "GPU-c,GPU-d", "its GPUs are known to be taken");
}

#[test]
fn what_started_unpinned_is_pinned_and_its_neighbours_make_room() {
    let mut node = Node::new();
    let (small_pod, mut small) = small("s");
    small.sandbox = small_pod.id.clone();
    let mut loose = on_gpu(whole("a", 4), "GPU-c");
    loose.sandbox = pod("a").id;
    let outcome = node.step(synchronize(&[&small_pod, &pod("a")], &[&small, &loose]));
    assert_eq!(updates(&outcome), [line("id-a", "8-11"), line("id-s", "0-7,12-15")]);
    assert!(outcome.updates.iter().all(|update| update.mems.is_none()), "mems of the running never change");
    assert_eq!(outcome.verdicts[0].decision, Decision::Repaired);
    assert_eq!(cpus(&node.create(&pod("b"), &whole("b", 4))), "4-7");
}

#[test]
fn what_cannot_be_pinned_any_more_is_named_and_runs_on() {
    let mut node = Node::new();
    let taken: Vec<_> = ["a", "b", "c"]
        .map(|name| made(whole(name, 4), &pod(name), &node.create(&pod(name), &whole(name, 4))))
        .into();
    let mut loose = whole("d", 4);
    loose.sandbox = pod("d").id;
    let pods = ["a", "b", "c", "d"].map(pod);
    let mut fresh = Node::new();
    let all: Vec<&ContainerFacts> = taken.iter().chain([&loose]).collect();
    let outcome = fresh.step(synchronize(&pods.iter().collect::<Vec<_>>(), &all));
    let line_of_d = outcome.verdicts.iter().find(|v| v.pod == "d").unwrap();
    assert!(line_of_d.warn && line_of_d.reason.contains("without a restart"), "{}", line_of_d.reason);
    assert_eq!(updates(&outcome), [line("id-d", "0-3")], "it leaves the others' CPUs");
}

#[test]
fn a_stopped_containers_seat_is_remembered_while_its_pod_lives() {
    let mut node = Node::new();
    let [first, gone] = ["a", "gone"].map(|name| node.create(&pod(name), &whole(name, 4)));
    let hint = |outcome: &Outcome| Record::parse(edit(outcome).record.as_ref().unwrap()).unwrap();
    let mut fresh = Node::new();
    let Event::Synchronize { pods, containers, observed, .. } = synchronize(&[&pod("a")], &[]) else {
        panic!()
    };
    let hints = vec![hint(&first), hint(&gone)];
    fresh.step(Event::Synchronize { pods, containers, observed, hints });
    assert_eq!(fresh.held(), 1, "the other's pod has ended");
    assert_ne!(cpus(&fresh.create(&pod("b"), &whole("b", 4))), cpus(&first));
    let again = ContainerFacts { id: "id-a2".into(), ..whole("a", 4) };
    assert_eq!(cpus(&fresh.create(&pod("a"), &again)), cpus(&first));
}

#[test]
fn a_record_that_does_not_hold_up_counts_for_nothing() {
    let mut node = Node::new();
    let outcome = node.create(&pod("a"), &whole("a", 4));
    let honest = made(whole("a", 4), &pod("a"), &outcome);
    let record = honest.annotations[RECORD_ANNOTATION].clone();
    // b carries a's record and runs on all CPUs.
    let mut thief = whole("b", 4);
    thief.sandbox = pod("b").id;
    thief.annotations.insert(RECORD_ANNOTATION.into(), record);
    // c's own record, whose CPUs its cgroup does not have.
    let c = node.create(&pod("c"), &whole("c", 4));
    let mut moved = made(whole("c", 4), &pod("c"), &c);
    moved.resources.cpus = "12-15".into();
    let mut fresh = Node::new();
    fresh.step(synchronize(&[&pod("a"), &pod("b"), &pod("c")], &[&honest, &thief, &moved]));
    let held = |name: &str| {
        let key = ContainerKey::new(pod(name).uid, name.into());
        fresh.state.ledger().get(&key).unwrap().placement.cpus.to_string()
    };
    assert_eq!([held("a"), held("b"), held("c")], ["4-7", "8-11", "12-15"]);
}

#[test]
fn a_pods_containers_sit_together() {
    let mut node = Node::new();
    node.settings.policy.scope = Scope::Pod;
    let mut together = pod("a");
    together.resources = Some(limits(4000, 2 << 30));
    node.step(Event::RunPod(together.clone()));
    let first = node.create(&together, &whole("x", 2));
    let second = node.create(&together, &whole("y", 2));
    assert_eq!(edit(&first).mems, edit(&second).mems);
    assert_eq!(
        edit(&first).mems.as_ref().unwrap().to_string(),
        "1",
        "the sum ranks: node 0 has room for one only"
    );
    let gpu = node.create(&together, &on_gpu(whole("z", 2), "GPU-c"));
    assert!(refusal(&gpu).contains("TopologyAffinityError"), "{}", refusal(&gpu));
}

#[test]
fn a_sandbox_is_refused_for_memory_only() {
    let mut node = Node::new();
    node.settings.policy.scope = Scope::Pod;
    let mut large = pod("a");
    large.resources = Some(limits(64_000, 2 << 30));
    assert_eq!(node.step(Event::RunPod(large.clone())).reply, Reply::Nothing);
    large.resources = Some(limits(1000, 9 << 30));
    let text = refusal(&node.step(Event::RunPod(large.clone())));
    assert!(text.starts_with("TopologyAffinityError: ") && text.contains("9Gi"), "{text}");
    large.namespace = "kube-system".into();
    assert_eq!(node.step(Event::RunPod(large)).reply, Reply::Nothing);
}

#[test]
fn the_pinning_everyone_forgets() {
    let forgotten = |ineligible| {
        let mut node = Node::with(Settings { ineligible, ..settings() });
        let (pod, facts) = small("s");
        node.create(&pod, &on_gpu(facts, "GPU-c"))
    };
    let warned = forgotten(Ineligible::Warn);
    assert!(warned.verdicts[0].warn && warned.verdicts[0].reason.contains("not pinned"));
    assert_eq!(edit(&warned).cpus, None);
    assert_eq!(cpus(&forgotten(Ineligible::Align)), "8-11");
    assert!(refusal(&forgotten(Ineligible::Reject)).contains("policy.ineligible = reject"));
}

#[test]
fn an_undecided_container_is_refused_only_where_it_counts_on_us() {
    let why = "the deadline of 1000 ms passed";
    let pinned = Event::Create(pod("a"), whole("a", 4));
    let text = refusal(&failure(&pinned, &settings(), why));
    assert_eq!(text, format!("InternalError: container a: maitred could not decide: {why}"));
    let (small_pod, small) = small("s");
    assert_eq!(failure(&Event::Create(small_pod, small), &settings(), why).reply, Reply::Nothing);
    let system = PodFacts { namespace: "kube-system".into(), ..pod("a") };
    assert_eq!(failure(&Event::Create(system, whole("a", 4)), &settings(), why).reply, Reply::Nothing);
    let admit = Settings { failure: FailurePolicy::Admit, ..settings() };
    assert_eq!(failure(&pinned, &admit, why).reply, Reply::Nothing);
    let audit = Settings { mode: Mode::Audit, ..settings() };
    assert_eq!(failure(&pinned, &audit, why).reply, Reply::Nothing);
}

#[test]
fn opting_out_is_heard() {
    let mut shy = pod("a");
    shy.annotations.insert("exclusive.maitred.io".into(), "false".into());
    let outcome = Node::new().create(&shy, &whole("main", 4));
    assert_eq!(edit(&outcome).cpus, None);
    assert!(!edit(&outcome).drop_quota);
    assert!(edit(&outcome).mems.is_some(), "its memory is promised all the same");
}
