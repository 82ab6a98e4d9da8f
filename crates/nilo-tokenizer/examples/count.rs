//! Measures scanning and counting of one file:
//! `cargo run --release -p nilo-tokenizer --example count -- FILE [THREADS] [PATTERN] [MEMORY_BUDGET_MIB]`
//!
//! Scanning alone runs over the file in memory, on one thread; counting reads it as training does.
#![allow(clippy::print_stdout, reason = "figures are the output")]

use std::time::Instant;

use nilo_tokenizer::{
    Corpus, CountOutcome, CountSettings, Documents, Pattern, Quiet, TextFormat, WordSource, count,
};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("no file given")?;
    let threads = arguments.next().as_deref().unwrap_or("2").parse()?;
    let pattern: Pattern = arguments.next().as_deref().unwrap_or("gpt2").parse()?;
    let budget_mib: Option<u64> = arguments.next().map(|text| text.parse()).transpose()?;
    if threads == 0 {
        return scan(&path, &pattern);
    }
    let format = TextFormat {
        documents: Documents::Separated("<|endoftext|>".to_owned()),
        cut_out: Vec::new(),
    };
    let corpus = Corpus::find(&[path], format)?;
    let settings = CountSettings {
        pattern,
        threads,
        memory_budget_bytes: budget_mib.map(|mib| mib << 20),
        ..CountSettings::default()
    };
    let begun = Instant::now();
    let CountOutcome::Finished(counts) = count(&corpus, &settings, &Quiet)? else {
        return Err("stopped".into());
    };
    let counted = begun.elapsed().as_secs_f64();
    println!("{:?}, spilled: {}", counts.totals(), counts.has_spilled());
    let megabytes = counts.totals().text_bytes as f64 / 1e6;
    println!(
        "counted in {counted:.3} s, {:.0} MB/s, peak {} MiB",
        megabytes / counted,
        memory_mib("VmHWM:")
    );
    let begun = Instant::now();
    let mut words = counts.into_words(1);
    let mut sum = 0_u64;
    while let Some((word, count)) = words.next_word()? {
        sum = sum.wrapping_add(word.len() as u64 * count);
    }
    let read = begun.elapsed().as_secs_f64();
    println!(
        "read {sum} bytes in {read:.3} s, {} MiB left",
        memory_mib("VmRSS:")
    );
    Ok(())
}

fn scan(path: &str, pattern: &Pattern) -> Result<(), Failure> {
    let text = std::fs::read(path)?;
    for _ in 0..5 {
        let begun = Instant::now();
        let (mut words, mut sum) = (0_u64, 0_u64);
        for chunk in text.chunks(1 << 20) {
            pattern.for_each_span(chunk, |start, end| {
                words += 1;
                sum = sum.wrapping_mul(31).wrapping_add((end - start) as u64);
            })?;
        }
        let rate = text.len() as f64 / 1e6 / begun.elapsed().as_secs_f64();
        println!("scanned at {rate:.0} MB/s, {words} words, {sum:x}");
    }
    Ok(())
}

fn memory_mib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with(field))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}
