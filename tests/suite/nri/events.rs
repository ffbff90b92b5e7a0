//! One event after the other, in both dialects.

use super::{RELAXED, plugged_in, runtime_side};
use crate::fake_runtime::{
    Scripted, container, container_request, guaranteed_pod, patience, pod_request, refused, rejection,
};
use maitred::decision::{CpusetUpdate, Delivery, Edit, Event, Outcome, Reply};
use maitred::model::{MemoryMode, MemoryPolicy};
use maitred::nri::proto::{
    self, CreateContainerRequest, LinuxCPU, LinuxResources, StateChangeEvent, StopContainerRequest,
    UpdateContainerRequest,
};
use protobuf::{EnumOrUnknown, MessageField};

fn placed() -> Reply {
    Reply::Adjust(Box::new(Edit {
        cpus: Some("4-7".parse().unwrap()),
        mems: Some("1".parse().unwrap()),
        drop_quota: true,
        env: vec![("NVIDIA_VISIBLE_DEVICES".into(), "GPU-a".into())],
        record: Some(r#"{"v":1}"#.into()),
        memory_policy: Some(MemoryPolicy { mode: MemoryMode::Bind, nodes: "1".parse().unwrap() }),
        delivery: Some(Delivery::Native),
        ..Edit::default()
    }))
}

fn shrink(id: &str) -> CpusetUpdate {
    CpusetUpdate {
        id: id.into(),
        cgroups_path: format!("/{id}"),
        cpus: "0-3,8-15".parse().unwrap(),
        mems: None,
    }
}

#[test]
fn a_create_is_adjusted_and_others_are_updated_in_the_same_answer() {
    runtime_side(async {
        let handler = Scripted::new(|event| match event {
            Event::Create(..) => {
                Outcome { reply: placed(), updates: vec![shrink("s1"), shrink("s2")], ..Outcome::default() }
            }
            _ => Outcome::default(),
        });
        let (runtime, _daemon, _seen, _place) = plugged_in(handler, RELAXED).await;

        let answer = runtime.create_id("c1").await.unwrap();

        let linux = &answer.adjust.linux;
        let cpu = &linux.resources.cpu;
        assert_eq!((cpu.cpus.as_str(), cpu.mems.as_str(), cpu.quota.value), ("4-7", "1", -1));
        assert!(linux.memory_policy.is_none(), "NRI 0.8 does not take a memory policy");
        assert_eq!(answer.adjust.env[0].value, "GPU-a");
        assert_eq!(answer.adjust.annotations["allocation.maitred.io"], r#"{"v":1}"#);
        let others: Vec<_> =
            answer.update.iter().map(|u| (u.container_id.as_str(), u.ignore_failure)).collect();
        assert_eq!(others, [("s1", true), ("s2", true)]);
        assert_eq!(answer.update[0].linux.resources.cpu.cpus, "0-3,8-15");
    });
}

#[test]
fn the_facts_arrive_whole() {
    runtime_side(async {
        let handler = Scripted::new(|event| {
            if let Event::Create(pod, container) = event {
                assert_eq!(pod.cgroup_parent, "/kubepods/poduid-p");
                assert_eq!(container.resources.shares, Some(4096));
                assert_eq!(container.resources.quota, Some(400_000));
                assert_eq!(container.oom_score_adj, Some(-997));
                assert_eq!(container.cgroups_path, "/kubepods/poduid-p/c1");
                assert_eq!(container.name.as_str(), "name-c1");
                assert_eq!(container.pid, None);
            }
            Outcome::default()
        });
        let (runtime, _daemon, _seen, _place) = plugged_in(handler, RELAXED).await;

        let answer = runtime.create_id("c1").await.unwrap();

        assert!(answer.adjust.is_none() && answer.update.is_empty());
    });
}

#[test]
fn a_refusal_is_one_line_with_the_hint() {
    runtime_side(async {
        let handler = Scripted::new(|event| match event {
            Event::Create(..) | Event::RunPod(_) => {
                let reply = Reply::Refuse(Box::new(rejection("main", "does not fit")));
                Outcome { reply, ..Outcome::default() }
            }
            _ => Outcome::default(),
        });
        let (runtime, _daemon, _seen, _place) = plugged_in(handler, RELAXED).await;
        let line = "InternalError: container main: does not fit \
                    (retried on this node; delete the pod to have it scheduled again)";

        assert_eq!(refused(runtime.create_id("c1").await), line);
        assert_eq!(refused(runtime.plugin.run_pod_sandbox(patience(), &pod_request("p")).await), line);
        let event = state_change(proto::Event::RUN_POD_SANDBOX);
        assert_eq!(refused(runtime.plugin.state_change(patience(), &event).await), line);
    });
}

fn state_change(event: proto::Event) -> StateChangeEvent {
    StateChangeEvent {
        event: EnumOrUnknown::new(event),
        pod: MessageField::some(guaranteed_pod("p")),
        container: MessageField::some(container("c1")),
        ..Default::default()
    }
}

#[test]
fn both_dialects_say_the_same() {
    runtime_side(async {
        let (runtime, _daemon, seen, _place) = plugged_in(Scripted::idle(), RELAXED).await;
        let (plugin, pod, container) = (&runtime.plugin, pod_request("p"), container_request("c1"));

        plugin.run_pod_sandbox(patience(), &pod).await.unwrap();
        plugin.post_start_container(patience(), &container).await.unwrap();
        plugin.remove_container(patience(), &container).await.unwrap();
        plugin.stop_pod_sandbox(patience(), &pod).await.unwrap();
        plugin.remove_pod_sandbox(patience(), &pod).await.unwrap();
        let dedicated = seen.events().split_off(1);
        for event in [
            proto::Event::RUN_POD_SANDBOX,
            proto::Event::POST_START_CONTAINER,
            proto::Event::REMOVE_CONTAINER,
            proto::Event::STOP_POD_SANDBOX,
            proto::Event::REMOVE_POD_SANDBOX,
        ] {
            plugin.state_change(patience(), &state_change(event)).await.unwrap();
        }

        assert_eq!(dedicated, ["run-pod p", "started c1", "remove c1", "stop-pod p", "remove-pod p"]);
        assert_eq!(seen.events().split_off(6), dedicated);
    });
}

#[test]
fn events_nobody_subscribed_to_are_answered_and_ignored() {
    runtime_side(async {
        let (runtime, _daemon, seen, _place) = plugged_in(Scripted::idle(), RELAXED).await;
        for event in
            [proto::Event::START_CONTAINER, proto::Event::POST_CREATE_CONTAINER, proto::Event::UNKNOWN]
        {
            runtime.plugin.state_change(patience(), &state_change(event)).await.unwrap();
        }
        let mut future = state_change(proto::Event::UNKNOWN);
        future.event = EnumOrUnknown::from_i32(99);
        runtime.plugin.state_change(patience(), &future).await.unwrap();

        assert_eq!(seen.events(), ["synchronize 0 0"]);
    });
}

#[test]
fn a_kubelets_update_is_answered_with_the_placement() {
    runtime_side(async {
        let handler = Scripted::new(|event| match event {
            Event::Update(_, _, wanted) => {
                assert_eq!(wanted.cpus, "0-15");
                Outcome { reply: placed(), updates: vec![shrink("s1")], ..Outcome::default() }
            }
            _ => Outcome::default(),
        });
        let (runtime, _daemon, _seen, _place) = plugged_in(handler, RELAXED).await;
        let cpu = LinuxCPU { cpus: "0-15".into(), ..Default::default() };
        let request = UpdateContainerRequest {
            pod: MessageField::some(guaranteed_pod("p")),
            container: MessageField::some(container("c1")),
            linux_resources: MessageField::some(LinuxResources {
                cpu: MessageField::some(cpu),
                ..Default::default()
            }),
            ..Default::default()
        };

        let answer = runtime.plugin.update_container(patience(), &request).await.unwrap();

        let ids: Vec<_> = answer.update.iter().map(|u| (u.container_id.as_str(), u.ignore_failure)).collect();
        assert_eq!(ids, [("s1", true), ("c1", false)]);
        let own = &answer.update[1].linux.resources.cpu;
        assert_eq!((own.cpus.as_str(), own.mems.as_str(), own.quota.value), ("4-7", "1", -1));
    });
}

#[test]
fn a_stop_lends_in_its_answer() {
    runtime_side(async {
        let handler = Scripted::new(|event| match event {
            Event::Stop(..) => Outcome { updates: vec![shrink("s1")], ..Outcome::default() },
            _ => Outcome::default(),
        });
        let (runtime, _daemon, _seen, _place) = plugged_in(handler, RELAXED).await;
        let request = StopContainerRequest {
            pod: MessageField::some(guaranteed_pod("p")),
            container: MessageField::some(container("c1")),
            ..Default::default()
        };

        let answer = runtime.plugin.stop_container(patience(), &request).await.unwrap();

        assert_eq!(answer.update[0].container_id, "s1");
    });
}

#[test]
fn a_request_that_lacks_its_container_is_an_error_and_no_more() {
    runtime_side(async {
        let (runtime, _daemon, seen, _place) = plugged_in(Scripted::idle(), RELAXED).await;
        let request =
            CreateContainerRequest { pod: MessageField::some(guaranteed_pod("p")), ..Default::default() };

        let answer = refused(runtime.plugin.create_container(patience(), &request).await);

        assert_eq!(answer, "the request names no container");
        runtime.create_id("c2").await.unwrap();
        assert_eq!(seen.events(), ["synchronize 0 0", "create c2"]);
    });
}
