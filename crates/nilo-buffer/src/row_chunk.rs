//! Some hundred rows of a column that no longer change, narrowed, and compressed where the column is cold.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::codec::{ByteCodec, compress, decompress};
use crate::element::ElementKind;
use crate::error::BufferError;
use crate::narrow;

/// How the rows of a chunk are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RowEncoding {
    /// As they came.
    Plain,
    /// All rows are equal; one is stored.
    Constant,
    /// As numbers of a smaller kind.
    Narrow(ElementKind),
}

/// The shape of the rows in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowShape {
    pub(crate) kind: ElementKind,
    pub(crate) elements: usize,
}

impl RowShape {
    pub(crate) fn bytes(self) -> usize {
        self.kind.size() * self.elements
    }

    fn encoded_bytes(self, encoding: RowEncoding) -> usize {
        match encoding {
            RowEncoding::Narrow(kind) => kind.size() * self.elements,
            RowEncoding::Plain | RowEncoding::Constant => self.bytes(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct RowChunk {
    pub(crate) encoding: RowEncoding,
    pub(crate) codec: ByteCodec,
    rows: usize,
    block: Block,
}

impl RowChunk {
    /// Encodes full rows in the narrowest way that loses nothing.
    pub(crate) fn new(shape: RowShape, bytes: Vec<u8>) -> RowChunk {
        let rows = bytes.len() / shape.bytes();
        let (first, others) = bytes.split_at(shape.bytes());
        let (encoding, bytes) = if others.chunks_exact(shape.bytes()).all(|row| row == first) {
            (RowEncoding::Constant, first.to_vec())
        } else if let Some(kind) = narrow::narrowest(shape.kind, &bytes) {
            (
                RowEncoding::Narrow(kind),
                narrow::narrow(shape.kind, kind, &bytes),
            )
        } else {
            (RowEncoding::Plain, bytes)
        };
        RowChunk {
            encoding,
            codec: ByteCodec::Raw,
            rows,
            block: Block::Heap(bytes.into_boxed_slice()),
        }
    }

    /// A chunk as a file has it; `None` where its bytes cannot be so many rows.
    pub(crate) fn from_parts(
        shape: RowShape,
        encoding: RowEncoding,
        codec: ByteCodec,
        rows: usize,
        bytes: Vec<u8>,
    ) -> Option<RowChunk> {
        if let RowEncoding::Narrow(kind) = encoding
            && (kind.size() >= shape.kind.size()
                || matches!(kind, ElementKind::F16 | ElementKind::Bool))
        {
            return None;
        }
        let chunk = RowChunk {
            encoding,
            codec,
            rows,
            block: Block::Heap(bytes.into_boxed_slice()),
        };
        let fits =
            codec != ByteCodec::Raw || chunk.block.bytes().len() == chunk.decoded_bytes(shape);
        fits.then_some(chunk)
    }

    /// Bytes of the chunk before compression.
    pub(crate) fn decoded_bytes(&self, shape: RowShape) -> usize {
        let rows = match self.encoding {
            RowEncoding::Constant => 1,
            _ => self.rows,
        };
        shape.encoded_bytes(self.encoding) * rows
    }

    pub(crate) fn is_compressed(&self) -> bool {
        self.codec != ByteCodec::Raw
    }

    /// The chunk before compression.
    pub(crate) fn decode(&self, shape: RowShape) -> Result<Vec<u8>, BufferError> {
        let mut out = vec![0; self.decoded_bytes(shape)];
        decompress(
            self.codec,
            self.block.bytes(),
            self.element_bytes(shape),
            &mut out,
        )
        .map_err(|_| BufferError::Damaged("a chunk of rows"))?;
        Ok(out)
    }

    /// Reads one row of a chunk that is not compressed.
    pub(crate) fn read(&self, shape: RowShape, place: usize, out: &mut [u8]) {
        self.read_decoded(shape, self.block.bytes(), place, out);
    }

    /// Reads one row from what [`RowChunk::decode`] returned.
    pub(crate) fn read_decoded(
        &self,
        shape: RowShape,
        decoded: &[u8],
        place: usize,
        out: &mut [u8],
    ) {
        let width = shape.encoded_bytes(self.encoding);
        match self.encoding {
            RowEncoding::Constant => out.copy_from_slice(&decoded[..width]),
            RowEncoding::Plain => out.copy_from_slice(&decoded[place * width..][..width]),
            RowEncoding::Narrow(kind) => {
                narrow::widen(kind, shape.kind, &decoded[place * width..][..width], out)
            }
        }
    }

    fn element_bytes(&self, shape: RowShape) -> usize {
        match self.encoding {
            RowEncoding::Narrow(kind) => kind.size(),
            _ => shape.kind.size(),
        }
    }

    /// The bytes that each codec would take.
    pub(crate) fn try_codec(&self, shape: RowShape, codec: ByteCodec) -> Option<Vec<u8>> {
        compress(codec, self.block.bytes(), self.element_bytes(shape))
    }

    /// Compresses the chunk where that makes it smaller. Returns how many bytes left memory.
    pub(crate) fn compress(&mut self, shape: RowShape, codec: ByteCodec) -> usize {
        let Block::Heap(bytes) = &self.block else {
            return 0;
        };
        let before = bytes.len();
        if self.is_compressed() || codec == ByteCodec::Raw || self.encoding == RowEncoding::Constant
        {
            return 0;
        }
        match self.try_codec(shape, codec) {
            Some(small) if small.len() < before => {
                let saved = before - small.len();
                self.block = Block::Heap(small.into_boxed_slice());
                self.codec = codec;
                saved
            }
            _ => 0,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.block.bytes()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.block.heap_bytes()
    }

    pub(crate) fn disk_bytes(&self) -> usize {
        self.block.disk_bytes()
    }

    /// One row that stands for all is not worth a file.
    pub(crate) fn spill(&mut self, folder: &Path) -> Result<usize, BufferError> {
        match self.encoding {
            RowEncoding::Constant => Ok(0),
            _ => self.block.spill(folder),
        }
    }
}
