//! Verdicts to log lines: one span a container, one line a verdict. The kubelet tries a refused container
//! again and again; the same refusal is said once a minute, with how often it was given meanwhile.

use crate::decision::{Decision, State, Verdict};
use crate::log;
use crate::model::{ContainerName, PodUid};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a repeated refusal stays unsaid.
const QUIET: Duration = Duration::from_secs(60);
/// How many refused containers are remembered before those that are quiet no longer are forgotten.
const MOST: usize = 1024;

/// The log's memory of refusals.
#[derive(Debug, Default)]
pub(super) struct VerdictLog {
    refused: BTreeMap<(PodUid, Option<ContainerName>), Refused>,
    /// When it was last said that there are too many, and how many lines were left out for that.
    flood: Option<Instant>,
    left_out: u64,
}

#[derive(Debug)]
struct Refused {
    reason: String,
    said: Instant,
    unsaid: u64,
}

impl VerdictLog {
    /// Logs a verdict, unless it says again what was said a moment ago; how often that was before, `None` where it
    /// was left unsaid.
    pub fn log(
        &mut self,
        verdict: &Verdict,
        took: Option<Duration>,
        now: Instant,
        state: Option<&State>,
    ) -> Option<u64> {
        let repeated = self.repeated(verdict, now)?;
        log::verdict(verdict, "nri", took, repeated, state);
        Some(repeated)
    }

    /// How often it was left unsaid before; `None` to leave it so.
    fn repeated(&mut self, verdict: &Verdict, now: Instant) -> Option<u64> {
        if verdict.decision != Decision::Rejected {
            return Some(0);
        }
        if self.refused.len() >= MOST {
            self.refused.retain(|_, refused| now.duration_since(refused.said) < QUIET);
        }
        let key = (verdict.pod_uid.clone(), verdict.container.clone());
        if self.refused.len() >= MOST && !self.refused.contains_key(&key) {
            self.flooded(now);
            return None;
        }
        match self.refused.get_mut(&key) {
            Some(before) if before.reason == verdict.reason && now.duration_since(before.said) < QUIET => {
                before.unsaid += 1;
                None
            }
            before => {
                let unsaid = before.map_or(0, |before| before.unsaid);
                self.refused.insert(key, Refused { reason: verdict.reason.clone(), said: now, unsaid: 0 });
                Some(unsaid)
            }
        }
    }
}

