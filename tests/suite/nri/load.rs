//! Large messages, many of them.

use super::measure::{seating, shared};
use super::{RELAXED, plugged_in, runtime_side};
use crate::fake_runtime::{Daemon, FakeRuntime, Place, Scripted, container, guaranteed_pod, patience};
use maitred::decision::{Edit, Event, Outcome, Reply};
use maitred::nri::proto::SynchronizeRequest;
use std::time::{Duration, Instant};

/// Answers each create with as many bytes of environment as it got.
fn echo() -> Scripted {
    Scripted::new(|event| match event {
        Event::Create(_, container) => {
            let value = container.env.concat();
            let env = vec![("ECHO".to_owned(), value)];
            Outcome { reply: Reply::Adjust(Box::new(Edit { env, ..Edit::default() })), ..Outcome::default() }
        }
        _ => Outcome::default(),
    })
}

#[test]
fn messages_of_every_size_pass_both_ways() {
    runtime_side(async {
        let (runtime, _daemon, _seen, _place) = plugged_in(echo(), RELAXED).await;
        // Around the 4096 bytes of a first frame, 20 KB as seen in the wild, and as large as a message may be.
        for size in (3800..4200).step_by(7).chain([20_000, 100_000, (4 << 20) - 600]) {
            let mut request = container("c");
            request.env = vec!["x".repeat(size)];

            let answer = runtime.create(guaranteed_pod("p"), request).await.unwrap();

            assert_eq!(answer.adjust.env[0].value.len(), size);
        }
    });
}

#[test]
fn an_answer_over_the_limit_is_an_error_and_no_more() {
    runtime_side(async {
        let handler = Scripted::new(|event| match event {
            Event::Create(..) => {
                let env = vec![("HUGE".to_owned(), "x".repeat(5 << 20))];
                Outcome {
                    reply: Reply::Adjust(Box::new(Edit { env, ..Edit::default() })),
                    ..Outcome::default()
                }
            }
            _ => Outcome::default(),
        });
        let (runtime, _daemon, _seen, _place) = plugged_in(handler, RELAXED).await;

        assert!(runtime.create_id("c").await.is_err());
        runtime.plugin.shutdown(crate::fake_runtime::patience(), &Default::default()).await.unwrap();
    });
}

#[test]
fn a_thousand_creates_are_answered_each_with_its_own() {
    runtime_side(async {
        let (runtime, _daemon, seen, _place) = plugged_in(echo(), RELAXED).await;
        for number in 0..1000 {
            let mut request = container(&number.to_string());
            request.env = vec![format!("N={number}")];
            let answer = runtime.create(guaranteed_pod("p"), request).await.unwrap();
            assert_eq!(answer.adjust.env[0].value, format!("N={number}"));
        }
        assert_eq!(seen.events().len(), 1001);
    });
}

#[test]
fn parallel_creates_are_answered_each_with_its_own() {
    runtime_side(async {
        let (runtime, _daemon, _seen, _place) = plugged_in(echo(), RELAXED).await;
        let one = |number: usize| {
            let mut request = container(&number.to_string());
            request.env = vec![format!("N={number}")];
            runtime.create(guaranteed_pod("p"), request)
        };
        let answers = futures::future::join_all((0..100).map(one)).await;
        for (number, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.unwrap().adjust.env[0].value, format!("N={number}"));
        }
    });
}

/// How long a node of so many containers takes to be told and taken in: one in eight has exclusive CPUs, made while
/// nobody was asked. All messages together have the time of one request, which the runtime's side here keeps.
async fn synchronized(count: usize) -> Duration {
    let place = Place::new();
    let listener = place.listen();
    let _daemon = Daemon::start(&place.path, RELAXED, seating());
    let runtime = FakeRuntime::over(listener.accept().await.unwrap().0).await;
    runtime.configure("v2.1.9").await.unwrap();
    let one = |number: usize| {
        let name = format!("s{number}");
        let mut pod = guaranteed_pod(&name);
        let mut one = if number.is_multiple_of(8) { container(&name) } else { shared(&name) };
        one.pod_sandbox_id = pod.id.clone();
        if !number.is_multiple_of(8) {
            pod.linux.as_mut().unwrap().cgroup_parent = format!("/kubepods/besteffort/poduid-{name}");
        }
        (pod, one)
    };
    let (pods, containers): (Vec<_>, Vec<_>) = (0..count).map(one).unzip();
    let begin = Instant::now();
    let chunks: Vec<_> = pods.chunks(25).zip(containers.chunks(25)).collect();
    let mut updates = 0;
    for (at, (pods, containers)) in chunks.iter().enumerate() {
        let more = at + 1 < chunks.len();
        let (pods, containers) = (pods.to_vec(), containers.to_vec());
        let request = SynchronizeRequest { pods, containers, more, ..Default::default() };
        let answer = runtime.plugin.synchronize(patience(), &request).await.unwrap();
        assert_eq!(answer.more, more);
        updates += answer.update.len();
    }
    assert!(begin.elapsed() < crate::fake_runtime::REQUEST_TIMEOUT, "the runtime would have closed us");
    // Whoever has none of its own has been told what the others have left.
    assert!(updates >= count * 7 / 8, "{updates} updates of {count}");
    begin.elapsed()
}

#[test]
fn a_thousand_containers_are_taken_in_within_one_requests_time() {
    runtime_side(async {
        let mut times = [Duration::MAX; 2];
        for _ in 0..3 {
            for (best, count) in times.iter_mut().zip([250, 1000]) {
                *best = synchronized(count).await.min(*best);
            }
        }
        let [few, many] = times;
        println!("Synchronize of 250 containers {few:?}, of 1000 {many:?}");
        // Four times as many; the square would be sixteen.
        assert!(many < few * 12, "{few:?} for 250, {many:?} for 1000");
    });
}
