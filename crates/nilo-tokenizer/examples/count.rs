//! Measures the scanner: `cargo run --release -p nilo-tokenizer --example count -- FILE [PATTERN]`.
#![allow(clippy::print_stdout, reason = "figures are the output")]

use std::time::Instant;

use nilo_tokenizer::Pattern;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("no file given")?;
    let pattern: Pattern = arguments.next().as_deref().unwrap_or("gpt2").parse()?;
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
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{:.0} MB/s, {words} words, {sum:x}",
            text.len() as f64 / 1e6 / seconds
        );
    }
    Ok(())
}
