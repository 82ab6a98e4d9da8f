//! Secrets in command lines and settings: tokens, keys and passwords are replaced by `***` before anything is stored.
//!
//! Command lines are shown to colleagues, put into pictures and exported, and people pass secrets in them
//! (`--token X`, `HF_TOKEN=X`, `-H "Authorization: Bearer X"`, `https://user:X@host`).
//! A value is hidden by the name before it, or by the way that well-known services begin theirs.
//! A harmless value that is hidden costs little; names that training scripts use for tokens of text are spared.

mod known_look;
mod names;
mod program;
#[cfg(test)]
mod redact_tests;
mod secret_name;
mod settings;

use known_look::{hide_known, hide_url_password};
use names::SCHEMES;
use program::{Program, ShortOption, is_port_mapping};
use secret_name::{is_secret_name, is_signature};

pub use settings::{redact_settings, redact_tags};

/// What stands in the place of a secret.
pub const REDACTED: &str = "***";

/// An argument list without its secrets.
pub fn redact_arguments(arguments: &[String]) -> Vec<String> {
    let mut hider = Redactor::default();
    let mut sets_variables = false;
    arguments
        .iter()
        .map(|argument| {
            let program = hider.program;
            let is_variable = sets_variables && variable_name(argument).is_some();
            sets_variables = is_variable || announces_variable(argument);
            let whole = match is_variable {
                true => secret_to_the_end(argument),
                false => long_option_with_secret(argument),
            };
            let hidden = whole.unwrap_or_else(|| hider.argument(argument));
            // What a header announces ends with its argument, and so does a script's last command.
            if argument.contains(char::is_whitespace) {
                hider.expects = Expects::Nothing;
                hider.program = program;
            }
            hidden
        })
        .collect()
}

/// A command line as one text, without its secrets.
pub fn redact_text(text: &str) -> String {
    Redactor::default().argument(text)
}

