//! Programs whose short options are passwords: `curl -u me:X`, `mysql -pX`. In others the same letters mean something else.

use super::names::{LOG_IN, TAKE_PASSWORD, TAKE_USER};

/// The program that the words belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Program {
    #[default]
    Other,
    /// `-u NAME:PASSWORD`
    TakesUser,
    /// `-p PASSWORD`
    TakesPassword,
    /// `-p PASSWORD` after `login`.
    LogsIn,
}

/// What a word is to its program, with the value that is attached to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShortOption<'a> {
    Other,
    Password(&'a str),
    UserAndPassword(&'a str),
}

impl Program {
    /// The program that the words behind this one belong to.
    pub(super) fn after(self, word: &str) -> Program {
        if matches!(word, "|" | "||" | "&&" | "&") || word.ends_with(';') {
            return Program::Other;
        }
        let name = word.trim_matches(|c: char| matches!(c, '"' | '\'' | '(' | '`' | '$'));
        let name = name.rsplit('/').next().unwrap_or(name);
        match name {
            // What `sshpass` runs: its `-p` is the port.
            "ssh" | "scp" | "sftp" => Program::Other,
            "login" if self == Program::LogsIn => Program::TakesPassword,
            name if TAKE_USER.contains(&name) => Program::TakesUser,
            name if TAKE_PASSWORD.contains(&name) => Program::TakesPassword,
            name if LOG_IN.contains(&name) => Program::LogsIn,
            _ => self,
        }
    }

    /// What a word is to this program.
    pub(super) fn short_option(self, word: &str) -> ShortOption<'_> {
        let attached = |options: &[&str]| {
            options.iter().find_map(|option| {
                let value = word.strip_prefix(option)?;
                match option.starts_with("--") {
                    true if value.is_empty() => Some(value),
                    true => value.strip_prefix('='),
                    false => Some(value),
                }
            })
        };
        let found = match self {
            Program::TakesUser => {
                attached(&["-u", "-U", "--user", "--proxy-user"]).map(ShortOption::UserAndPassword)
            }
            Program::TakesPassword => attached(&["-p"]).map(ShortOption::Password),
            Program::Other | Program::LogsIn => None,
        };
        found.unwrap_or(ShortOption::Other)
    }
}
