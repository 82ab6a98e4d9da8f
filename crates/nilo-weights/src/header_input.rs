//! A file read from its beginning, where nothing is taken that the file does not have.

use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::WeightsError;

/// A buffered reader that knows how much of its file is left.
pub(crate) struct HeaderInput<R> {
    reader: BufReader<R>,
    file_bytes: u64,
    position: u64,
    path: PathBuf,
}

impl<R: Read + Seek> HeaderInput<R> {
    /// Goes to the beginning; `path` is for the errors.
    pub(crate) fn new(mut reader: R, path: &Path) -> Result<HeaderInput<R>, WeightsError> {
        let failed = |source| WeightsError::Read {
            path: path.to_path_buf(),
            source,
        };
        let file_bytes = reader.seek(SeekFrom::End(0)).map_err(failed)?;
        reader.seek(SeekFrom::Start(0)).map_err(failed)?;
        Ok(HeaderInput {
            reader: BufReader::new(reader),
            file_bytes,
            position: 0,
            path: path.to_path_buf(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn left_bytes(&self) -> u64 {
        self.file_bytes - self.position
    }

    /// The first bytes, as many as there are up to `length`; the next reading starts at the beginning again.
    pub(crate) fn peek(&mut self, length: u64) -> Result<Vec<u8>, WeightsError> {
        let bytes = self.take(length.min(self.left_bytes()))?;
        self.reader.rewind().map_err(|source| self.failed(source))?;
        self.position = 0;
        Ok(bytes)
    }

    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: u64) -> Result<Vec<u8>, WeightsError> {
        let end = self.end_of(length)?;
        let mut bytes = Vec::new();
        let read = self.reader.by_ref().take(length).read_to_end(&mut bytes);
        if read.map_err(|source| self.failed(source))? as u64 != length {
            return Err(self.cut());
        }
        self.position = end;
        Ok(bytes)
    }

    /// The next bytes, of a number known beforehand.
    pub(crate) fn take_array<const N: usize>(&mut self) -> Result<[u8; N], WeightsError> {
        let end = self.end_of(N as u64)?;
        let mut bytes = [0; N];
        self.reader
            .read_exact(&mut bytes)
            .map_err(|source| self.failed(source))?;
        self.position = end;
        Ok(bytes)
    }

    pub(crate) fn take_u32(&mut self) -> Result<u32, WeightsError> {
        self.take_array().map(u32::from_le_bytes)
    }

    pub(crate) fn take_u64(&mut self) -> Result<u64, WeightsError> {
        self.take_array().map(u64::from_le_bytes)
    }

    /// Goes on behind the next `length` bytes without reading them.
    pub(crate) fn skip(&mut self, length: u64) -> Result<(), WeightsError> {
        let end = self.end_of(length)?;
        let moved = match i64::try_from(length) {
            Ok(length) => self.reader.seek_relative(length),
            Err(_) => self.reader.seek(SeekFrom::Start(end)).map(|_| ()),
        };
        moved.map_err(|source| self.failed(source))?;
        self.position = end;
        Ok(())
    }

    /// Where the next `length` bytes end, if the file has them.
    fn end_of(&self, length: u64) -> Result<u64, WeightsError> {
        if length > self.left_bytes() {
            Err(self.cut())
        } else {
            Ok(self.position + length)
        }
    }

    fn cut(&self) -> WeightsError {
        WeightsError::HeaderCut {
            file_bytes: self.file_bytes,
            path: self.path.clone(),
        }
    }

    fn failed(&self, source: std::io::Error) -> WeightsError {
        WeightsError::Read {
            path: self.path.clone(),
            source,
        }
    }
}
