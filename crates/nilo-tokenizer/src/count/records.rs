//! Words in the order of their bytes, as a stream: what spilled runs and counts files are made of.
//!
//! A record is: one byte, how many leading bytes the word shares with the one before (255 at most, which bounds how much
//! a small file can claim to hold); the number of further bytes; those bytes; the count. Numbers are LEB128.

use std::io::{self, BufRead, Read, Write};

/// Writes records. The words must come in ascending order.
#[derive(Debug)]
pub(crate) struct RecordWriter {
    last: Vec<u8>,
}

impl RecordWriter {
    pub(crate) fn new() -> Self {
        Self { last: Vec::new() }
    }

    pub(crate) fn write(
        &mut self,
        output: &mut impl Write,
        word: &[u8],
        count: u64,
    ) -> io::Result<()> {
        let pairs = self.last.iter().zip(word).take(255);
        let shared = pairs.take_while(|(left, right)| left == right).count();
        output.write_all(&[shared as u8])?;
        write_number(output, (word.len() - shared) as u64)?;
        output.write_all(&word[shared..])?;
        write_number(output, count)?;
        self.last.truncate(shared);
        self.last.extend_from_slice(&word[shared..]);
        Ok(())
    }

    /// Makes the next record independent of those before.
    pub(crate) fn restart(&mut self) {
        self.last.clear();
    }
}

/// Reads records and checks that they ascend.
#[derive(Debug, Default)]
pub(crate) struct RecordReader {
    word: Vec<u8>,
    last: Vec<u8>,
    count: u64,
}

impl RecordReader {
    pub(crate) fn word(&self) -> &[u8] {
        &self.word
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Reads the next record; false at the end of the input. `restarted` as in [`RecordWriter::restart`].
    pub(crate) fn read(&mut self, input: &mut impl BufRead, restarted: bool) -> io::Result<bool> {
        if input.fill_buf()?.is_empty() {
            return Ok(false);
        }
        let shared = usize::from(read_byte(input)?);
        let length = read_number(input)?;
        std::mem::swap(&mut self.word, &mut self.last);
        if shared > if restarted { 0 } else { self.last.len() } {
            return Err(damaged("a word shares more bytes than there are"));
        }
        self.word.clear();
        self.word.extend_from_slice(&self.last[..shared]);
        let taken = input.take(length).read_to_end(&mut self.word)?;
        if (taken as u64) < length {
            return Err(damaged("a word breaks off"));
        }
        if self.word <= self.last {
            return Err(damaged("words are not in order"));
        }
        self.count = read_number(input)?;
        if self.count == 0 {
            return Err(damaged("a word has no count"));
        }
        Ok(true)
    }
}

pub(crate) fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn write_number(output: &mut impl Write, mut number: u64) -> io::Result<()> {
    let mut bytes = [0; 10];
    let mut length = 0;
    loop {
        let more = number > 127;
        bytes[length] = (number & 127) as u8 | u8::from(more) << 7;
        number >>= 7;
        length += 1;
        if !more {
            return output.write_all(&bytes[..length]);
        }
    }
}

fn read_byte(input: &mut impl BufRead) -> io::Result<u8> {
    let byte = *input
        .fill_buf()?
        .first()
        .ok_or_else(|| damaged("a record breaks off"))?;
    input.consume(1);
    Ok(byte)
}

fn read_number(input: &mut impl BufRead) -> io::Result<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = read_byte(input)?;
        let bits = u64::from(byte & 127);
        if shift == 63 && bits > 1 {
            break;
        }
        number |= bits << shift;
        if byte < 128 {
            return Ok(number);
        }
    }
    Err(damaged("a number is too large"))
}
