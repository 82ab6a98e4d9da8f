//! The pieces of a buffer's file: a length, a checksum, and the bytes.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a piece could not be read.
#[derive(Debug)]
pub(crate) enum BadSection {
    /// The file ends before it should.
    Cut,
    /// The checksum is another one.
    Checksum,
    /// The bytes do not mean what they should.
    Meaning(&'static str),
    /// The system refused.
    Io(io::Error),
}

impl From<io::Error> for BadSection {
    fn from(error: io::Error) -> BadSection {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => BadSection::Cut,
            _ => BadSection::Io(error),
        }
    }
}

impl std::fmt::Display for BadSection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadSection::Cut => write!(formatter, "the file is cut short"),
            BadSection::Checksum => write!(formatter, "a checksum does not match"),
            BadSection::Meaning(what) => write!(formatter, "{what}"),
            BadSection::Io(error) => write!(formatter, "{error}"),
        }
    }
}

pub(crate) fn write_bytes(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(&(bytes.len() as u64).to_le_bytes())?;
    out.write_all(&crc32c::crc32c(bytes).to_le_bytes())?;
    out.write_all(bytes)
}

pub(crate) fn write_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write_bytes(out, &serde_json::to_vec(value)?)
}

pub(crate) fn write_words(out: &mut dyn Write, words: &[u32]) -> io::Result<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    write_bytes(out, &bytes)
}

/// Pieces of a file whose length is known, so that no length in it is believed beyond that.
pub(crate) struct SectionReader<R> {
    input: R,
    left: u64,
}

impl<R: Read> SectionReader<R> {
    pub(crate) fn new(input: R, length: u64) -> SectionReader<R> {
        SectionReader {
            input,
            left: length,
        }
    }

    pub(crate) fn exact(&mut self, out: &mut [u8]) -> Result<(), BadSection> {
        self.left = self
            .left
            .checked_sub(out.len() as u64)
            .ok_or(BadSection::Cut)?;
        Ok(self.input.read_exact(out)?)
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, BadSection> {
        let (mut length, mut checksum) = ([0; 8], [0; 4]);
        self.exact(&mut length)?;
        self.exact(&mut checksum)?;
        let length = u64::from_le_bytes(length);
        if length > self.left {
            return Err(BadSection::Cut);
        }
        let mut bytes = vec![0; length as usize];
        self.exact(&mut bytes)?;
        match crc32c::crc32c(&bytes) == u32::from_le_bytes(checksum) {
            true => Ok(bytes),
            false => Err(BadSection::Checksum),
        }
    }

    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Result<T, BadSection> {
        serde_json::from_slice(&self.bytes()?)
            .map_err(|_| BadSection::Meaning("a description cannot be read"))
    }

    pub(crate) fn words(&mut self) -> Result<Vec<u32>, BadSection> {
        let bytes = self.bytes()?;
        let words = bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
        Ok(words.collect())
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.left == 0
    }
}
