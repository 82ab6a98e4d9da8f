//! What we have to say while the command has the terminal: kept until it has ended.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard};

use nilo_sample::Alert;

use crate::failure;
use crate::text::fresh_line::begin_line;

#[derive(Debug, Default)]
struct PendingMessages {
    warnings: Vec<String>,
    alert: Option<String>,
}

/// Keeps warnings back where a command shares our terminal, and prints them at once elsewhere.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeferredWarnings {
    held: Option<Arc<Mutex<PendingMessages>>>,
    /// A command writes to the same place, perhaps the bar of its progress: a line of ours begins on its own.
    shares_log: bool,
}

impl DeferredWarnings {
    /// For a command that inherits our standard error.
    pub(crate) fn for_command() -> DeferredWarnings {
        let shares = std::io::stderr().is_terminal();
        DeferredWarnings {
            held: shares.then(Arc::default),
            shares_log: !shares,
        }
    }

    pub(crate) fn warn(&self, text: &str) {
        match self.lock() {
            Some(mut held) => held.warnings.push(text.to_owned()),
            None => failure::alert("warning", text, self.shares_log),
        }
    }

    /// An alert that begins or is over. Kept back, it is in the title of the window meanwhile, and among the alerts of the summary.
    pub(crate) fn alert(&self, alert: &Alert) {
        match self.lock() {
            Some(mut held) => held.alert = alert.raised.then(|| title(alert)),
            None => failure::alert(alert.severity.as_str(), &alert.text, self.shares_log),
        }
    }

    /// The latest alert that was raised and is not over.
    pub(crate) fn current_alert(&self) -> Option<String> {
        self.lock()?.alert.clone()
    }

    /// Whether something is kept back.
    pub(crate) fn are_pending(&self) -> bool {
        self.lock().is_some_and(|held| !held.warnings.is_empty())
    }

    /// Prints what was kept back.
    pub(crate) fn release(&self) {
        let Some(mut held) = self.lock() else { return };
        if !held.warnings.is_empty() {
            begin_line();
        }
        for text in std::mem::take(&mut held.warnings) {
            failure::warn(&text);
        }
    }

    fn lock(&self) -> Option<MutexGuard<'_, PendingMessages>> {
        let held = self.held.as_ref()?;
        Some(held.lock().unwrap_or_else(|broken| broken.into_inner()))
    }
}

/// `memory-critical`, or with its severity where the kind does not say it: `critical: oom-risk`.
fn title(alert: &Alert) -> String {
    let (severity, kind) = (alert.severity.as_str(), alert.kind.as_str());
    match kind.ends_with(severity) {
        true => kind.to_owned(),
        false => format!("{severity}: {kind}"),
    }
}
