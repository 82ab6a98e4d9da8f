//! Commands in a text as they are pasted: rules and findings do not know where the run lies.

/// The command of a verb about this run, such as `nilo leak --dir runs ID` for `leak`.
pub(crate) type CommandOfRun<'a> = &'a dyn Fn(&str) -> String;

/// Verbs that texts of rules, findings and forecasts name without a run.
const VERBS: [&str; 3] = ["leak", "optimize", "request"];

/// A text in which each of these commands is about this run.
pub(crate) fn with_commands(text: &str, command: CommandOfRun<'_>) -> String {
    VERBS.into_iter().fold(text.to_owned(), |text, verb| {
        let plain = format!("`nilo {verb}`");
        match text.contains(&plain) {
            true => text.replace(&plain, &format!("`{}`", command(verb))),
            false => text,
        }
    })
}
