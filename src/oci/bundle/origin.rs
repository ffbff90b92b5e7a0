//! A bundle before and after our own edit.

use super::super::edit::Change;
use super::super::names::Names;
use super::super::outline::Outline;
use super::super::{OciError, settle, undo};
use super::Bundle;
use super::Document;

impl Bundle {
    /// The same, with the facts of before an earlier edit of ours.
    ///
    /// # Errors
    /// What it was before is no configuration.
    pub(super) fn looked_through(mut self) -> Result<Self, OciError> {
        if self.in_kubernetes() {
            return Ok(self);
        }
        match undo::origin(&self.document, &self.outline) {
            Ok(Some(origin)) => {
                self.outline = Outline::read(origin.text(), &self.path)?.0;
                self.origin = Some(origin);
            }
            Ok(None) => {}
            // What of ours cannot be told from the rest is not there.
            Err(error) => tracing::debug!(%error, "not looked through for an earlier edit"),
        }
        Ok(self)
    }

    fn in_kubernetes(&self) -> bool {
        Names::of("", &self.outline).in_kubernetes()
    }

    /// The text of before our own edits, an earlier run's among them. Tells whether there are any.
    pub fn take_back(&mut self) -> bool {
        if let Some(origin) = &self.origin {
            self.document = origin.clone();
        }
        self.origin.is_some()
    }

    /// Carries a change out on the text, or nothing of it; a container that shares gets `hook` as well.
    ///
    /// # Errors
    /// Something in it is not what the runtime-spec says.
    pub(in super::super) fn change(
        &mut self,
        change: &Change<'_>,
        hook: Option<&str>,
    ) -> Result<(), OciError> {
        let before = self.document.clone();
        let changed = self.try_to_change(change, hook);
        if changed.is_err() {
            self.document = before;
        }
        changed
    }

    fn try_to_change(&mut self, change: &Change<'_>, hook: Option<&str>) -> Result<(), OciError> {
        if !change.stands {
            self.take_back();
        }
        let origin = self.origin.get_or_insert_with(|| self.document.clone()).clone();
        self.edit(change.edit)?;
        let error = |source| OciError::Document { path: self.path.clone(), source };
        if let Some(hook) = hook.filter(|_| change.shares) {
            with_hook(&mut self.document, hook).map_err(error)?;
        }
        match self.in_kubernetes() {
            true => Ok(()),
            false => undo::note(&mut self.document, &origin).map_err(error),
        }
    }
}

fn with_hook(document: &mut Document, hook: &str) -> Result<(), super::super::document::DocumentError> {
    match document.elements(&undo::HOOKS)?.into_iter().any(settle::is_ours) {
        true => Ok(()),
        false => document.append(&undo::HOOKS, &[hook.to_owned()]),
    }
}
