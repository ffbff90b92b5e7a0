//! Large messages, many of them.

use super::{RELAXED, plugged_in, runtime_side};
use crate::fake_runtime::{Scripted, container, guaranteed_pod};
use maitred::decision::{Edit, Event, Outcome, Reply};
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

/// `cargo test --release -- --ignored --nocapture reply_time`
#[test]
#[ignore = "a measurement"]
fn reply_time_over_a_thousand_creates() {
    runtime_side(async {
        let handler = Scripted::idle();
        let (runtime, _daemon, _seen, _place) = plugged_in(handler, RELAXED).await;
        let mut request = container("c");
        request.env = (0..100).map(|n| format!("SOME_VARIABLE_{n}=some value of a usual length")).collect();
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..1000 {
            let asked = Instant::now();
            runtime.create(guaranteed_pod("p"), request.clone()).await.unwrap();
            times.push(asked.elapsed());
        }
        times.sort();
        println!("CreateContainer: p50 {:?}, p99 {:?}, most {:?}", times[500], times[990], times[999]);
    });
}
