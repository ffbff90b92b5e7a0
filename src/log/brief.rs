//! Fields of a line for people: without those that only programs read, and on one line whatever is in them.

use crate::model::one_line;
use std::fmt;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::{RecordFields, VisitFmt, VisitOutput};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultVisitor, Writer};

/// As `tracing_subscriber` writes them, `evidence` left out: what it says in short is in the reason.
pub(super) struct Brief;

impl<'writer> FormatFields<'writer> for Brief {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = Without(DefaultVisitor::new(writer, true));
        fields.record(&mut visitor);
        visitor.0.finish()
    }
}

struct Without<V>(V);

impl<V: VisitFmt> Without<V> {
    fn is_for_programs(field: &Field) -> bool {
        matches!(field.name(), "evidence" | "evidence_cut")
    }
}

impl<V: VisitFmt> Visit for Without<V> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if !Self::is_for_programs(field) {
            // A text has been escaped by then, what is told by its `Display` has not.
            self.0.record_debug(field, &format_args!("{}", one_line(&format!("{value:?}"))));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if !Self::is_for_programs(field) {
            self.0.record_str(field, value);
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
