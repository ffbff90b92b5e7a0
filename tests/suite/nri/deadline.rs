//! The answer always comes.

use super::{RELAXED, plugged_in, runtime_side};
use crate::fake_runtime::{
    Daemon, FakeRuntime, Place, Scripted, container, guaranteed_pod, patience, refused,
};
use maitred::decision::{CpusetUpdate, Event, Outcome};
use maitred::nri::proto::{ConfigureRequest, CreateContainerRequest, StopContainerRequest};
use protobuf::MessageField;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_millis(500);

/// Takes its time with the container `slow` and its pod's other events are quick.
fn slow() -> Scripted {
    Scripted::new(|event| {
        if matches!(event, Event::Create(_, container) if container.id.as_str() == "slow") {
            std::thread::sleep(LONG);
        }
        Outcome::default()
    })
}

#[test]
fn a_late_decision_is_answered_by_the_fallback_and_taken_back() {
    runtime_side(async {
        let (runtime, _daemon, seen, _place) = plugged_in(slow(), SHORT).await;
        let asked = Instant::now();

        let answer = refused(runtime.create_id("slow").await);

        assert!(asked.elapsed() >= SHORT && asked.elapsed() < LONG, "{:?}", asked.elapsed());
        assert!(answer.contains("container name-slow: no decision within 150 ms"), "{answer}");
        seen.wait_for("abandon slow").await;
        runtime.create_id("next").await.unwrap();
        assert_eq!(seen.events(), ["synchronize 0 0", "create slow", "abandon slow", "create next"]);
    });
}

#[test]
fn the_exempt_are_let_through_late_or_not() {
    runtime_side(async {
        let (runtime, _daemon, seen, _place) = plugged_in(slow(), SHORT).await;
        let mut pod = guaranteed_pod("p");
        pod.namespace = "kube-system".into();

        let answer = runtime.create(pod, container("slow")).await.unwrap();

        assert!(answer.adjust.is_none());
        seen.wait_for("abandon slow").await;
    });
}

#[test]
fn what_nobody_waits_for_any_more_is_not_begun() {
    runtime_side(async {
        let (runtime, _daemon, seen, _place) = plugged_in(slow(), SHORT).await;

        let (first, second) = tokio::join!(runtime.create_id("slow"), runtime.create_id("queued"));

        assert!(first.is_err() && second.is_err());
        seen.wait_for("abandon slow").await;
        runtime.create_id("next").await.unwrap();
        assert_eq!(seen.events(), ["synchronize 0 0", "create slow", "abandon slow", "create next"]);
    });
}

#[test]
fn the_runtimes_own_patience_counts_where_it_is_shorter() {
    runtime_side(async {
        let place = Place::new();
        let listener = place.listen();
        let _daemon = Daemon::start(&place.path, Duration::from_secs(30), slow());
        let runtime = FakeRuntime::over(listener.accept().await.unwrap().0).await;
        let request = ConfigureRequest { request_timeout: 200, ..Default::default() };
        runtime.configure_with(request).await.unwrap();
        runtime.synchronize_nothing().await;

        let answer = refused(runtime.create_id("slow").await);

        assert!(answer.contains("no decision within 150 ms"), "{answer}");
    });
}

#[test]
fn a_single_calls_patience_counts_too() {
    runtime_side(async {
        let (runtime, _daemon, _seen, _place) = plugged_in(slow(), RELAXED).await;
        let request = CreateContainerRequest {
            pod: MessageField::some(guaranteed_pod("p")),
            container: MessageField::some(container("slow")),
            ..Default::default()
        };
        let context = ttrpc::context::with_duration(Duration::from_millis(200));

        let answer = refused(runtime.plugin.create_container(context, &request).await);

        assert!(answer.contains("no decision within"), "{answer}");
    });
}

#[test]
fn a_panic_is_an_answer_and_is_taken_back() {
    runtime_side(async {
        let handler = Scripted::new(|event| match event {
            Event::Create(_, container) if container.id.as_str() == "bad" => {
                panic!("a bug in {}", container.id)
            }
            _ => Outcome::default(),
        });
        let (runtime, _daemon, seen, _place) = plugged_in(handler, RELAXED).await;

        let answer = refused(runtime.create_id("bad").await);

        assert!(answer.contains("container name-bad: the decision panicked: a bug in bad"), "{answer}");
        runtime.create_id("good").await.unwrap();
        assert_eq!(seen.events(), ["synchronize 0 0", "create bad", "abandon bad", "create good"]);
    });
}

#[test]
fn a_late_stops_updates_are_written_instead() {
    runtime_side(async {
        let handler = Scripted::new(|event| match event {
            Event::Stop(..) => {
                std::thread::sleep(LONG);
                let update = CpusetUpdate {
                    id: "s1".into(),
                    cgroups_path: "/s1".into(),
                    cpus: "0-7".parse().unwrap(),
                    mems: None,
                };
                Outcome { updates: vec![update], ..Outcome::default() }
            }
            _ => Outcome::default(),
        });
        let (runtime, _daemon, seen, _place) = plugged_in(handler, SHORT).await;
        let request = StopContainerRequest {
            pod: MessageField::some(guaranteed_pod("p")),
            container: MessageField::some(container("c1")),
            ..Default::default()
        };

        let answer = runtime.plugin.stop_container(patience(), &request).await.unwrap();
        runtime.create_id("after").await.unwrap_err(); // the thread is still busy with the stop
        tokio::time::sleep(LONG).await;

        assert!(answer.update.is_empty());
        assert_eq!(seen.writes.lock().unwrap()[0].id.as_str(), "s1");
    });
}

#[test]
fn without_a_ledger_nothing_is_placed_and_a_later_one_heals() {
    runtime_side(async {
        let place = Place::new();
        let listener = place.listen();
        let mut broken = true;
        let handler = Scripted::new(move |event| {
            if matches!(event, Event::Synchronize { .. }) && std::mem::take(&mut broken) {
                panic!("an unreadable ledger");
            }
            Outcome::default()
        });
        let _daemon = Daemon::start(&place.path, RELAXED, handler);
        let runtime = FakeRuntime::over(listener.accept().await.unwrap().0).await;
        runtime.configure("v2.1.9").await.unwrap();

        let before = refused(runtime.create_id("c1").await);
        let response = runtime.synchronize_nothing().await;
        let after = refused(runtime.create_id("c2").await);
        runtime.synchronize_nothing().await;

        assert!(before.contains("the ledger has not been rebuilt"), "{before}");
        assert!(response.update.is_empty());
        assert!(after.contains("the ledger has not been rebuilt"), "{after}");
        runtime.create_id("c3").await.unwrap();
    });
}
