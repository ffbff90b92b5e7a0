//! The dashboard, the alerts and the README speak of metrics that the daemon serves.

use maitred::decision::Mode;
use maitred::metrics::{Metrics, NodeAmounts};
use std::collections::BTreeSet;

const DASHBOARD: &str = include_str!("../../packaging/grafana/maitred.json");
const ALERTS: &str = include_str!("../../packaging/prometheus/maitred.rules.yml");
const README: &str = include_str!("../../README.md");

/// Every name with a sample, once everything has happened.
fn served() -> BTreeSet<String> {
    let metrics = Metrics::default();
    metrics.mode(Mode::Enforce);
    let node =
        NodeAmounts { node: "0".into(), free_hugepages: vec![("1Gi".into(), 0)], ..NodeAmounts::default() };
    metrics.amounts(0, &[node]);
    let page = metrics.page();
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
}

/// Whatever in a text begins like a metric of ours.
fn named(text: &str) -> BTreeSet<String> {
    let starts = text
        .match_indices("maitred_")
        .filter(|(at, _)| !text[..*at].ends_with(|c: char| c.is_ascii_alphanumeric() || "_./-".contains(c)));
    let name = |(at, _): (usize, &str)| {
        let rest = &text[at..];
        let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap_or(rest.len());
        rest[..end].to_owned()
    };
    starts.map(name).collect()
}

#[test]
fn every_metric_that_is_named_is_served() {
    let served = served();
    for (what, text, least) in [("dashboard", DASHBOARD, 15), ("alerts", ALERTS, 7), ("README", README, 15)] {
        let named = named(text);
        assert!(named.len() >= least, "{what}: {named:?}");
        // A histogram is spoken of by its name too.
        let unknown: Vec<_> = named
            .iter()
            .filter(|name| !served.contains(*name) && !served.contains(&format!("{name}_count")))
            .collect();
        assert!(unknown.is_empty(), "{what} names {unknown:?}, served are {served:#?}");
    }
}

#[test]
fn every_metric_that_is_served_is_in_the_readme() {
    let named = named(README);
    let base = |name: &str| {
        let ends = ["_bucket", "_sum", "_count"];
        ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).to_owned()
    };
    let missing: BTreeSet<String> =
        served().iter().map(|name| base(name)).filter(|name| !named.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_dashboard_and_the_alerts_can_be_read() {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    assert!(
        dashboard["panels"].as_array().unwrap().iter().all(|panel| panel["targets"][0]["expr"].is_string())
    );
    let alerts: serde_json::Value = serde_saphyr::from_str(ALERTS).unwrap();
    let rules = alerts["groups"][0]["rules"].as_array().unwrap();
    for rule in rules {
        for key in ["alert", "expr"] {
            assert!(rule[key].is_string(), "{rule}");
        }
        assert!(
            rule["annotations"]["summary"].is_string() && rule["labels"]["severity"].is_string(),
            "{rule}"
        );
    }
}
