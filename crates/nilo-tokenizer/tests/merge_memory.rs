//! Merging allocates what its plan predicts, and keeps within its budget.

#![allow(clippy::unwrap_used)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use nilo_tokenizer::Quiet;
use nilo_tokenizer::merge::{Learned, MergeError, MergeOptions, MergePlan, ReadWordsError, Words};
use support::{Counted, Random};

/// The system's allocator, with a gauge.
struct Gauge;

static ALLOCATED: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);
/// One measurement at a time.
static MEASURING: Mutex<()> = Mutex::new(());

fn allocated(bytes: i64) {
    let level = ALLOCATED.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(level, Relaxed);
}

// SAFETY: every call is handed on as it came.
unsafe impl GlobalAlloc for Gauge {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        allocated(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        allocated(size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static GAUGE: Gauge = Gauge;

fn measure(words: &BTreeMap<Vec<u8>, u64>, options: &MergeOptions) -> (MergePlan, i64, Learned) {
    let _alone = MEASURING.lock().unwrap();
    let source = Counted::new(words);
    let before = ALLOCATED.load(Relaxed);
    PEAK.store(before, Relaxed);
    let words = Words::read(source, options).unwrap();
    let plan = words.plan(options).unwrap();
    let learned = words.learn(options, &Quiet).unwrap();
    (plan, PEAK.load(Relaxed) - before, learned)
}

/// Words like those of a language: syllables, the frequent ones short.
fn language(words: u64, syllables: u64, seed: u64) -> BTreeMap<Vec<u8>, u64> {
    let mut random = Random::seeded(seed);
    let parts: Vec<Vec<u8>> = (0..syllables)
        .map(|_| {
            (0..1 + random.below(4))
                .map(|_| b'a' + random.below(26) as u8)
                .collect()
        })
        .collect();
    let mut counted = BTreeMap::new();
    for rank in 1..=words {
        let mut word = Vec::new();
        for _ in 0..1 + random.below(6) {
            let part = random.below(syllables).min(random.below(syllables));
            word.extend_from_slice(&parts[part as usize]);
        }
        *counted.entry(word).or_default() += 1 + words * 3 / rank;
    }
    counted
}

#[test]
fn the_peak_is_within_a_fifth_of_the_plan() {
    for (words, syllables, size, threads) in [
        (40_000, 300, 2_000, 1),
        (40_000, 3_000, 12_000, 2),
        (120_000, 1_000, 4_000, 1),
        (3_000, 200, 30_000, 1),
        (20_000, 500, 70_000, 1),
    ] {
        let words = language(words, syllables, words);
        let options = MergeOptions {
            vocabulary_size: size,
            threads,
            ..MergeOptions::default()
        };
        let (plan, peak, learned) = measure(&words, &options);
        let ratio = peak as f64 / plan.peak_bytes as f64;
        println!(
            "{} merges, {} bytes, {ratio:.2} of the plan",
            learned.merges.len(),
            peak
        );
        assert!(
            (0.8..=1.2).contains(&ratio),
            "{peak} bytes, planned {plan:?} for {options:?}"
        );
    }
}

#[test]
fn a_budget_is_kept_and_changes_nothing() {
    let words = language(60_000, 800, 5);
    let mut options = MergeOptions {
        vocabulary_size: 3_000,
        ..MergeOptions::default()
    };
    let (ample, peak, expected) = measure(&words, &options);
    for share in [0.0, 0.2, 0.5] {
        let budget = ample.least_bytes + ((peak as u64 - ample.least_bytes) as f64 * share) as u64;
        options.memory_budget_bytes = Some(budget);
        let (_, peak, learned) = measure(&words, &options);
        assert_eq!(learned.merges, expected.merges);
        assert!(
            peak as f64 <= budget as f64 * 1.1,
            "{peak} bytes of {budget}"
        );
        println!("budget {budget}, peak {peak}, {:?}", learned.statistics);
    }
}

#[test]
fn a_budget_that_the_words_exceed_is_refused_with_one_that_does() {
    let words = language(150_000, 2_000, 9);
    let options = MergeOptions {
        memory_budget_bytes: Some(6 << 20),
        ..MergeOptions::default()
    };
    let error = Words::read(Counted::new(&words), &options).unwrap_err();
    let ReadWordsError::Merge(MergeError::BudgetTooSmall {
        budget_bytes,
        needed_bytes,
    }) = error
    else {
        panic!("{error}");
    };
    assert!(budget_bytes == 6 << 20 && needed_bytes > budget_bytes);
    let enough = MergeOptions {
        memory_budget_bytes: Some(needed_bytes),
        ..MergeOptions::default()
    };
    let plan = Words::read(Counted::new(&words), &enough)
        .unwrap()
        .plan(&enough)
        .unwrap();
    assert!(plan.peak_bytes <= needed_bytes, "{plan:?}");
}
