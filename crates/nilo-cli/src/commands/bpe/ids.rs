//! Ids as they are written down: numbers of two or four bytes, or a JSON array. Both ways a piece at a time.

use std::io::{self, Read, Write};

use crate::args::IdsFormat;

/// Writes ids in a form.
pub(super) struct IdsWriter<W> {
    output: W,
    format: IdsFormat,
    bytes: Vec<u8>,
    any: bool,
}

impl<W: Write> IdsWriter<W> {
    pub(super) fn new(output: W, format: IdsFormat) -> IdsWriter<W> {
        IdsWriter {
            output,
            format,
            bytes: Vec::new(),
            any: false,
        }
    }

    /// Adds ids. Those above 65,535 do not fit into two bytes: whoever asks for them looks at the vocabulary first.
    pub(super) fn put(&mut self, ids: &[u32]) -> io::Result<()> {
        self.bytes.clear();
        match self.format {
            IdsFormat::U16 => {
                let short = ids.iter().map(|id| u16::try_from(*id).unwrap_or(u16::MAX));
                self.bytes.extend(short.flat_map(u16::to_le_bytes));
            }
            IdsFormat::U32 => self
                .bytes
                .extend(ids.iter().flat_map(|id| id.to_le_bytes())),
            IdsFormat::Json => {
                for id in ids {
                    self.bytes.push(if self.any { b',' } else { b'[' });
                    self.any = true;
                    write!(self.bytes, "{id}")?;
                }
            }
        }
        self.output.write_all(&self.bytes)
    }

    /// Ends the array, and gives the output back.
    pub(super) fn finish(mut self) -> io::Result<W> {
        if self.format == IdsFormat::Json {
            self.output
                .write_all(if self.any { b"]\n" } else { b"[]\n" })?;
        }
        Ok(self.output)
    }
}

/// Ids that are read at a time.
const PIECE: usize = 1 << 16;

/// Reads ids and hands them over in pieces; an error names what is no id.
pub(super) fn read_ids<E: From<io::Error>>(
    mut input: impl Read,
    format: IdsFormat,
    mut take: impl FnMut(&[u32]) -> Result<(), E>,
) -> Result<(), E> {
    let mut parser = Parser::new(format);
    let mut buffer = vec![0; PIECE];
    let mut ids = Vec::with_capacity(PIECE);
    loop {
        let count = match input.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if count == 0 {
            parser.finish(&mut ids)?;
            return take(&ids);
        }
        parser.feed(&buffer[..count], &mut ids)?;
        take(&ids)?;
        ids.clear();
    }
}

/// Puts ids together from bytes that come in pieces.
struct Parser {
    format: IdsFormat,
    /// Of a number that has begun: its value, and how many bytes or digits it has.
    value: u64,
    length: u32,
    position: u64,
    /// Of a JSON array: it was begun and not ended.
    open: bool,
}

impl Parser {
    fn new(format: IdsFormat) -> Parser {
        Parser {
            format,
            value: 0,
            length: 0,
            position: 0,
            open: false,
        }
    }

    fn feed(&mut self, bytes: &[u8], ids: &mut Vec<u32>) -> io::Result<()> {
        for byte in bytes {
            self.position += 1;
            match self.width() {
                Some(width) => {
                    self.value |= u64::from(*byte) << (8 * self.length);
                    self.length += 1;
                    if self.length == width {
                        self.end(ids)?;
                    }
                }
                None => match byte {
                    b'0'..=b'9' => {
                        self.value = self
                            .value
                            .saturating_mul(10)
                            .saturating_add(u64::from(byte - b'0'));
                        self.length += 1;
                    }
                    b'[' | b']' | b',' | b' ' | b'\n' | b'\r' | b'\t' => {
                        self.end(ids)?;
                        self.open = *byte == b'[' || (self.open && *byte != b']');
                    }
                    other => {
                        let what = format!(
                            "byte {} is {:?}, which does not belong in a list of ids",
                            self.position,
                            char::from(*other)
                        );
                        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                    }
                },
            }
        }
        Ok(())
    }

    fn finish(&mut self, ids: &mut Vec<u32>) -> io::Result<()> {
        let cut = match self.width() {
            Some(_) if self.length > 0 => Some("the input ends in the middle of an id"),
            None if self.open => Some("the array of ids is not closed"),
            _ => None,
        };
        if let Some(what) = cut {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        self.end(ids)
    }

    fn end(&mut self, ids: &mut Vec<u32>) -> io::Result<()> {
        if self.length > 0 {
            let id = u32::try_from(self.value).map_err(|_| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{} is not a token id", self.value),
                )
            })?;
            ids.push(id);
        }
        (self.value, self.length) = (0, 0);
        Ok(())
    }

    fn width(&self) -> Option<u32> {
        match self.format {
            IdsFormat::U16 => Some(2),
            IdsFormat::U32 => Some(4),
            IdsFormat::Json => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands over one byte at a time.
    struct Dripping<'a>(&'a [u8]);

    impl Read for Dripping<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(1);
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn read(bytes: &[u8], format: IdsFormat) -> io::Result<Vec<u32>> {
        let mut all = Vec::new();
        read_ids(Dripping(bytes), format, |ids| -> io::Result<()> {
            all.extend_from_slice(ids);
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn what_is_written_is_read_back_in_every_form() {
        for format in [IdsFormat::Json, IdsFormat::U16, IdsFormat::U32] {
            for ids in [&[][..], &[0], &[1, 65535, 7, 256]] {
                let mut writer = IdsWriter::new(Vec::new(), format);
                for piece in ids.chunks(2) {
                    writer.put(piece).unwrap();
                }
                let bytes = writer.finish().unwrap();
                assert_eq!(read(&bytes, format).unwrap(), ids);
            }
        }
    }

    #[test]
    fn what_is_no_list_of_ids_is_an_error_that_says_where() {
        let error = |bytes: &[u8], format| read(bytes, format).unwrap_err().to_string();
        assert!(error(b"[1, x]", IdsFormat::Json).contains("byte 5 is 'x'"));
        assert!(error(b"[99999999999999999999999]", IdsFormat::Json).contains("is not a token id"));
        assert!(error(b"abc", IdsFormat::U16).contains("in the middle"));
        assert!(error(b"[1,2,", IdsFormat::Json).contains("is not closed"));
        assert_eq!(read(b"3 4\n5", IdsFormat::Json).unwrap(), [3, 4, 5]);
    }
}