/// What a program or a person said, without its secrets: an exception's message, a mark, the name of a run.
///
/// As in a command line, but for what ordinary sentences say: "unexpected token: x", "missing key: y", `sorted(key=len)`.
pub fn redact_message(text: &str) -> String {
    let mut hider = Redactor {
        is_prose: true,
        ..Redactor::default()
    };
    hider.argument(text)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Expects {
    #[default]
    Nothing,
    /// The next word is a secret, unless it is an option.
    Secret,
    /// The next word is a password, unless it is an option or the ports of a container.
    Password,
    /// The next word is `NAME:PASSWORD`, with this between the two.
    UserAndPassword(char),
    /// The next word is a secret or the scheme before it.
    SchemeOrSecret,
    /// The next word is a secret whatever it looks like.
    SecretAfterScheme,
    /// The secret goes on until this quote.
    Quote(char),
}

#[derive(Default)]
struct Redactor {
    expects: Expects,
    program: Program,
    /// Sentences, in which some names announce nothing.
    is_prose: bool,
}

impl Redactor {
    /// One argument; a script after `-c` or a header has several words, whose gaps are kept.
    fn argument(&mut self, argument: &str) -> String {
        if !argument.contains(char::is_whitespace) {
            return self.words_of_list(argument);
        }
        if let Some(hidden) = self.secret_of_several_words(argument) {
            return hidden;
        }
        let mut hidden = String::with_capacity(argument.len());
        let mut rest = argument;
        while !rest.is_empty() {
            let gap = rest.len() - rest.trim_start().len();
            // A script's next line is another command, unless the line goes on.
            if rest[..gap].contains('\n') && !hidden.ends_with('\\') {
                self.program = Program::default();
            }
            hidden.push_str(&rest[..gap]);
            rest = &rest[gap..];
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            if end > 0 {
                hidden.push_str(&self.words_of_list(&rest[..end]));
            }
            rest = &rest[end..];
        }
        hidden
    }

    /// An argument whose secret is all of it, or goes on to its end: after an option that announced it.
    fn secret_of_several_words(&mut self, argument: &str) -> Option<String> {
        match std::mem::take(&mut self.expects) {
            Expects::Secret if !argument.starts_with("--") => Some(REDACTED.to_owned()),
            Expects::Password if !argument.starts_with('-') => Some(REDACTED.to_owned()),
            Expects::UserAndPassword(between) if !argument.starts_with('-') => {
                let (name, _) = argument.split_once(between)?;
                Some(format!("{name}{between}{REDACTED}"))
            }
            expected => {
                self.expects = expected;
                None
            }
        }
    }

    /// A word, or several that are the texts of a list: `["mysql","-pX"]`.
    fn words_of_list(&mut self, word: &str) -> String {
        let mut hidden = String::with_capacity(word.len());
        let mut rest = word;
        while let Some(comma) = find_comma_between_quotes(rest) {
            hidden.push_str(&self.word(&rest[..comma]));
            hidden.push(',');
            rest = &rest[comma + 1..];
        }
        hidden + &self.word(rest)
    }

    fn word(&mut self, word: &str) -> String {
        match std::mem::take(&mut self.expects) {
            Expects::Secret if !word.starts_with("--") => return self.hide(word),
            Expects::Quote(quote) => {
                return match word.split_once(quote) {
                    Some((_, rest)) => format!("{REDACTED}{quote}{rest}"),
                    None => {
                        self.expects = Expects::Quote(quote);
                        REDACTED.to_owned()
                    }
                };
            }
            Expects::SchemeOrSecret => {
                if SCHEMES.contains(&letters(word).to_ascii_lowercase().as_str()) {
                    self.expects = Expects::SecretAfterScheme;
                    return word.to_owned();
                }
                return self.hide(word);
            }
            Expects::SecretAfterScheme => return self.hide(word),
            Expects::Password if !word.starts_with('-') && !is_port_mapping(word) => {
                return self.hide(word);
            }
            Expects::UserAndPassword(between) if !word.starts_with('-') => {
                return self.hide_password(word, between);
            }
            Expects::Secret
            | Expects::Password
            | Expects::UserAndPassword(_)
            | Expects::Nothing => {}
        }
        let program = self.program;
        self.program = program.after(word);
        match program.short_option(word) {
            ShortOption::Password("") => {
                self.expects = Expects::Password;
                return word.to_owned();
            }
            ShortOption::UserAndPassword("", between) => {
                self.expects = Expects::UserAndPassword(between);
                return word.to_owned();
            }
            ShortOption::Password(value) => {
                return format!("{}{}", &word[..word.len() - value.len()], self.hide(value));
            }
            ShortOption::UserAndPassword(value, between) => {
                let name = &word[..word.len() - value.len()];
                return format!("{name}{}", self.hide_password(value, between));
            }
            ShortOption::Other => {}
        }
        let option = word.trim_start_matches(['"', '\'', '[', '(']);
        if option.starts_with('-') && !option.contains(['=', ':']) && is_secret_name(option) {
            self.expects = Expects::Secret;
            return word.to_owned();
        }
        let word = hide_url_password(word);
        let word = self.assignments(&word);
        hide_known(&word)
    }

    /// Hides a value, and what follows when a quote is open.
    fn hide(&mut self, value: &str) -> String {
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        if let Some(quote) = quote
            && !value[1..].contains(quote)
        {
            self.expects = Expects::Quote(quote);
        }
        hide(value)
    }

    /// Hides the password of `NAME:PASSWORD`.
    fn hide_password(&mut self, value: &str, between: char) -> String {
        match value.split_once(between) {
            Some((name, password)) => {
                // A quote that is open before the name ends behind the password.
                let quote = name.chars().next().filter(|c| matches!(c, '"' | '\''));
                if let Some(quote) = quote
                    && !password.contains(quote)
                {
                    self.expects = Expects::Quote(quote);
                }
                format!("{name}{between}{}", hide(password))
            }
            None => value.to_owned(),
        }
    }

    /// `NAME=VALUE` and `NAME:VALUE`, also several behind each other as in the query of an address.
    fn assignments(&mut self, word: &str) -> String {
        let mut hidden = String::with_capacity(word.len());
        let separators = ['?', '&', ';', ','];
        let address = word.find("://");
        let query = address.and_then(|at| word[at..].find('?').map(|found| at + found));
        let mut start = 0;
        for part in word.split_inclusive(separators) {
            let (body, tail) = match part.chars().last().filter(|c| separators.contains(c)) {
                Some(c) => part.split_at(part.len() - c.len_utf8()),
                None => (part, ""),
            };
            let is_in_query = query.is_some_and(|query| start > query);
            start += part.len();
            let at = self.secret_assignment(body, is_in_query);
            match at {
                Some(at) if letters(&body[at + 1..]).is_empty() && body[at..].starts_with(':') => {
                    // `Authorization:` with its value in the next word.
                    self.expects = Expects::SchemeOrSecret;
                    hidden.push_str(body);
                }
                Some(at) => {
                    hidden.push_str(&body[..=at]);
                    hidden.push_str(&self.hide(&body[at + 1..]));
                }
                None => hidden.push_str(body),
            }
            hidden.push_str(tail);
        }
        hidden
    }

    /// Where the first secret of `NAME=VALUE` is assigned; the value may have names of its own, as in `--conf={"token":"X"}`.
    fn secret_assignment(&self, text: &str, is_in_query: bool) -> Option<usize> {
        let mut start = 0;
        text.match_indices(['=', ':']).find_map(|(at, sign)| {
            let name = &text[start..at];
            start = at + 1;
            let is_secret = is_secret_name(name) || (is_in_query && is_signature(name));
            let is_spared = self.is_prose && announces_nothing(name, sign);
            (!text[at..].starts_with("://") && is_secret && !is_spared).then_some(at)
        })
    }
}

/// Names that sentences have for other things.
fn announces_nothing(name: &str, sign: &str) -> bool {
    let name = letters(name).to_ascii_lowercase();
    match name.as_str() {
        "key" | "pass" | "auth" => true,
        "token" => sign == ":",
        _ => false,
    }
}

/// `--password=X Y Z` as one argument, where the secret goes on to its end.
fn long_option_with_secret(argument: &str) -> Option<String> {
    argument
        .starts_with("--")
        .then(|| secret_to_the_end(argument))?
}

/// `NAME=X Y Z` as one argument that is no script.
fn secret_to_the_end(argument: &str) -> Option<String> {
    let (name, value) = argument.split_once('=')?;
    let is_name = !name.contains(char::is_whitespace);
    let several = value.trim_start().contains(char::is_whitespace);
    (is_name && several && is_secret_name(name)).then(|| format!("{name}={REDACTED}"))
}

/// Whether what follows may be a variable: `env NAME=X`, `docker run -e NAME=X`. Elsewhere `NAME=X command` may be a script.
fn announces_variable(argument: &str) -> bool {
    matches!(argument, "env" | "-e" | "--env") || argument.ends_with("/env")
}

fn variable_name(argument: &str) -> Option<&str> {
    let (name, _) = argument.split_once('=')?;
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && !name.is_empty()).then_some(name)
}

