//! Two whole counts files with right checksums and a right end, made of any records and any sums: they are read to their
//! end or refused, merged, written as one file that says the same, and learnt from.
//!
//! What stands in the blocks is the input; heads, checksums and the number of words at the end are made right here, so
//! that the fuzzer reaches what lies behind them.

#![no_main]

use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use nilo_tokenizer::merge::{MergeOptions, Words};
use nilo_tokenizer::{CountsReader, MergedCounts, Quiet, WordSource};

fn header(numbers: &[u8]) -> Vec<u8> {
    let number = |index: usize| {
        let mut bytes = [0; 8];
        let from = numbers.iter().skip(8 * index);
        bytes.iter_mut().zip(from).for_each(|(byte, value)| *byte = *value);
        u64::from_le_bytes(bytes)
    };
    format!(
        r#"{{"recipe":{{"pattern":"gpt2","unicode":"16.0.0","by_lines":false,"cut_out":[]}},"totals":{{"documents":{},"text_bytes":{},"words":{},"distinct_words":{},"distinct_bytes":{},"invalid_bytes":{}}}}}"#,
        number(0), number(1), number(2), number(3), number(4), number(5)
    )
    .into_bytes()
}

fn block(output: &mut Vec<u8>, payload: &[u8]) {
    output.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    output.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    output.extend_from_slice(payload);
}

/// Records of words between zeros, the byte before a word its count: in order, so that most inputs are whole files.
fn in_order(data: &[u8]) -> Vec<u8> {
    let words = data.split(|byte| *byte == 0).filter_map(<[u8]>::split_first);
    let words: std::collections::BTreeMap<&[u8], u8> = words.map(|(count, word)| (word, *count)).collect();
    let mut records = Vec::new();
    for (word, count) in words.into_iter().filter(|(word, _)| (1..128).contains(&word.len())) {
        records.extend([0, word.len() as u8]);
        records.extend_from_slice(word);
        // A count of any size: nine bytes of sevens for the largest ones.
        match count {
            250.. => records.extend([255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
            _ => records.push(count.clamp(1, 127)),
        }
    }
    records
}

fn file(data: &[u8], is_ordered: bool) -> Vec<u8> {
    let (numbers, records) = data.split_at(data.len().min(48));
    let mut file = b"NILOCNT1".to_vec();
    block(&mut file, &header(numbers));
    match is_ordered {
        true => {
            let records = in_order(records);
            if !records.is_empty() {
                block(&mut file, &records);
            }
        }
        false => {
            for payload in records.split(|byte| *byte == 0xEE).filter(|payload| !payload.is_empty()) {
                block(&mut file, payload);
            }
        }
    }
    let words = words_in(&file, false).unwrap_or_else(|words| words);
    file.extend_from_slice(&0_u32.to_le_bytes());
    file.extend_from_slice(&crc32c::crc32c(&words.to_le_bytes()).to_le_bytes());
    file.extend_from_slice(&words.to_le_bytes());
    file
}

/// The number of words, or how many there were before something was wrong.
fn words_in(bytes: &[u8], is_whole: bool) -> Result<u64, u64> {
    let Ok(mut reader) = CountsReader::new(bytes, Path::new("counts")) else {
        return Err(0);
    };
    let mut words = 0;
    loop {
        match reader.next_word() {
            Ok(Some(_)) => words += 1,
            Ok(None) => return Ok(words),
            Err(error) => {
                assert!(!error.to_string().contains('\n'), "one sentence: {error}");
                assert!(!is_whole || words < u64::MAX);
                return Err(words);
            }
        }
    }
}

fn all(paths: &[PathBuf]) -> Option<Vec<(Vec<u8>, u64)>> {
    let mut merged = MergedCounts::open(paths, 1).ok()?;
    let mut words = Vec::new();
    while let Some((word, count)) = merged.next_word().ok()? {
        words.push((word.to_vec(), count));
    }
    Some(words)
}

fuzz_target!(|data: &[u8]| {
    let Some(([choice, cut], data)) = data.split_first_chunk().map(|(head, data)| (*head, data)) else {
        return;
    };
    let (left, right) = data.split_at(data.len() * usize::from(cut) / 256);
    let folder = std::env::temp_dir().join(format!("nilo-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let paths = [folder.join("left"), folder.join("right")];
    for ((path, data), is_ordered) in paths.iter().zip([left, right]).zip([choice & 1 != 0, choice & 2 != 0]) {
        let bytes = file(data, is_ordered);
        if is_ordered {
            words_in(&bytes, true).expect("a file in order is whole");
        }
        std::fs::write(path, bytes).expect("a file");
    }
    let output = folder.join("merged");
    let (merged, written) = (all(&paths), MergedCounts::write(&paths, &output));
    assert_eq!(merged.is_some(), written.is_ok(), "read and written by the same rules");
    if let Some(merged) = merged {
        assert!(merged.windows(2).all(|pair| pair[0].0 < pair[1].0), "words ascend");
        assert_eq!(all(&[output]).as_ref(), Some(&merged), "the merged file says the same");
        let options = MergeOptions {
            vocabulary_size: 270,
            ..MergeOptions::default()
        };
        let source = MergedCounts::open(&paths, 1).expect("opened before");
        if let Ok(words) = Words::read(source, &options) {
            let _ = words.learn(&options, &Quiet).map(|learned| learned.merges.len());
        }
    }
});
