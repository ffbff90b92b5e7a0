//! The findings as JSON; the README describes it.

use super::Report;
use super::finding::{Finding, Severity};
use serde::Serialize;
use std::collections::BTreeMap;

/// Grows with every change that a reader of the last one would stumble over.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    /// The directory that was looked into, `/` for this machine.
    root: &'a str,
    summary: BTreeMap<&'static str, usize>,
    findings: Vec<Told<'a>>,
}

#[derive(Serialize)]
struct Told<'a> {
    check: &'a str,
    severity: Severity,
    title: &'a str,
    evidence: Vec<Seen<'a>>,
    /// `null` where there is nothing to do.
    fix: Option<&'a str>,
}

#[derive(Serialize)]
struct Seen<'a> {
    place: &'a str,
    /// `null` where it is no line of a file, or not known.
    line: Option<usize>,
    value: &'a str,
}

pub(super) fn of(report: &Report) -> String {
    let keys = ["errors", "warnings", "notes", "not_checked", "ok"];
    let summary = keys.into_iter().zip(Severity::ALL).map(|(key, severity)| (key, report.count(severity)));
    let document = Document {
        version: VERSION,
        root: &report.root,
        summary: summary.collect(),
        findings: report.findings.iter().map(told).collect(),
    };
    // Strings, numbers and lists of them: there is nothing in it that JSON could not say.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn told(finding: &Finding) -> Told<'_> {
    let seen = finding.evidence.iter().map(|evidence| Seen {
        place: &evidence.place.file,
        line: evidence.place.line,
        value: &evidence.value,
    });
    Told {
        check: finding.check,
        severity: finding.severity,
        title: &finding.title,
        evidence: seen.collect(),
        fix: finding.fix.as_deref(),
    }
}
