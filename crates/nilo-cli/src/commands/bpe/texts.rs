//! The texts that the user named.

use nilo_tokenizer::{
    Corpus, CorpusError, CountError, Documents, Pattern, PatternError, TextFormat,
};

use crate::args::Texts;
use crate::failure::Failure;

impl Texts {
    /// How text is split into words.
    pub(super) fn pattern(&self) -> Result<Pattern, Failure> {
        pattern(self.pattern.as_deref().unwrap_or("gpt2"))
    }

    /// The files, looked for before anything begins.
    pub(super) fn corpus(&self) -> Result<Corpus, Failure> {
        check_special_tokens(&self.special_tokens)?;
        let inputs: Vec<String> = self
            .files
            .iter()
            .map(|path| path.to_string_lossy().into_owned())
            .collect();
        if inputs.is_empty() {
            return Err(Failure::new("no input files given")
                .hint("name files, folders or patterns, or - for standard input"));
        }
        Corpus::find(&inputs, self.format()).map_err(|error| count_failure(error.into()))
    }

    pub(super) fn format(&self) -> TextFormat {
        let documents = match (&self.separator, &self.jsonl) {
            (_, Some(field)) => Documents::JsonLines {
                field: field.clone(),
            },
            (Some(separator), None) => Documents::Separated(unescape(separator)),
            (None, None) if self.lines => Documents::Lines,
            (None, None) => Documents::Files,
        };
        let cut_out = match self.keep_special_tokens {
            true => Vec::new(),
            false => self.special_tokens.clone(),
        };
        TextFormat { documents, cut_out }
    }
}

/// A pattern by its name or as a regular expression.
pub(super) fn pattern(text: &str) -> Result<Pattern, Failure> {
    let known = ["gpt2", "cl100k", "o200k", "none"];
    let looks_like_a_name = text
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter));
    if looks_like_a_name && !known.contains(&text) {
        return Err(
            Failure::new(format!("no pattern is called {text:?}")).hint(format!(
                "known patterns are {}; write a regular expression of letters alone as (?:{text})",
                known.join(", ")
            )),
        );
    }
    text.parse::<Pattern>().map_err(|error: PatternError| {
        let hint = error.hint();
        Failure::from(error).hint(hint)
    })
}

/// Says before hours of work that a special token cannot be one.
pub(super) fn check_special_tokens(tokens: &[String]) -> Result<(), Failure> {
    for (place, token) in tokens.iter().enumerate() {
        if token.is_empty() {
            return Err(Failure::new("a special token is empty")
                .hint("give it a text, such as '<|endoftext|>'"));
        }
        if tokens[..place].contains(token) {
            return Err(
                Failure::new(format!("the special token {token:?} is given twice"))
                    .hint("name it once: a token has one id"),
            );
        }
    }
    Ok(())
}

/// An error of the counting stage, with its way out.
pub(super) fn count_failure(error: CountError) -> Failure {
    let hint = match &error {
        CountError::Corpus(CorpusError::Empty { .. }) => Some("name files that contain text"),
        other => other.hint(),
    };
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// `\n`, `\t`, `\0` and `\\` as people type them in a shell.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('n') => plain.push('\n'),
                Some('t') => plain.push('\t'),
                Some('r') => plain.push('\r'),
                Some('0') => plain.push('\0'),
                Some('\\') => plain.push('\\'),
                Some(other) => plain.extend(['\\', other]),
                None => plain.push('\\'),
            },
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn escapes_of_the_shell_are_understood_and_others_left() {
        assert_eq!(unescape(r"\n\n"), "\n\n");
        assert_eq!(unescape(r"<|x|>\t\\\0\q\"), "<|x|>\t\\\0\\q\\");
    }
}
