//! The report of `nilo optimize` as Markdown: what was measured and what is expected stand apart.

use std::fmt::Write;

use nilo_answer::optimize::OptimizeAnswer;
use nilo_sample::printable::printable;

use crate::text::advice::{confidence_in_words, optimization_in_words, saving_in_words};
use crate::text::one_line::one_line;
use crate::text::optimize::{failure, memory_in_words, not_looked_at, nothing, title};
use crate::text::run_commands::{CommandOfRun, with_commands};

const COMMAND_CHARS: usize = 200;

/// The whole report.
pub(crate) fn markdown(answer: &OptimizeAnswer, command: CommandOfRun<'_>) -> String {
    let mut text = format!("# Memory optimization of {}\n\n", escape(&title(answer)));
    let recorded = one_line(&answer.command.join(" "), COMMAND_CHARS);
    if !recorded.is_empty() {
        line(&mut text, &format!("Command: {}  ", code(&recorded)));
    }
    line(&mut text, &format!("Run: {}\n", code(&answer.run)));
    if let Some(failure) = failure(answer) {
        line(&mut text, &format!("{}\n", escape(&failure)));
    }
    line(&mut text, "## Measured in this run\n");
    if let Some(memory) = memory_in_words(answer) {
        line(&mut text, &format!("{}\n", escape(&memory)));
    }
    if answer.optimizations.is_empty() {
        line(&mut text, "No optimization was tried and measured.");
    }
    for tried in &answer.optimizations {
        line(
            &mut text,
            &format!("- {}", escape(&optimization_in_words(tried))),
        );
    }
    line(&mut text, "\n## Expected, not measured\n");
    if answer.recommendations.is_empty() {
        line(&mut text, &escape(&nothing(answer)));
    }
    for (number, said) in answer.recommendations.iter().enumerate() {
        line(
            &mut text,
            &format!("{}. **{}**", number + 1, escape(&printable(&said.text))),
        );
        let confidence = confidence_in_words(said.confidence);
        line(
            &mut text,
            &format!("   - {} ({confidence})", saving_in_words(said)),
        );
        for evidence in &said.evidence {
            line(&mut text, &format!("   - {}", escape(&printable(evidence))));
        }
        let change = with_commands(&said.change, command);
        line(
            &mut text,
            &format!("   - change: {}", code(&printable(&change))),
        );
        line(
            &mut text,
            &format!("   - source: {} ({})", escape(said.source), code(said.rule)),
        );
    }
    if answer.left_out > 0 {
        line(
            &mut text,
            &format!(
                "\n{} more: {}",
                answer.left_out,
                code(&command("optimize --mode full"))
            ),
        );
    }
    if let Some(missing) = not_looked_at(&answer.not_looked_at) {
        line(
            &mut text,
            &format!("\n## Not measured\n\n{}", escape(&missing)),
        );
    }
    text
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes everything");
}

/// Text as it is: what Markdown would read as markup is escaped.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        if matches!(
            char,
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|'
        ) {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

/// Code that may hold backticks itself.
fn code(text: &str) -> String {
    let longest = text
        .split(|char| char != '`')
        .map(str::len)
        .max()
        .unwrap_or(0);
    let ticks = "`".repeat(longest + 1);
    match longest {
        0 => format!("{ticks}{text}{ticks}"),
        _ => format!("{ticks} {text} {ticks}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_program_is_no_markup() {
        assert_eq!(escape("a*b_c [x](y) <b>"), "a\\*b\\_c \\[x\\](y) \\<b\\>");
        assert_eq!(code("a b"), "`a b`");
        assert_eq!(code("a `b` ``c``"), "``` a `b` ``c`` ```");
    }
}
