//! What a recording may tell, and to whom: decided once for the process, before its first run, by flag, variable or settings.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use nilo_runfile::Access;
use nilo_sample::redact::{
    redact_arguments, redact_message, redact_settings, redact_tags, redact_text,
};
use nilo_sample::{ProcessInfo, UnhandledException};
use nilo_source::command_text;

static KEEP_SECRETS: AtomicBool = AtomicBool::new(false);
static SHARED: AtomicBool = AtomicBool::new(false);

/// The two decisions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Privacy {
    /// Command lines and settings are stored as they are, tokens and passwords included.
    pub keep_secrets: bool,
    /// Others may read the run folders, as the umask allows.
    pub shared: bool,
}

impl Privacy {
    /// What the user says by `NILO_KEEP_SECRETS` and `NILO_SHARED`, and otherwise these.
    pub fn or_by_environment(self) -> Privacy {
        let says = |name: &str| match std::env::var(name).as_deref() {
            Ok("") | Err(_) => None,
            Ok(text) => Some(!matches!(text, "0" | "false" | "no" | "off")),
        };
        Privacy {
            keep_secrets: says("NILO_KEEP_SECRETS").unwrap_or(self.keep_secrets),
            shared: says("NILO_SHARED").unwrap_or(self.shared),
        }
    }

    /// Takes effect for every run that this process begins from here on.
    pub fn apply(self) {
        KEEP_SECRETS.store(self.keep_secrets, Ordering::Relaxed);
        SHARED.store(self.shared, Ordering::Relaxed);
    }
}

/// Who may look into a new run folder.
pub(crate) fn access() -> Access {
    match SHARED.load(Ordering::Relaxed) {
        true => Access::Shared,
        false => Access::Private,
    }
}

/// A command line as it may be stored.
pub(crate) fn stored_command(command: &[String]) -> Vec<String> {
    match keeps_secrets() {
        true => command.to_vec(),
        false => redact_arguments(command),
    }
}

/// A name made of a command line, likewise.
pub(crate) fn stored_name(name: &str) -> String {
    match keeps_secrets() {
        true => name.to_owned(),
        false => redact_text(name),
    }
}

/// What a person or a program said, as it may be stored: a mark, the name of a run.
pub fn stored_message(text: &str) -> String {
    match keeps_secrets() {
        true => text.to_owned(),
        false => redact_message(text),
    }
}

/// An exception, likewise.
pub fn stored_exception(mut exception: UnhandledException) -> UnhandledException {
    exception.message = stored_message(&exception.message);
    for cause in &mut exception.causes {
        *cause = stored_message(cause);
    }
    exception
}

/// A program's settings as they may be stored.
pub fn stored_settings(
    mut settings: BTreeMap<String, serde_json::Value>,
) -> BTreeMap<String, serde_json::Value> {
    if !keeps_secrets() {
        redact_settings(&mut settings);
    }
    settings
}

/// A run's tags, likewise.
pub(crate) fn stored_tags(mut tags: BTreeMap<String, String>) -> BTreeMap<String, String> {
    if !keeps_secrets() {
        redact_tags(&mut tags);
    }
    tags
}

/// Whether secrets are stored as they are.
pub(crate) fn keeps_secrets() -> bool {
    KEEP_SECRETS.load(Ordering::Relaxed)
}

/// A process as it may be stored. Its name may be its command line, where the program sets its own title.
pub(crate) fn stored_process(info: &ProcessInfo) -> ProcessInfo {
    let mut info = info.clone();
    if !keeps_secrets() {
        info.name = stored_name(&info.name);
    }
    info.command = stored_command_line(&info);
    info.arguments = Vec::new();
    info
}

/// A process's command line as one text, as it may be stored: hidden argument by argument, as a secret may have several words.
pub fn stored_command_line(info: &ProcessInfo) -> String {
    match keeps_secrets() {
        true => info.command.clone(),
        false => command_text(&redact_arguments(&info.arguments)),
    }
}
