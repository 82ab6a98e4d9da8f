//! The counts file, version 1: words of a corpus with their counts, to be merged with those of other machines.
//!
//! 1. `NILOCNT1`, then the length of the header and its CRC-32C (both u32, little endian), then the header, JSON.
//! 2. Blocks: the length of the payload and its CRC-32C, then the payload: whole records (see `records.rs`), of which the
//!    first shares nothing with the block before. Words ascend over the whole file.
//! 3. A block of length zero whose checksum is that of the eight bytes after it, the number of words. Nothing follows.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Cursor, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::CountError;
use super::merge::SortedWords;
use super::records::{RecordReader, RecordWriter, damaged};
use super::resume::CountCheckpoint;
use super::totals::{CorpusTotals, Recipe};
use crate::{WholeFile, WordSource};

const MAGIC: &[u8; 8] = b"NILOCNT1";
const BLOCK_BYTES: usize = 1 << 16;

/// What stands before the words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CountFileHeader {
    pub(super) recipe: Recipe,
    pub(super) totals: CorpusTotals,
    /// Where counting was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) interrupted: Option<CountCheckpoint>,
}

impl CountFileHeader {
    pub(super) fn finished(recipe: &Recipe, totals: &CorpusTotals) -> Self {
        Self {
            recipe: recipe.clone(),
            totals: *totals,
            interrupted: None,
        }
    }
}

/// Writes the file, whole and on disk or not at all.
pub(super) fn write_file<S>(
    path: &Path,
    header: &CountFileHeader,
    words: &mut S,
) -> Result<(), CountError>
where
    S: SortedWords<Error = CountError>,
{
    let failed = |source| CountError::Write {
        path: path.to_owned(),
        source,
    };
    let file = WholeFile::create(path).map_err(failed)?;
    let mut output = BufWriter::with_capacity(BLOCK_BYTES, file);
    write_header(&mut output, header).map_err(failed)?;
    let mut records = RecordWriter::new();
    let mut block = Vec::new();
    let mut written = 0_u64;
    while words.advance()? {
        records
            .write(&mut block, words.word(), words.count())
            .map_err(failed)?;
        written += 1;
        if block.len() >= BLOCK_BYTES {
            write_block(&mut output, &block).map_err(failed)?;
            block.clear();
            records.restart();
        }
    }
    let finish = || -> io::Result<()> {
        if !block.is_empty() {
            write_block(&mut output, &block)?;
        }
        output.write_all(&0_u32.to_le_bytes())?;
        output.write_all(&crc32c::crc32c(&written.to_le_bytes()).to_le_bytes())?;
        output.write_all(&written.to_le_bytes())?;
        let file = output.into_inner().map_err(|error| error.into_error())?;
        file.sync()?;
        file.keep()
    };
    finish().map_err(failed)
}

fn write_header(output: &mut impl Write, header: &CountFileHeader) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    output.write_all(MAGIC)?;
    write_block(output, &header)
}

fn write_block(output: &mut impl Write, block: &[u8]) -> io::Result<()> {
    let length = u32::try_from(block.len()).map_err(|_| damaged("a block is longer than 4 GiB"))?;
    output.write_all(&length.to_le_bytes())?;
    output.write_all(&crc32c::crc32c(block).to_le_bytes())?;
    output.write_all(block)
}

/// Reads a counts file, word by word; memory grows with the longest word, not with the file.
#[derive(Debug)]
pub struct CountsReader<R> {
    input: R,
    path: PathBuf,
    header: CountFileHeader,
    block: Cursor<Vec<u8>>,
    records: RecordReader,
    words: u64,
    ended: bool,
}

impl CountsReader<BufReader<File>> {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, CountError> {
        let file = File::open(path).map_err(|source| CountError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::new(BufReader::with_capacity(BLOCK_BYTES, file), path)
    }
}

impl<R: Read> CountsReader<R> {
    /// Reads the header; `path` is for messages.
    pub fn new(mut input: R, path: &Path) -> Result<Self, CountError> {
        let header = read_header(&mut input).map_err(|source| CountError::Read {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            input,
            path: path.to_owned(),
            header,
            block: Cursor::new(Vec::new()),
            records: RecordReader::default(),
            words: 0,
            ended: false,
        })
    }

