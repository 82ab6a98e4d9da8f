//! Names from outside on one line of a terminal: a key of a metric may hold anything.

use nilo_sample::printable::printable;

/// A text without what moves the cursor, starts an escape sequence or turns the reading direction, cut to a number of characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let mut line: String = printable(&text.chars().take(most).collect::<String>());
    if text.chars().nth(most).is_some() {
        line.pop();
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(
            one_line("a\u{1b}[2Jb\nc\u{9b}d\u{202e}e", 40),
            "a [2Jb c d e"
        );
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("abcd", 4), "abcd");
    }
}
