//! Logs of rows and frames in a buffer's file.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::codec::ByteCodec;
use crate::frame_encoder::FrameCodec;
use crate::frame_segment::FrameSegment;
use crate::frames::FrameLog;
use crate::observation_log::FrameStore;
use crate::row_chunk::{RowChunk, RowEncoding};
use crate::rows::RowLog;
use crate::sections::{BadSection, SectionReader, write_bytes, write_json, write_words};

#[derive(Serialize, Deserialize)]
struct RowIndex {
    first_chunk: u64,
    chunk_rows: usize,
    chunks: Vec<(RowEncoding, ByteCodec)>,
}

#[derive(Serialize, Deserialize)]
struct FrameIndex {
    first_segment: u64,
    segment_frames: usize,
    segments: usize,
    codec: FrameCodec,
}

pub(crate) fn write_rows(out: &mut dyn Write, log: &RowLog) -> io::Result<()> {
    let index = RowIndex {
        first_chunk: log.first() / log.chunk_rows() as u64,
        chunk_rows: log.chunk_rows(),
        chunks: log
            .chunks()
            .map(|chunk| (chunk.encoding, chunk.codec))
            .collect(),
    };
    write_json(out, &index)?;
    for chunk in log.chunks() {
        write_bytes(out, chunk.bytes())?;
    }
    write_bytes(out, log.open_rows())
}

pub(crate) fn read_rows(
    input: &mut SectionReader<impl Read>,
    log: &mut RowLog,
) -> Result<(), BadSection> {
    let wrong = || BadSection::Meaning("a column's rows contradict its description");
    let index: RowIndex = input.json()?;
    if !RowLog::can_have_chunks_of(index.chunk_rows) {
        return Err(wrong());
    }
    let mut chunks = Vec::new();
    for (encoding, codec) in index.chunks {
        let bytes = input.bytes()?;
        chunks.push(
            RowChunk::from_parts(log.shape(), encoding, codec, index.chunk_rows, bytes)
                .ok_or_else(wrong)?,
        );
    }
    log.restore(index.chunk_rows, index.first_chunk, chunks, input.bytes()?)
        .ok_or_else(wrong)
}

fn write_frames(out: &mut dyn Write, log: &FrameLog) -> io::Result<()> {
    let index = FrameIndex {
        first_segment: log.first() / log.segment_frames() as u64,
        segment_frames: log.segment_frames(),
        segments: log.segments().len(),
        codec: log.codec(),
    };
    write_json(out, &index)?;
    for segment in log.segments() {
        write_words(out, segment.ends())?;
        write_bytes(out, segment.heads())?;
        write_words(out, segment.keys())?;
        write_bytes(out, segment.bytes())?;
    }
    Ok(())
}

fn read_frames(input: &mut SectionReader<impl Read>, log: &mut FrameLog) -> Result<(), BadSection> {
    let wrong = || BadSection::Meaning("a column's frames contradict its description");
    let index: FrameIndex = input.json()?;
    if index.segments == 0 {
        return Ok(());
    }
    let mut segments = Vec::new();
    for number in 1..=index.segments {
        let (ends, heads, keys, bytes) = (
            input.words()?,
            input.bytes()?,
            input.words()?,
            input.bytes()?,
        );
        let is_sealed = number < index.segments;
        let segment =
            FrameSegment::from_parts(bytes, ends, heads, keys, index.segment_frames, is_sealed);
        segments.push(segment.ok_or_else(wrong)?);
    }
    log.restore(
        index.segment_frames,
        index.first_segment,
        segments,
        index.codec,
    )
    .ok_or_else(wrong)
}

pub(crate) fn write_store(out: &mut dyn Write, store: &FrameStore) -> io::Result<()> {
    match store {
        FrameStore::Frames(log) => write_frames(out, log),
        FrameStore::Rows(log) => write_rows(out, log),
    }
}

pub(crate) fn read_store(
    input: &mut SectionReader<impl Read>,
    store: &mut FrameStore,
) -> Result<(), BadSection> {
    match store {
        FrameStore::Frames(log) => read_frames(input, log),
        FrameStore::Rows(log) => read_rows(input, log),
    }
}
