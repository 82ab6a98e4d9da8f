//! Rows of CSV, a field at a time: quoted as in RFC 4180 where they must be, lines that end in `\n`, text that harms nobody.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{self, Write};

use nilo_sample::printable::is_printable;

/// Writes rows; [`CsvRows::finish`] ends the output.
pub struct CsvRows<W: Write> {
    writer: csv::Writer<W>,
    /// A number as text, kept from field to field.
    number: String,
}

impl<W: Write> CsvRows<W> {
    /// Begins with a header.
    pub fn new(
        output: W,
        header: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> io::Result<CsvRows<W>> {
        let writer = csv::WriterBuilder::new()
            .terminator(csv::Terminator::Any(b'\n'))
            .from_writer(output);
        let mut rows = CsvRows {
            writer,
            number: String::new(),
        };
        for name in header {
            rows.text(name.as_ref())?;
        }
        rows.end_row()?;
        Ok(rows)
    }

    /// A field of text that comes from programs and goes to people.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        self.writer
            .write_field(harmless(text).as_bytes())
            .map_err(io_error)
    }

    /// A field with a number, or with anything else that cannot do harm.
    pub fn number(&mut self, number: impl Display) -> io::Result<()> {
        self.number.clear();
        // Writing to a String cannot fail.
        let _ = write!(self.number, "{number}");
        self.writer
            .write_field(self.number.as_bytes())
            .map_err(io_error)
    }

    /// The same, or an empty field where nothing was measured.
    pub fn number_if_known(&mut self, number: Option<impl Display>) -> io::Result<()> {
        match number {
            Some(number) => self.number(number),
            None => self.writer.write_field([]).map_err(io_error),
        }
    }

    /// Ends the row.
    pub fn end_row(&mut self) -> io::Result<()> {
        self.writer.write_record(None::<&[u8]>).map_err(io_error)
    }

    /// Hands over what was written so far, in one piece.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Ends the output.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()
    }
}

/// The error itself: inside of another one, a closed pipe would not be known as such.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Characters that act on a terminal become blanks, and what a spreadsheet would compute gets an apostrophe in front.
fn harmless(text: &str) -> Cow<'_, str> {
    let keeps = |c: char| is_printable(c) || matches!(c, '\n' | '\r' | '\t');
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if !is_formula && text.chars().all(keeps) {
        return Cow::Borrowed(text);
    }
    let mut field: String = text
        .chars()
        .map(|c| if keeps(c) { c } else { ' ' })
        .collect();
    if is_formula {
        field.insert(0, '\'');
    }
    Cow::Owned(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be_and_text_is_harmless() {
        let mut output = Vec::new();
        let mut rows = CsvRows::new(&mut output, ["a", "b,c", "d"]).unwrap();
        rows.text("say \"hi\"\nthere").unwrap();
        rows.text("=1+2").unwrap();
        rows.text("\u{1b}[31mred\u{202e}").unwrap();
        rows.end_row().unwrap();
        rows.number(-1.5).unwrap();
        rows.number_if_known(None::<u64>).unwrap();
        rows.number_if_known(Some(7)).unwrap();
        rows.end_row().unwrap();
        rows.finish().unwrap();
        assert_eq!(
            String::from_utf8(output).unwrap(),
            "a,\"b,c\",d\n\"say \"\"hi\"\"\nthere\",'=1+2, [31mred \n-1.5,,7\n"
        );
    }
}
