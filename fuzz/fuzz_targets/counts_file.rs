//! Any bytes as a counts file: refused or read, never a panic, and what is read keeps its promises.
//!
//! Checksums would stop nearly every input at the door, so an input whose first byte is odd is taken as the payloads of a
//! file: blocks are cut out of it and given right checksums.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use nilo_tokenizer::{CountsReader, WordSource};

const HEADER: &[u8] = br#"{"recipe":{"pattern":"gpt2","unicode":"16.0.0","by_lines":false,"cut_out":[]},"totals":{"documents":0,"text_bytes":0,"words":0,"distinct_words":0,"distinct_bytes":0,"invalid_bytes":0}}"#;

fn block(output: &mut Vec<u8>, payload: &[u8]) {
    output.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    output.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    output.extend_from_slice(payload);
}

fn with_checksums(data: &[u8]) -> Vec<u8> {
    let (header, rest) = match data.split_first() {
        Some((0..=9, rest)) => rest.split_at(rest.len() / 2),
        _ => (HEADER, data),
    };
    let mut file = b"NILOCNT1".to_vec();
    block(&mut file, header);
    for payload in rest.split(|byte| *byte == 0xEE).filter(|payload| !payload.is_empty()) {
        block(&mut file, payload);
    }
    file
}

fn read(bytes: &[u8]) {
    let mut reader = match CountsReader::new(bytes, Path::new("counts")) {
        Ok(reader) => reader,
        Err(error) => return assert!(!error.to_string().contains('\n'), "one sentence: {error}"),
    };
    let mut last = Vec::new();
    loop {
        match reader.next_word() {
            Err(error) => return assert!(!error.to_string().contains('\n'), "one sentence: {error}"),
            Ok(None) => return,
            Ok(Some((word, count))) => {
                assert!(count > 0 && word > &last[..], "words ascend and have counts");
                last.clear();
                last.extend_from_slice(word);
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((choice, rest)) if choice & 1 != 0 => read(&with_checksums(rest)),
        _ => read(data),
    }
});
