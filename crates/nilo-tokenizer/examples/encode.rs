//! Encodes a text with a tokenizer.json and says how fast.
//!
//! `cargo run --release --example encode -- TOKENIZER_JSON TEXT [THREADS [SKIP_BYTES [TAKE_BYTES [IDS_FILE]]]]`

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::time::Instant;

use nilo_tokenizer::encode::{Encoder, Scratch, SpecialTokens};
use nilo_tokenizer::model::Model;

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| {
        arguments
            .get(index)
            .map_or(default, |text| text.parse().unwrap())
    };
    let began = Instant::now();
    let model = Model::from_tokenizer_json(&std::fs::read(&arguments[0]).unwrap()).unwrap();
    let encoder = Encoder::new(&model);
    println!("loaded in {:.3} s", began.elapsed().as_secs_f64());
    let text = std::fs::read(&arguments[1]).unwrap();
    let skip = number(3, 0).min(text.len());
    let text = &text[skip..(skip + number(4, usize::MAX - skip)).min(text.len())];
    let threads = number(2, 1);
    for _ in 0..3 {
        let began = Instant::now();
        let cpu = cpu_seconds();
        let ids = if threads == 1 {
            let mut ids = Vec::new();
            encoder
                .encode_into(
                    text,
                    SpecialTokens::Recognise,
                    &mut Scratch::default(),
                    &mut ids,
                )
                .unwrap();
            vec![ids]
        } else {
            encoder
                .encode_parallel(text, SpecialTokens::Recognise, threads)
                .unwrap()
        };
        let (seconds, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        let count: usize = ids.iter().map(Vec::len).sum();
        let megabytes = text.len() as f64 / 1e6;
        println!(
            "{count} ids, {:.1} MB/s, {:.1} MB per CPU second",
            megabytes / seconds,
            megabytes / cpu
        );
        if let Some(path) = arguments.get(5) {
            let bytes: Vec<u8> = ids
                .iter()
                .flatten()
                .flat_map(|id| id.to_le_bytes())
                .collect();
            std::fs::write(path, bytes).unwrap();
        }
    }
}
