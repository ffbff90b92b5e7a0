//! The story for people.

use super::now::{Now, resource};
use super::{Part, Story, advice};
use crate::cli::output::Paint;
use crate::store::{CandidateTold, Evidence, ShortTold, Told};
use std::fmt::Write as _;

/// How many earlier words about a container are told.
const BEFORE: usize = 5;

pub(super) fn print(story: &Story, now: &Now<'_>, paint: Paint) -> String {
    let mut text = format!("{} (pod {})\n", paint.bold(&story.pod), story.pod_uid);
    if story.earlier > 0 {
        let many = if story.earlier == 1 { "an earlier pod" } else { "earlier pods" };
        let _ = writeln!(text, "{}", paint.dim(&format!("{many} of this name left out: ask by UID")));
    }
    for part in &story.parts {
        let name = part
            .container
            .as_ref()
            .map_or("the pod as a whole".to_owned(), |name| format!("container {name}"));
        let _ = writeln!(text, "\n{}", paint.bold(&name));
        text += &self::part(part, now, paint);
    }
    text
}

fn part(part: &Part, now: &Now<'_>, paint: Paint) -> String {
    let mut text = String::new();
    if let Some(holds) = &part.holds {
        let state = if holds.running { "runs with" } else { "has stopped; kept while its pod lives:" };
        let _ = writeln!(text, "  now: {state} {} (placed by {}, id {})", holds.text, holds.by, holds.id);
    }
    let Some(last) = part.last() else {
        let _ = writeln!(text, "  no verdict is remembered; the log may have it (--log)");
        return text;
    };
    let _ = writeln!(text, "  {}", headline(last, paint));
    let _ = writeln!(text, "  {}", last.reason);
    for (word, value) in [
        ("asked for", Some(&last.request).filter(|request| !request.is_empty())),
        ("got", last.placement.as_ref()),
        ("memory policy", last.memory_policy.as_ref()),
    ] {
        let Some(value) = value else { continue };
        let _ = writeln!(text, "  {word}: {value}");
    }
    if let Some(evidence) = &last.evidence {
        text += &self::evidence(evidence, now);
    }
    let steps = advice::steps(part);
    if !steps.is_empty() {
        text += "  what to do:\n";
        for step in &steps {
            let _ = writeln!(text, "    - {step}");
        }
    }
    text + &before(part, paint)
}

fn headline(told: &Told, paint: Paint) -> String {
    let word = match told.decision.as_str() {
        "rejected" => paint.red("rejected"),
        word => paint.bold(word),
    };
    let simulated = if told.simulated { " (only simulated)" } else { "" };
    let when = match told.times {
        0 | 1 => format!("at {}", told.time),
        times => format!("{times} times, from {} to {}", told.first, told.time),
    };
    let took = told.duration_us.map(|took| format!(", decided in {took} µs")).unwrap_or_default();
    format!("{word}{simulated} {when} by {}{took}", told.source)
}

fn evidence(evidence: &Evidence, now: &Now<'_>) -> String {
    let mut text = String::new();
    for candidate in evidence.candidates.iter().filter(|candidate| !candidate.short.is_empty()) {
        for short in &candidate.short {
            text += &shortage(candidate, short, now);
        }
    }
    if let Some(weaker) = &evidence.weaker {
        let _ = writeln!(
            text,
            "  under {} it would have started on {}",
            weaker.policy,
            advice::nodes(&weaker.nodes)
        );
    }
    text
}

fn shortage(candidate: &CandidateTold, short: &ShortTold, now: &Now<'_>) -> String {
    let of = resource(&short.resource);
    let free_now = match now.free(&candidate.nodes, &short.resource) {
        Some(free) => format!(", {} now", of.amount(free)),
        None => String::new(),
    };
    let (needed, available) = (of.amount(short.needed), of.amount(short.available));
    let mut text =
        format!("  {}: {needed} needed, {available} free then{free_now}\n", advice::nodes(&candidate.nodes));
    for holder in &short.holders {
        let stopped = if holder.stopped { ", stopped" } else { "" };
        let _ = writeln!(
            text,
            "    {}/{} has {} there{stopped}",
            holder.pod,
            holder.container,
            of.amount(holder.amount)
        );
    }
    text
}

fn before(part: &Part, paint: Paint) -> String {
    let mut text = String::new();
    let earlier: Vec<&Told> = part.told.iter().rev().skip(1).collect();
    for told in earlier.iter().take(BEFORE).rev() {
        let times = if told.times > 1 { format!(" ({} times)", told.times) } else { String::new() };
        let line = format!("before: {} {}{times}: {}", told.time, told.decision, told.reason);
        let _ = writeln!(text, "  {}", paint.dim(&line));
    }
    text
}
