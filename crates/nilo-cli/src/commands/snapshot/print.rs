//! An answer on standard output: JSON, or words that fit the screen.

use std::io::{self, Write};

use serde::Serialize;

use crate::args::TextOrJson;
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
