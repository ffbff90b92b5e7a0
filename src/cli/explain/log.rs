//! Verdicts out of the log: JSON lines, alone or as journald's `MESSAGE`.

use crate::store::Told;
use serde_json::Value;

/// The verdicts among the lines; what is no verdict is passed over.
pub(super) fn verdicts(text: &str) -> Vec<Told> {
    text.lines().filter_map(verdict).collect()
}

fn verdict(line: &str) -> Option<Told> {
    let mut value: Value = serde_json::from_str(line.trim()).ok()?;
    // journalctl -o json wraps what a service has written.
    if let Some(message) = value.get("MESSAGE").and_then(Value::as_str) {
        value = serde_json::from_str(message).ok()?;
    }
    let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(str::to_owned);
    let span = value.get("span").cloned().unwrap_or_default();
    let decision = text(&value, "decision")?;
    let time = text(&value, "timestamp").unwrap_or_default();
    let repeated = value.get("repeated").and_then(Value::as_u64).unwrap_or(0);
    Some(Told {
        first: time.clone(),
        time,
        times: repeated.saturating_add(1),
        pod: text(&span, "pod").unwrap_or_default(),
        namespace: text(&span, "namespace").unwrap_or_default(),
        pod_uid: text(&span, "pod_uid")?,
        container: text(&span, "container"),
        container_id: text(&span, "container_id"),
        source: text(&span, "source").unwrap_or_default(),
        decision,
        simulated: value.get("simulated").and_then(Value::as_bool).unwrap_or(false),
        warn: value.get("level").and_then(Value::as_str) == Some("WARN"),
        reason: text(&value, "reason").unwrap_or_default(),
        request: text(&value, "request").unwrap_or_default(),
        placement: text(&value, "placement"),
        memory_policy: text(&value, "memory_policy"),
        duration_us: value.get("duration_us").and_then(Value::as_u64),
        // A line of an older version has none.
        evidence: text(&value, "evidence").and_then(|json| serde_json::from_str(&json).ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_ours_are_read_alone_and_within_journalds() {
        let line = r#"{"timestamp":"2026-01-01T00:00:00Z","level":"INFO","message":"verdict","decision":"rejected","reason":"full","request":"4 CPUs","repeated":2,"span":{"pod":"vllm","namespace":"default","pod_uid":"u","container":"main","source":"nri","name":"container"}}"#;
        let wrapped = serde_json::json!({ "MESSAGE": line, "_PID": "1" }).to_string();
        let other = r#"{"level":"INFO","message":"starting"}"#;
        let told = verdicts(&format!("{other}\nnot json\n{line}\n{wrapped}\n"));
        assert_eq!(told.len(), 2);
        assert_eq!(told[0], told[1]);
        assert_eq!((told[0].pod.as_str(), told[0].times), ("vllm", 3));
        assert_eq!(told[0].container.as_deref(), Some("main"));
    }
}
