//! What a check says: how bad it is, what was seen where, and what to do about it.

use crate::discover::Place;
use serde::Serialize;

/// How bad something is, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Pinning does not happen, or pods are refused that should start.
    Error,
    /// Pinning happens and is worth less than it seems.
    Warning,
    /// Good to know.
    Note,
    /// It could not be looked at.
    NotChecked,
    /// As it should be.
    Ok,
}

impl Severity {
    /// All, worst first.
    pub const ALL: [Self; 5] = [Self::Error, Self::Warning, Self::Note, Self::NotChecked, Self::Ok];

    /// The word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
            Self::NotChecked => "not checked",
            Self::Ok => "ok",
        }
    }
}

/// Something that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Where.
    pub place: Place,
    /// What stands there.
    pub value: String,
}

/// What a check says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The check's name, such as `kubelet.cpu-state`. It stays the same from version to version.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What it is, in one sentence.
    pub title: String,
    /// What was seen.
    pub evidence: Vec<Evidence>,
    /// What to write where, or to run.
    pub fix: Option<String>,
}

impl Finding {
    fn new(check: &'static str, severity: Severity, title: impl Into<String>) -> Self {
        Self { check, severity, title: title.into(), evidence: Vec::new(), fix: None }
    }

    /// Pinning does not happen.
    pub fn error(check: &'static str, title: impl Into<String>) -> Self {
        Self::new(check, Severity::Error, title)
    }

    /// Pinning is worth less than it seems.
    pub fn warning(check: &'static str, title: impl Into<String>) -> Self {
        Self::new(check, Severity::Warning, title)
    }

    /// Good to know.
    pub fn note(check: &'static str, title: impl Into<String>) -> Self {
        Self::new(check, Severity::Note, title)
    }

    /// It could not be looked at; the title says why.
    pub fn not_checked(check: &'static str, why: impl Into<String>) -> Self {
        Self::new(check, Severity::NotChecked, why)
    }

    /// As it should be.
    pub fn ok(check: &'static str, title: impl Into<String>) -> Self {
        Self::new(check, Severity::Ok, title)
    }

    /// With that seen there.
    #[must_use]
    pub fn seen(mut self, place: &Place, value: impl Into<String>) -> Self {
        self.evidence.push(Evidence { place: place.clone(), value: value.into() });
        self
    }

    /// With that seen in a file.
    #[must_use]
    pub fn seen_in(self, file: &str, value: impl Into<String>) -> Self {
        self.seen(&Place::file(file), value)
    }

    /// With this to do.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}
