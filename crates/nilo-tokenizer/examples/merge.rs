//! Learns merges from a dump of counted words (length as u32, count as u64, bytes, little-endian) and says how long it took.
//!
//! `cargo run --release --example merge -- DUMP VOCABULARY_SIZE [THREADS [BUDGET_BYTES [FOLDER]]]`

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::time::Instant;

use nilo_tokenizer::merge::{MergeOptions, Words};
use nilo_tokenizer::model::Model;
use nilo_tokenizer::{Pattern, Quiet, WordSource};

struct Dump {
    bytes: std::io::BufReader<std::fs::File>,
    word: Vec<u8>,
}

impl WordSource for Dump {
    type Error = std::io::Error;

    fn next_word(&mut self) -> Result<Option<(&[u8], u64)>, Self::Error> {
        use std::io::Read;
        let mut head = [0; 12];
        match self.bytes.read_exact(&mut head) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let length = u32::from_le_bytes(head[..4].try_into().unwrap());
        self.word.resize(length as usize, 0);
        self.bytes.read_exact(&mut self.word)?;
        Ok(Some((
            &self.word,
            u64::from_le_bytes(head[4..].try_into().unwrap()),
        )))
    }
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn high_water_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| {
        arguments
            .get(index)
            .and_then(|text| text.parse::<u64>().ok())
    };
    let options = MergeOptions {
        vocabulary_size: number(1).unwrap_or(32_000) as usize,
        special_tokens: vec!["<|endoftext|>".to_owned()],
        threads: number(2).unwrap_or(1) as usize,
        memory_budget_bytes: number(3).filter(|&bytes| bytes > 0),
        ..MergeOptions::default()
    };
    let began = Instant::now();
    let file = std::fs::File::open(&arguments[0]).unwrap();
    let words = Words::read(
        Dump {
            bytes: std::io::BufReader::with_capacity(1 << 16, file),
            word: Vec::new(),
        },
        &options,
    )
    .unwrap();
    println!(
        "words {} bytes {} read {:.3} s",
        words.distinct(),
        words.bytes(),
        began.elapsed().as_secs_f64()
    );
    println!("{:?}", words.plan(&options));
    let began = Instant::now();
    let cpu = cpu_seconds();
    let learned = words.learn(&options, &Quiet).unwrap();
    println!(
        "merge {:.3} s, {:.3} CPU seconds, {} merges, last count {}, {:?}, high water {:.1} MB",
        began.elapsed().as_secs_f64(),
        cpu_seconds() - cpu,
        learned.merges.len(),
        learned.merges.last().map_or(0, |merge| merge.count),
        learned.statistics,
        high_water_bytes() as f64 / 1e6,
    );
    if let Some(folder) = arguments.get(4) {
        let folder = std::path::Path::new(folder);
        let model = Model::from_learned(learned, Pattern::Gpt2);
        model.save(folder).unwrap();
    }
}
