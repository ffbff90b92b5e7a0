//! The findings for people, the worst first.

use super::Report;
use super::finding::{Finding, Severity};
use crate::cli::output::{Paint, count};
use anstyle::{AnsiColor, Style};
use std::fmt::Write as _;

/// The width of the longest word for a severity.
const WIDTH: usize = 11;

pub(super) fn of(report: &Report, verbose: bool, paint: Paint) -> String {
    let mut text = String::new();
    let told = report.findings.iter().filter(|finding| verbose || finding.severity != Severity::Ok);
    for finding in told {
        tell(&mut text, finding, paint);
    }
    text.push_str(&summary(report, verbose));
    text
}

fn style(severity: Severity) -> Style {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    match severity {
        Severity::Error => colour(AnsiColor::Red).bold(),
        Severity::Warning => colour(AnsiColor::Yellow).bold(),
        Severity::Note => colour(AnsiColor::Cyan),
        Severity::NotChecked => colour(AnsiColor::Magenta),
        Severity::Ok => colour(AnsiColor::Green),
    }
}

fn tell(text: &mut String, finding: &Finding, paint: Paint) {
    let word = paint.paint(style(finding.severity), &format!("{:<WIDTH$}", finding.severity.word()));
    let check = paint.paint(Style::new().dimmed(), &format!("[{}]", finding.check));
    // In a formatted string nothing fails.
    let _ = writeln!(text, "{word}  {} {check}", finding.title);
    for evidence in &finding.evidence {
        let _ = writeln!(text, "{:WIDTH$}    {}: {}", "", evidence.place, evidence.value.replace('\n', "; "));
    }
    let Some(fix) = &finding.fix else { return };
    let mut lines = fix.lines();
    let first = paint.paint(Style::new().bold(), "fix:");
    let _ = writeln!(text, "{:WIDTH$}    {first} {}", "", lines.next().unwrap_or_default());
    lines.for_each(|line| {
        let _ = writeln!(text, "{:WIDTH$}      {line}", "");
    });
}

fn summary(report: &Report, verbose: bool) -> String {
    let of = |severity| report.count(severity);
    let more = if verbose || of(Severity::Ok) == 0 { "" } else { " (-v tells of these too)" };
    format!(
        "{}, {}, {}, {} not checked, {} fine{more}\n",
        count(of(Severity::Error), "error"),
        count(of(Severity::Warning), "warning"),
        count(of(Severity::Note), "note"),
        of(Severity::NotChecked),
        of(Severity::Ok)
    )
}
