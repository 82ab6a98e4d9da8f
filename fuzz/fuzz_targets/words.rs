//! Any bytes as text: every pattern splits them into words that follow each other without a gap, and a safe cut changes none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilo_tokenizer::Pattern;

fn ends(pattern: &Pattern, text: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut last = 0;
    let scanned = pattern.for_each_span(text, |start, end| {
        assert!(start == last && end > start);
        last = end;
        ends.push(end);
    });
    assert!(scanned.is_ok() && last == text.len());
    ends
}

fuzz_target!(|text: &[u8]| {
    for pattern in [Pattern::Gpt2, Pattern::Cl100k, Pattern::O200k] {
        let whole = ends(&pattern, text);
        if let Some(cut) = pattern.safe_cut(text) {
            let mut both = ends(&pattern, &text[..cut]);
            both.extend(ends(&pattern, &text[cut..]).into_iter().map(|end| end + cut));
            assert_eq!(both, whole);
        }
    }
});
