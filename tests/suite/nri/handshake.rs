//! Registration, Configure, Synchronize; external and pre-launched.

use super::{RELAXED, plugged_in, runtime_side};
use crate::fake_runtime::{
    Daemon, FakeRuntime, Place, Scripted, container, guaranteed_pod, patience, refused,
};
use maitred::decision::{CpusetUpdate, Event, Outcome};
use maitred::nri::proto::{ConfigureRequest, SynchronizeRequest};
use maitred::nri::{NriError, Transport};
use std::os::fd::IntoRawFd;
use std::path::PathBuf;
use tokio::net::UnixStream;

/// Run/Stop/RemovePodSandbox, Create, PostStart, Update, Stop, Remove.
const MASK: i32 = 0b110_1100_1111;

#[test]
fn registers_by_name_and_index_and_subscribes_to_what_it_handles() {
    runtime_side(async {
        for (version, nri, memory_policy) in [
            ("v1.7.0", "", false),
            ("1.7.27~ds1", "", false),
            ("v2.1.9", "", false),
            ("v2.2.1", "", false),
            ("v2.3.0", "v0.12.0", true),
            ("v9.0.0-something", "", true), // a containerd newer than all we know: 2.3 says 0.12 itself
            ("unheard of", "", false),
        ] {
            let place = Place::new();
            let listener = place.listen();
            let handler = Scripted::idle();
            let seen = handler.seen.clone();
            let _daemon = Daemon::start(&place.path, RELAXED, handler);
            let runtime = FakeRuntime::over(listener.accept().await.unwrap().0).await;

            let response = runtime.configure_with(ConfigureRequest {
                runtime_name: "containerd".into(),
                runtime_version: version.into(),
                nri_version: nri.into(),
                ..Default::default()
            });
            let response = response.await.unwrap();

            assert_eq!(runtime.registered.plugin_name, "maitred");
            assert_eq!(runtime.registered.plugin_idx, "90");
            assert_eq!(response.events, MASK, "{version}");
            let host = seen.hosts.lock().unwrap()[0].clone();
            assert_eq!(host.features().memory_policy, memory_policy, "{version}");
        }
    });
}

#[test]
fn a_synchronize_in_chunks_is_one_event() {
    runtime_side(async {
        let handler = Scripted::new(|event| match event {
            Event::Synchronize { containers, .. } => {
                let first = &containers[0];
                let update = CpusetUpdate {
                    id: first.id.clone(),
                    cgroups_path: first.cgroups_path.clone(),
                    cpus: "0-3".parse().unwrap(),
                    mems: None,
                };
                Outcome { updates: vec![update], ..Outcome::default() }
            }
            _ => Outcome::default(),
        });
        let place = Place::new();
        let listener = place.listen();
        let seen = handler.seen.clone();
        let _daemon = Daemon::start(&place.path, RELAXED, handler);
        let runtime = FakeRuntime::over(listener.accept().await.unwrap().0).await;
        runtime.configure("v2.1.9").await.unwrap();

        for chunk in 0..5 {
            let request = SynchronizeRequest {
                pods: vec![guaranteed_pod(&chunk.to_string())],
                containers: (0..40).map(|n| container(&format!("c{chunk}-{n}"))).collect(),
                more: chunk < 4,
                ..Default::default()
            };
            let response = runtime.plugin.synchronize(patience(), &request).await.unwrap();
            assert_eq!(response.more, chunk < 4);
            assert_eq!(response.update.len(), usize::from(chunk == 4));
            if let [update] = &response.update[..] {
                assert_eq!((update.container_id.as_str(), update.ignore_failure), ("c0-0", true));
                assert_eq!(update.linux.resources.cpu.cpus, "0-3");
            }
        }

        assert_eq!(seen.events(), ["synchronize 5 200"]);
    });
}

/// A daemon at the far end of a socket pair, as containerd launches one.
fn launched(handler: Scripted) -> (UnixStream, Daemon) {
    launched_with(handler, None)
}

fn launched_with(handler: Scripted, again: Option<PathBuf>) -> (UnixStream, Daemon) {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let transport = Transport::Inherited { fd: theirs.into_raw_fd(), again };
    let daemon = Daemon::with(transport, RELAXED, handler);
    (UnixStream::from_std(ours).unwrap(), daemon)
}

