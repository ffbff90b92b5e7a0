//! The runtime goes away, comes back, or talks nonsense.

use super::{RELAXED, plugged_in, runtime_side};
use crate::fake_runtime::{Daemon, FakeRuntime, Place, Scripted, container, guaranteed_pod};
use maitred::decision::{Event, Outcome};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;

#[test]
fn a_daemon_may_start_before_its_runtime() {
    runtime_side(async {
        let place = Place::new();
        let _daemon = Daemon::start(&place.path, RELAXED, Scripted::idle());
        tokio::time::sleep(Duration::from_millis(300)).await;

        let listener = place.listen();
        let appeared = Instant::now();
        let (stream, _) = listener.accept().await.unwrap();

        assert!(appeared.elapsed() < Duration::from_millis(500), "{:?}", appeared.elapsed());
        FakeRuntime::welcome(stream).await;
    });
}

#[test]
fn a_restarted_runtime_is_registered_with_at_once_and_synchronized() {
    runtime_side(async {
        let place = Place::new();
        let handler = Scripted::idle();
        let seen = handler.seen.clone();
        let _daemon = Daemon::start(&place.path, RELAXED, handler);
        for life in 0..4 {
            let listener = place.listen();
            let runtime = FakeRuntime::welcome(listener.accept().await.unwrap().0).await;
            runtime.create_id(&format!("c{life}")).await.unwrap();
            std::fs::remove_dir_all(place.path.parent().unwrap()).unwrap();
            drop((listener, runtime));
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
        let lives = (0..4).flat_map(|life| ["synchronize 0 0".to_owned(), format!("create c{life}")]);
        assert_eq!(seen.events(), lives.collect::<Vec<_>>());
    });
}

/// What a broken peer sends right after the handshake.
fn nonsense() -> Vec<(&'static str, Vec<u8>)> {
    let frame = |id: u32, payload: &[u8]| {
        [&id.to_be_bytes()[..], &u32::try_from(payload.len()).unwrap().to_be_bytes(), payload].concat()
    };
    vec![
        ("a frame over the limit", [1u32.to_be_bytes(), ((4u32 << 20) + 11).to_be_bytes()].concat()),
        ("a frame of 4 GiB", vec![0xff; 8]),
        ("text", b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n".to_vec()),
        ("a message over the limit", frame(1, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 1, 0])),
        ("half a header", vec![0, 0, 0]),
        ("half a payload", frame(1, &[0; 100])[..50].to_vec()),
    ]
}

#[test]
fn nonsense_ends_the_connection_and_the_next_one_works() {
    runtime_side(async {
        let place = Place::new();
        let listener = place.listen();
        let handler = Scripted::idle();
        let seen = handler.seen.clone();
        let _daemon = Daemon::start(&place.path, RELAXED, handler);
        for (what, bytes) in nonsense() {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            // Where the bytes are a beginning, their end has to come before anything is wrong.
            stream.shutdown().await.unwrap();
            let closed = tokio::time::timeout(Duration::from_secs(5), read_to_close(&mut stream)).await;
            assert!(closed.is_ok(), "{what}: the connection stays open");
        }
        let runtime = FakeRuntime::welcome(listener.accept().await.unwrap().0).await;
        runtime.create_id("after all that").await.unwrap();
        assert_eq!(seen.events(), ["synchronize 0 0", "create after all that"]);
    });
}

async fn read_to_close(stream: &mut tokio::net::UnixStream) {
    let mut bytes = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(stream, &mut bytes).await;
}

/// A request of three megabytes of which only a part arrives: nothing is decided about it that stays.
#[test]
fn a_connection_cut_within_a_request_costs_that_request_alone() {
    runtime_side(async {
        let place = Place::new();
        let listener = place.listen();
        let handler = Scripted::idle();
        let seen = handler.seen.clone();
        let _daemon = Daemon::start(&place.path, RELAXED, handler);
        for polls in 1..12 {
            let runtime = FakeRuntime::welcome(listener.accept().await.unwrap().0).await;
            let mut large = container("cut");
            large.env = vec!["x".repeat(3 << 20)];
            let mut asking = Box::pin(runtime.create(guaranteed_pod("p"), large));
            for _ in 0..polls {
                assert!(futures::poll!(&mut asking).is_pending());
                tokio::task::yield_now().await;
            }
            drop(asking);
            drop(runtime);
        }
        let runtime = FakeRuntime::welcome(listener.accept().await.unwrap().0).await;
        runtime.create_id("whole").await.unwrap();
        let events = seen.events();
        let count = |word: &str| events.iter().filter(|event| *event == word).count();
        assert!(count("create cut") < 11, "none was cut: {events:?}");
        assert_eq!(count("create cut"), count("abandon cut"), "{events:?}");
    });
}

/// Nonsense inside well-formed frames: ttrpc answers or drops it, and the connection goes on.
#[test]
fn nonsense_within_a_message_costs_no_more_than_itself() {
    runtime_side(async {
        let place = Place::new();
        let listener = place.listen();
        let _daemon = Daemon::start(&place.path, RELAXED, Scripted::idle());
        let (mut stream, _) = listener.accept().await.unwrap();
        for (kind, body) in [(1u8, &[0xff; 20][..]), (2, b"answer"), (3, b"data"), (77, b"what"), (1, b"")] {
            let head =
                [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &[0, 0, 0, 99, kind, 0]].concat();
            let message = [&head, body].concat();
            let header = [1u32.to_be_bytes(), u32::try_from(message.len()).unwrap().to_be_bytes()].concat();
            stream.write_all(&[header, message].concat()).await.unwrap();
        }

        let runtime = FakeRuntime::welcome(stream).await;

        runtime.create_id("c1").await.unwrap();
    });
}

#[test]
fn an_old_connections_tasks_end_with_it() {
    runtime_side(async {
        let place = Place::new();
        let listener = place.listen();
        let daemon = Daemon::start(&place.path, RELAXED, Scripted::idle());
        let mut tasks = Vec::new();
        for _ in 0..20 {
            let runtime = FakeRuntime::welcome(listener.accept().await.unwrap().0).await;
            runtime.create_id("c").await.unwrap();
            tasks.push(daemon.reactor.metrics().num_alive_tasks());
        }
        assert!(tasks.iter().max().unwrap() <= &12, "{tasks:?}");
    });
}

#[test]
fn an_answer_lost_with_its_connection_is_taken_back() {
    runtime_side(async {
        let handler = Scripted::new(|event| {
            if matches!(event, Event::Create(..)) {
                std::thread::sleep(Duration::from_millis(200));
            }
            Outcome::default()
        });
        let (runtime, _daemon, seen, _place) = plugged_in(handler, RELAXED).await;

        let asked = tokio::time::timeout(Duration::from_millis(50), runtime.create_id("c1")).await;
        drop(runtime);

        assert!(asked.is_err());
        seen.wait_for("abandon c1").await;
    });
}

#[test]
fn a_runtime_that_will_not_have_us_is_not_pestered() {
    runtime_side(async {
        let place = Place::new();
        let listener = place.listen();
        let _daemon = Daemon::start(&place.path, RELAXED, Scripted::idle());
        let mut tries = 0;
        let _ = tokio::time::timeout(Duration::from_secs(2), async {
            loop {
                drop(listener.accept().await.unwrap());
                tries += 1;
            }
        })
        .await;
        assert!((3..10).contains(&tries), "{tries} connections in 2 s");
    });
}