impl VerdictLog {
    /// More pods are refused in a minute than anybody reads about: that is said, once a minute.
    fn flooded(&mut self, now: Instant) {
        self.left_out += 1;
        if self.flood.is_none_or(|said| now.duration_since(said) >= QUIET) {
            self.flood = Some(now);
            tracing::warn!(
                left_out = self.left_out,
                "more than {MOST} containers refused within a minute: further ones are counted, not logged"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::testing::logged;
    use crate::model::{Candidate, Placement, Reason, Rejection, Resource, Shortage};

    #[test]
    fn a_line_has_the_fields_people_search_for() {
        let placement = Placement {
            cpus: "4-7".parse().unwrap(),
            mems: "1".parse().unwrap(),
            devices: [("nvidia.com/gpu".into(), ["GPU-a".into()].into())].into(),
            ..Placement::default()
        };
        let placed =
            Verdict { placement: Some(placement), ..Verdict::sample(Decision::Placed, "aligned on node 1") };

        let lines = logged(|| log::verdict(&placed, "nri", Some(Duration::from_micros(42)), 0, None));

        let (fields, span) = (&lines[0]["fields"], &lines[0]["span"]);
        assert_eq!(lines[0]["level"], "INFO");
        assert_eq!(fields["decision"], "placed");
        assert_eq!(fields["reason"], "aligned on node 1");
        assert_eq!(fields["request"], "4 CPUs");
        assert_eq!(fields["placement"], "cpus 4-7, mems 1, nvidia.com/gpu GPU-a");
        assert_eq!(fields["duration_us"], 42);
        assert!(fields.get("simulated").is_none() && fields.get("repeated").is_none());
        for (field, value) in [
            ("pod", "vllm"),
            ("namespace", "default"),
            ("pod_uid", "uid"),
            ("container", "main"),
            ("source", "nri"),
        ] {
            assert_eq!(span[field], value, "{field}");
        }
    }

    #[test]
    fn a_refusal_says_what_was_short_where() {
        let short = vec![Shortage { resource: Resource::Cpu, needed: 4, available: 2 }];
        let rejection = Rejection {
            candidates: vec![Candidate { nodes: "0".parse().unwrap(), short }],
            ..Rejection::of_container(Reason::TopologyAffinity, "main".into(), "full")
        };
        let refused =
            Verdict { rejection: Some(Box::new(rejection)), ..Verdict::sample(Decision::Rejected, "full") };
        let lines = logged(|| log::verdict(&refused, "nri", None, 0, None));
        let evidence = lines[0]["fields"]["evidence"].as_str().unwrap();
        let evidence: serde_json::Value = serde_json::from_str(evidence).unwrap();
        let one = &evidence["candidates"][0];
        assert_eq!((&one["nodes"], &one["short"][0]["resource"]), (&"0".into(), &"cpu".into()));
        assert_eq!((&one["short"][0]["needed"], &one["short"][0]["available"]), (&4.into(), &2.into()));
        assert!(lines[0]["fields"].get("evidence_cut").is_none());
    }

    #[test]
    fn a_warning_and_a_simulation_say_so() {
        let line = Verdict { warn: true, simulated: true, ..Verdict::sample(Decision::Exempt, "x") };

        let lines = logged(|| log::verdict(&line, "nri", None, 0, None));

        assert_eq!(lines[0]["level"], "WARN");
        assert_eq!(lines[0]["fields"]["simulated"], true);
    }

    #[test]
    fn the_same_refusal_is_said_once_a_minute_with_its_count() {
        let start = Instant::now();
        let mut log = VerdictLog::default();
        let mut at = |seconds: u64, decision, reason| {
            log.repeated(&Verdict::sample(decision, reason), start + Duration::from_secs(seconds))
        };
        assert_eq!(at(0, Decision::Rejected, "full"), Some(0));
        assert_eq!(at(10, Decision::Rejected, "full"), None);
        assert_eq!(at(20, Decision::Rejected, "full"), None);
        assert_eq!(at(61, Decision::Rejected, "full"), Some(2));
        assert_eq!(at(62, Decision::Rejected, "another reason"), Some(0));
        assert_eq!(at(63, Decision::Placed, "aligned"), Some(0));
        assert_eq!(at(63, Decision::Placed, "aligned"), Some(0));
    }

    #[test]
    fn a_flood_of_different_pods_is_said_once_and_no_more_is_remembered() {
        let start = Instant::now();
        let mut log = VerdictLog::default();
        let mut at = |pod: u64, seconds: u64| {
            let mut refused = Verdict::sample(Decision::Rejected, "full");
            refused.pod_uid = PodUid::new(pod.to_string());
            log.log(&refused, None, start + Duration::from_secs(seconds), None)
        };
        let lines = logged(|| {
            (0..5000).for_each(|pod| {
                at(pod, 1);
            });
        });
        assert_eq!(lines.len(), MOST + 1);
        let flood = &lines[MOST]["fields"];
        assert_eq!(flood["left_out"], 1, "{flood}");
        // A minute later those that are quiet are forgotten, and others are heard of again.
        assert_eq!(at(9999, 70), Some(0));
        assert!(log.refused.len() <= MOST && log.left_out == 5000 - MOST as u64);
    }

    #[test]
    fn the_memory_is_bounded() {
        let start = Instant::now();
        let mut log = VerdictLog::default();
        for number in 0..3000u64 {
            let mut refused = Verdict::sample(Decision::Rejected, "full");
            refused.pod_uid = PodUid::new(number.to_string());
            log.repeated(&refused, start + Duration::from_secs(number));
        }
        assert!(log.refused.len() <= MOST, "{}", log.refused.len());
    }
}
