//! Writers for both formats that also write what no other writer would, and files that are longer than any disk.

#![allow(dead_code)]

use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use nilo_weights::{Weights, WeightsError};

/// Puts the length before a header and data behind it.
pub(crate) fn safetensors(header: &str, data_bytes: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.resize(file.len() + data_bytes, 0);
    file
}

/// An entry of a safetensors header.
pub(crate) fn entry(name: &str, dtype: &str, shape: &str, begin: u64, end: u64) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
}

/// A safetensors file of tensors of `F32`, one after another, with as many elements.
pub(crate) fn floats(tensors: &[(&str, u64)]) -> Vec<u8> {
    let mut end = 0;
    let mut entries = Vec::new();
    for (name, elements) in tensors {
        entries.push(entry(
            name,
            "F32",
            &format!("[{elements}]"),
            end,
            end + 4 * elements,
        ));
        end += 4 * elements;
    }
    safetensors(&format!("{{{}}}", entries.join(",")), end as usize)
}

/// A GGUF file under construction.
#[derive(Clone)]
pub(crate) struct Gguf {
    pub(crate) version: u32,
    /// How many tensors and keys the header claims, where it does not tell the truth.
    pub(crate) claimed_tensors: Option<u64>,
    pub(crate) claimed_keys: Option<u64>,
    pub(crate) alignment: usize,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) tensors: Vec<Vec<u8>>,
    pub(crate) data_bytes: usize,
}

impl Gguf {
    pub(crate) fn new() -> Gguf {
        Gguf {
            version: 3,
            claimed_tensors: None,
            claimed_keys: None,
            alignment: 32,
            keys: Vec::new(),
            tensors: Vec::new(),
            data_bytes: 0,
        }
    }

    /// A key whose value is written as it is: the number of its type, then its bytes.
    pub(crate) fn key(mut self, name: &str, value_type: u32, value: &[u8]) -> Gguf {
        self.keys.push(
            [
                string(name.as_bytes()),
                value_type.to_le_bytes().to_vec(),
                value.to_vec(),
            ]
            .concat(),
        );
        self
    }

    pub(crate) fn text(self, name: &str, text: &str) -> Gguf {
        self.key(name, 8, &string(text.as_bytes()))
    }

    pub(crate) fn count(self, name: &str, count: u32) -> Gguf {
        self.key(name, 4, &count.to_le_bytes())
    }

    /// A tensor whose entry is written as it is.
    pub(crate) fn tensor(
        mut self,
        name: &[u8],
        dimensions: &[u64],
        kind: u32,
        offset: u64,
    ) -> Gguf {
        let mut entry = string(name);
        entry.extend((dimensions.len() as u32).to_le_bytes());
        entry.extend(dimensions.iter().flat_map(|size| size.to_le_bytes()));
        entry.extend(kind.to_le_bytes());
        entry.extend(offset.to_le_bytes());
        self.tensors.push(entry);
        self
    }

    /// A tensor of `F32` behind the last one.
    pub(crate) fn floats(mut self, name: &str, elements: u64) -> Gguf {
        let offset = self.data_bytes.next_multiple_of(self.alignment);
        self.data_bytes = offset + 4 * elements as usize;
        self.tensor(name.as_bytes(), &[elements], 0, offset as u64)
    }

    /// The file up to its data.
    pub(crate) fn header(&self) -> Vec<u8> {
        let tensors = self.claimed_tensors.unwrap_or(self.tensors.len() as u64);
        let keys = self.claimed_keys.unwrap_or(self.keys.len() as u64);
        let mut file = b"GGUF".to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend(tensors.to_le_bytes());
        file.extend(keys.to_le_bytes());
        file.extend(self.keys.concat());
        file.extend(self.tensors.concat());
        file
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        let mut file = self.header();
        if self.data_bytes > 0 {
            file.resize(
                file.len().next_multiple_of(self.alignment) + self.data_bytes,
                0,
            );
        }
        file
    }
}

/// A string as GGUF has it.
pub(crate) fn string(bytes: &[u8]) -> Vec<u8> {
    [(bytes.len() as u64).to_le_bytes().as_slice(), bytes].concat()
}

/// An array as GGUF has it: the type of the elements, their number, their bytes.
pub(crate) fn array(element_type: u32, count: u64, elements: &[u8]) -> Vec<u8> {
    [
        &element_type.to_le_bytes(),
        count.to_le_bytes().as_slice(),
        elements,
    ]
    .concat()
}

pub(crate) fn read(file: &[u8], name: &str) -> Result<Weights, WeightsError> {
    Weights::read_one_file(Cursor::new(file), Path::new(name))
}

/// The sentence with which a file is refused.
pub(crate) fn refusal(file: &[u8], name: &str) -> String {
    match read(file, name) {
        Ok(weights) => panic!("not refused: {weights:?}"),
        Err(error) => error.to_string(),
    }
}

/// A file of a beginning and zeros that counts what is read of it.
pub(crate) struct LongFile {
    pub(crate) beginning: Vec<u8>,
    pub(crate) length: u64,
    pub(crate) bytes_read: u64,
    position: u64,
}

impl LongFile {
    pub(crate) fn new(beginning: Vec<u8>, length: u64) -> LongFile {
        LongFile {
            beginning,
            length,
            bytes_read: 0,
            position: 0,
        }
    }
}

impl Read for LongFile {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.length.saturating_sub(self.position);
        let count = (buffer.len() as u64).min(left) as usize;
        let from = usize::try_from(self.position)
            .unwrap_or(usize::MAX)
            .min(self.beginning.len());
        let stored = &self.beginning[from..];
        let stored = &stored[..stored.len().min(count)];
        buffer[..stored.len()].copy_from_slice(stored);
        buffer[stored.len()..count].fill(0);
        self.position += count as u64;
        self.bytes_read += count as u64;
        Ok(count)
    }
}

impl Seek for LongFile {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::End(by) => (self.length, by),
            SeekFrom::Current(by) => (self.position, by),
        };
        self.position = base
            .checked_add_signed(by)
            .ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
