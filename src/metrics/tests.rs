use super::*;
use crate::model::{Candidate, Reason, Shortage};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

fn verdict(decision: Decision) -> Verdict {
    Verdict::sample(decision, "")
}

fn rejected(candidates: &[(&str, &[Resource])]) -> Verdict {
    let short = |resource: &Resource| Shortage { resource: resource.clone(), needed: 2, available: 1 };
    let candidates = candidates.iter().map(|(nodes, resources)| Candidate {
        nodes: nodes.parse().unwrap(),
        short: resources.iter().map(short).collect(),
    });
    let rejection = Rejection {
        candidates: candidates.collect(),
        ..Rejection::of_container(Reason::TopologyAffinity, "main".into(), "no")
    };
    Verdict { rejection: Some(Box::new(rejection)), ..verdict(Decision::Rejected) }
}

#[track_caller]
fn assert_line(metrics: &Metrics, line: &str) {
    let page = metrics.page();
    assert!(page.lines().any(|one| one == line), "{line}\n{page}");
}

#[test]
fn verdicts_are_counted_by_word_and_reason_and_what_ran_short() {
    let metrics = Metrics::default();
    let gpu = || Resource::Device("nvidia.com/gpu".into());
    metrics.verdict(&verdict(Decision::Placed));
    metrics.verdict(&Verdict { simulated: true, ineligible: true, ..verdict(Decision::Placed) });
    metrics.verdict(&rejected(&[("0", &[Resource::Cpu, gpu()]), ("1", &[gpu()]), ("0-1", &[])]));
    metrics.verdict(&rejected(&[("0", &[Resource::Cpu]), ("1", &[gpu()])]));
    metrics.verdict(&Verdict { rival: true, ..verdict(Decision::Shared) });
    metrics.verdict(&verdict(Decision::Repaired));
    metrics.verdict(&verdict(Decision::Released));
    for line in [
        r#"maitred_admissions_total{decision="placed",simulated="false"} 1"#,
        r#"maitred_admissions_total{decision="placed",simulated="true"} 1"#,
        r#"maitred_rejections_total{reason="TopologyAffinityError",simulated="false"} 2"#,
        // Once everywhere, once because each node lacked something else.
        r#"maitred_rejection_shortages_total{resource="gpu"} 2"#,
        r#"maitred_rejection_shortages_total{resource="cpu"} 1"#,
        "maitred_ineligible_containers_total 1",
        "maitred_cpusets_of_others_total 1",
        "maitred_drifts_repaired_total 1",
    ] {
        assert_line(&metrics, line);
    }
    assert!(!metrics.page().contains("vllm"), "no name of a pod is a label");
}

#[test]
fn what_went_offline_is_not_left_behind() {
    let metrics = Metrics::default();
    let node = |node: &str, free_cpus| NodeAmounts {
        node: node.into(),
        free_cpus,
        free_hugepages: vec![("1Gi".into(), 1 << 30)],
        ..NodeAmounts::default()
    };
    metrics.amounts(3, &[node("0", 4), node("1", 8), node(UNKNOWN, 0)]);
    assert_line(&metrics, r#"maitred_free_cpus{node="1"} 8"#);
    assert_line(&metrics, r#"maitred_free_hugepages_bytes{node="0",size="1Gi"} 1073741824"#);
    assert_line(&metrics, r#"maitred_free_gpus{node="unknown"} 0"#);
    metrics.amounts(1, &[node("0", 2)]);
    assert_line(&metrics, r#"maitred_free_cpus{node="0"} 2"#);
    let page = metrics.page();
    assert!(!page.contains("node=\"1\"") && !page.contains("unknown"), "{page}");
}

#[test]
fn times_connection_and_mode_are_told() {
    let metrics = Metrics::default();
    metrics.decided(Duration::from_micros(41));
    metrics.replied("create", Duration::from_micros(300));
    metrics.connected(true);
    metrics.connected(false);
    metrics.connected(true);
    metrics.mode(Mode::Enforce);
    metrics.mode(Mode::Off);
    metrics.proved(true);
    metrics.undecided();
    for line in [
        r#"maitred_decision_seconds_bucket{le="0.00005"} 1"#,
        r#"maitred_reply_seconds_count{event="create"} 1"#,
        "maitred_nri_connected 1",
        "maitred_nri_registrations_total 2",
        "maitred_nri_disconnections_total 1",
        r#"maitred_mode{mode="off"} 1"#,
        r#"maitred_mode{mode="enforce"} 0"#,
        "maitred_drifts_found_total 1",
        "maitred_undecided_total 1",
    ] {
        assert_line(&metrics, line);
    }
}

fn asked(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_page_is_served_and_nothing_else() {
    let metrics = Arc::new(Metrics::default());
    let page: Page = {
        let metrics = Arc::clone(&metrics);
        Arc::new(move || metrics.page())
    };
    let address = serve("127.0.0.1:0".parse().unwrap(), page).unwrap();
    metrics.undecided();
    let get =
        |path: &str| asked(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    let answer = get("/metrics");
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("application/openmetrics-text"),
        "{answer}"
    );
    assert!(
        answer.contains("maitred_undecided_total 1\n") && answer.trim_end().ends_with("# EOF"),
        "{answer}"
    );
    assert!(get("/etc/passwd").starts_with("HTTP/1.1 404"));
    let post =
        asked(address, "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert!(post.starts_with("HTTP/1.1 405"), "{post}");
    assert!(asked(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
}