    /// The rules by which the words were counted.
    pub fn recipe(&self) -> &Recipe {
        &self.header.recipe
    }

    /// Sums over the corpus, as written.
    pub fn totals(&self) -> &CorpusTotals {
        &self.header.totals
    }

    /// Whether this is a state to resume from, not the counts of a whole corpus.
    pub fn is_unfinished(&self) -> bool {
        self.header.interrupted.is_some()
    }

    pub(super) fn header(&self) -> &CountFileHeader {
        &self.header
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn read_word(&mut self) -> io::Result<bool> {
        let mut restarted = false;
        while !self.ended && self.block.position() == self.block.get_ref().len() as u64 {
            self.read_block()?;
            restarted = true;
        }
        if self.ended {
            return Ok(false);
        }
        self.words += 1;
        self.records.read(&mut self.block, restarted)
    }

    fn read_block(&mut self) -> io::Result<()> {
        let (length, checksum) = read_head(&mut self.input)?;
        if length == 0 {
            let mut words = [0; 8];
            self.input.read_exact(&mut words)?;
            if crc32c::crc32c(&words) != checksum || u64::from_le_bytes(words) != self.words {
                return Err(damaged("the number of words is not the one at the end"));
            }
            if self.input.read(&mut [0])? != 0 {
                return Err(damaged("something follows the end"));
            }
            self.ended = true;
            return Ok(());
        }
        let mut block = std::mem::take(&mut self.block).into_inner();
        read_payload(&mut self.input, &mut block, length, checksum)?;
        self.block = Cursor::new(block);
        Ok(())
    }
}

fn read_header(input: &mut impl Read) -> io::Result<CountFileHeader> {
    let mut magic = [0; 8];
    let seen = input.read_exact(&mut magic);
    if seen.is_err() || magic[..7] != MAGIC[..7] {
        return Err(damaged("it is not a counts file"));
    }
    if magic != *MAGIC {
        return Err(damaged("it is of a later version than this program knows"));
    }
    let (length, checksum) = read_head(input)?;
    let mut header = Vec::new();
    read_payload(input, &mut header, length, checksum)?;
    serde_json::from_slice(&header).map_err(|_| damaged("its header is damaged"))
}

fn read_head(input: &mut impl Read) -> io::Result<(u32, u32)> {
    let mut number = || -> io::Result<u32> {
        let mut bytes = [0; 4];
        input
            .read_exact(&mut bytes)
            .map_err(|_| damaged("it breaks off"))?;
        Ok(u32::from_le_bytes(bytes))
    };
    Ok((number()?, number()?))
}

/// Reads as much as there is: a false length takes no memory.
fn read_payload(
    input: &mut impl Read,
    payload: &mut Vec<u8>,
    length: u32,
    checksum: u32,
) -> io::Result<()> {
    payload.clear();
    input.take(u64::from(length)).read_to_end(payload)?;
    if payload.len() != length as usize {
        return Err(damaged("it breaks off"));
    }
    if crc32c::crc32c(payload) != checksum {
        return Err(damaged("a checksum does not match"));
    }
    Ok(())
}

impl<R: Read> SortedWords for CountsReader<R> {
    type Error = CountError;

    fn advance(&mut self) -> Result<bool, CountError> {
        self.read_word().map_err(|source| CountError::Read {
            path: self.path.clone(),
            source,
        })
    }

    fn word(&self) -> &[u8] {
        self.records.word()
    }

    fn count(&self) -> u64 {
        self.records.count()
    }
}

impl<R: Read> WordSource for CountsReader<R> {
    type Error = CountError;

    fn next_word(&mut self) -> Result<Option<(&[u8], u64)>, CountError> {
        Ok(match self.advance()? {
            true => Some((self.word(), self.count())),
            false => None,
        })
    }
}