fn find_comma_between_quotes(text: &str) -> Option<usize> {
    let at = |separator: &str| text.find(separator).map(|start| start + 1);
    at("\",\"").into_iter().chain(at("','")).min()
}

/// Quotes and brackets stay, so that a script still reads as one.
fn hide(value: &str) -> String {
    let is_frame = |c: char| {
        matches!(
            c,
            '"' | '\'' | '{' | '}' | '(' | ')' | '[' | ']' | '\\' | ',' | ';'
        )
    };
    let bare = value.trim_matches(is_frame);
    if bare.is_empty() || bare == REDACTED {
        return value.to_owned();
    }
    // A variable names a secret without telling it.
    let name = bare.strip_prefix('$').unwrap_or("");
    let is_variable = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '{' | '}'));
    if !name.is_empty() && is_variable {
        return value.to_owned();
    }
    let start = value.find(bare).unwrap_or(0);
    format!(
        "{}{REDACTED}{}",
        &value[..start],
        &value[start + bare.len()..]
    )
}

/// Addresses without their secrets, in any text: passwords before the host, keys and signatures in the query.
fn hide_in_addresses(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace);
    let hide_in = |part: &str| {
        let (word, gap) = part.split_at(part.trim_end().len());
        let mut hidden = hide_url_password(word);
        let address = hidden.find("://");
        if address.is_some_and(|at| hidden[at..].contains('?')) {
            hidden = Redactor::default().assignments(&hidden);
        }
        hidden + gap
    };
    words.map(hide_in).collect()
}

fn letters(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}