#[test]
fn a_launched_plugin_takes_its_configuration_and_ends_with_its_socket() {
    runtime_side(async {
        let handler = Scripted::idle();
        let seen = handler.seen.clone();
        let (stream, daemon) = launched(handler);
        let runtime = FakeRuntime::over(stream).await;
        let config = "version = 1\nmode = \"audit\"\n";

        let request = ConfigureRequest { config: config.into(), ..Default::default() };
        runtime.configure_with(request).await.unwrap();
        runtime.synchronize_nothing().await;
        runtime.create_id("c1").await.unwrap();
        drop(runtime);

        daemon.ended().await.unwrap();
        assert_eq!(seen.hosts.lock().unwrap()[0].config, config);
        assert_eq!(seen.events(), ["synchronize 0 0", "create c1"]);
    });
}

/// What a plugin is asked that a runtime of this version has launched and that then comes by the socket, with a container
/// made there: told what runs and closed, or told nothing and left alone.
fn asked_by_launcher_and_socket(version: &str, told: bool) -> Vec<String> {
    runtime_side(async {
        let handler = Scripted::idle();
        let seen = handler.seen.clone();
        let place = Place::new();
        let listener = place.listen();
        let (stream, _daemon) = launched_with(handler, Some(place.path.clone()));
        let mut runtime = Some(FakeRuntime::over(stream).await);
        let launcher = runtime.as_ref().unwrap();
        launcher.configure(version).await.unwrap();
        if told {
            launcher.synchronize_nothing().await;
            runtime = None;
        }
        let accepted = tokio::time::timeout(std::time::Duration::from_secs(30), listener.accept()).await;
        let again = FakeRuntime::welcome(accepted.unwrap().unwrap().0).await;
        again.create_id("c1").await.unwrap();
        drop(runtime);
        seen.events()
    })
}

/// containerd 1.7 tells a plugin of its own nothing of what runs: it is left for the socket, where every plugin is told.
#[test]
fn a_launched_plugin_that_is_told_nothing_comes_by_the_socket() {
    assert_eq!(asked_by_launcher_and_socket("v1.7.24", false), ["synchronize 0 0", "create c1"]);
}

/// containerd closes a plugin for good that was late once, and lives on.
#[test]
fn a_launched_plugin_that_was_closed_comes_back_through_the_socket() {
    let asked = asked_by_launcher_and_socket("v2.1.9", true);
    assert_eq!(asked, ["synchronize 0 0", "synchronize 0 0", "create c1"]);
}

#[test]
fn a_configuration_that_cannot_be_used_is_told_to_the_runtime() {
    runtime_side(async {
        let mut handler = Scripted::idle();
        handler.bad_config = Some("mood");
        let (stream, daemon) = launched(handler);
        let runtime = FakeRuntime::over(stream).await;

        let request = ConfigureRequest { config: "mood = \"good\"".into(), ..Default::default() };
        let answer = refused(runtime.configure_with(request).await);
        drop(runtime);

        assert_eq!(answer, "unknown key \"mood\"");
        let ended = daemon.ended().await.unwrap_err().to_string();
        assert!(ended.ends_with(&answer), "and to whoever reads our own log: {ended}");
    });
}

#[test]
fn a_descriptor_that_is_no_socket_is_an_error() {
    let file = std::fs::File::open("/dev/null").unwrap().into_raw_fd();
    let daemon = Daemon::with(Transport::Inherited { fd: file, again: None }, RELAXED, Scripted::idle());

    let error = runtime_side(daemon.ended()).unwrap_err();

    assert!(matches!(error, NriError::Inherited { .. }), "{error}");
    assert!(error.to_string().starts_with(&format!("cannot use file descriptor {file}")), "{error}");
}

#[test]
fn shutdown_is_answered() {
    runtime_side(async {
        let (runtime, _daemon, _seen, _place) = plugged_in(Scripted::idle(), RELAXED).await;

        runtime.plugin.shutdown(patience(), &Default::default()).await.unwrap();
        runtime.create_id("still served").await.unwrap();
    });
}
