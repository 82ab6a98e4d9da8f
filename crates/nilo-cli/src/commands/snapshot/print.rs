//! An answer on standard output: JSON, or words that fit the screen.

use std::io::{self, Write};
use std::path::PathBuf;

use serde::Serialize;

use crate::args::{TextOrJson, TraceAnswerArgs};
use crate::screen::Screen;
use crate::text::json::write_json;
use crate::wrap::WrappingWriter;

/// Prints an answer; `write_text` puts it into words.
pub(crate) fn print_answer<T: Serialize>(
    format: TextOrJson,
    answer: &T,
    write_text: fn(&mut dyn Write, Screen, &T) -> io::Result<()>,
) -> io::Result<()> {
    let screen = Screen::stdout();
    let mut out = io::stdout().lock();
    match format {
        TextOrJson::Json => write_json(&mut out, answer),
        TextOrJson::Text => write_text(&mut WrappingWriter::new(out, screen), screen, answer),
    }
}

/// Prints the answers for several files: parts with a blank line between them, or a list; where one file was named, that answer alone.
pub(crate) fn print_each<T: Serialize>(
    TraceAnswerArgs { format, .. }: &TraceAnswerArgs,
    files: &[PathBuf],
    answers: &[T],
    write_text: fn(&mut dyn Write, Screen, &T) -> io::Result<()>,
) -> io::Result<()> {
    if let ([only], [_]) = (answers, files) {
        return print_answer(*format, only, write_text);
    }
    if *format == TextOrJson::Json {
        return write_json(&mut io::stdout().lock(), &answers);
    }
    for (place, answer) in answers.iter().enumerate() {
        if place > 0 {
            writeln!(io::stdout())?;
        }
        print_answer(*format, answer, write_text)?;
    }
    Ok(())
}
