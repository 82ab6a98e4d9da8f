//! Bytes that no longer change: in memory, or in an unlinked file that is mapped.
//!
//! The file has no name, so nothing is left behind when the process ends, however it ends.
//! The mapping is read-only: a forked child shares it without harm.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use memmap2::{Advice, Mmap};

use crate::error::BufferError;

/// Bytes of one segment or chunk.
#[derive(Debug)]
pub(crate) enum Block {
    Heap(Box<[u8]>),
    Disk(Mmap),
}

impl Block {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Block::Heap(bytes) => bytes,
            Block::Disk(map) => map,
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Block::Heap(bytes) => bytes.len(),
            Block::Disk(_) => 0,
        }
    }

    pub(crate) fn disk_bytes(&self) -> usize {
        match self {
            Block::Heap(_) => 0,
            Block::Disk(map) => map.len(),
        }
    }

    /// Moves the bytes to a file in `folder`. Returns how many left memory.
    pub(crate) fn spill(&mut self, folder: &Path) -> Result<usize, BufferError> {
        let Block::Heap(bytes) = self else {
            return Ok(0);
        };
        if bytes.is_empty() {
            return Ok(0);
        }
        let moved = bytes.len();
        let failed = |action| {
            move |source| BufferError::Io {
                action,
                path: folder.to_owned(),
                source,
            }
        };
        let mut file =
            tempfile::tempfile_in(folder).map_err(failed("make a file in the spill folder"))?;
        file.write_all(bytes)
            .map_err(failed("write to the spill folder"))?;
        *self = Block::Disk(map(&file).map_err(failed("map a file of the spill folder"))?);
        Ok(moved)
    }
}

/// Refuses a folder that nothing can be written to, before anything has to be.
pub fn check_spill_folder(folder: &Path) -> Result<(), BufferError> {
    tempfile::tempfile_in(folder)
        .and_then(|mut file| file.write_all(&[0]))
        .map_err(|source| BufferError::Io {
            action: "write to the spill folder",
            path: folder.to_owned(),
            source,
        })
}

fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the file has no name and no other handle, so nobody changes or cuts it while it is mapped.
    let map = unsafe { Mmap::map(file)? };
    // Sampling jumps around: reading ahead would fill the memory that spilling freed. Advice may be refused, and nothing breaks.
    let _ = map.advise(Advice::Random);
    Ok(map)
}
