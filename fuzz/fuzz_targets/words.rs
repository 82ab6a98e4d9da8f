//! Any bytes as text: every pattern splits them into words that follow each other without a gap, and a safe cut changes none.
//! Where they are UTF-8, the words are those of the regular expression.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nilo_tokenizer::{CustomPattern, Pattern};

/// The patterns, and their expressions as a user would give them.
static PATTERNS: LazyLock<[(Pattern, Pattern); 3]> = LazyLock::new(|| {
    [Pattern::Gpt2, Pattern::Cl100k, Pattern::O200k].map(|pattern| {
        let regex = pattern.regex().expect("published patterns have one");
        let custom = CustomPattern::new(regex).expect("it is in order");
        (pattern, Pattern::Custom(custom))
    })
});

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
    for (pattern, expression) in PATTERNS.iter() {
        let whole = ends(pattern, text);
        if let Some(cut) = pattern.safe_cut(text) {
            let mut both = ends(pattern, &text[..cut]);
            both.extend(ends(pattern, &text[cut..]).into_iter().map(|end| end + cut));
            assert_eq!(both, whole);
        }
        if std::str::from_utf8(text).is_ok() {
            assert_eq!(ends(expression, text), whole, "{pattern}");
        }
    }
});
