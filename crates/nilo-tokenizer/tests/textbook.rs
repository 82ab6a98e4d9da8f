//! Merges are those of the textbook: count all pairs anew for each merge, take the first in the order, replace it from left to right.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::{BTreeMap, HashMap};

use nilo_tokenizer::byte_level::ByteLevel;
use nilo_tokenizer::merge::{Alphabet, Learned, MergeError, MergeOptions, TieBreak, Words};
use nilo_tokenizer::{Progress, Quiet};
use support::{Counted, Random};

fn learn(words: &BTreeMap<Vec<u8>, u64>, options: &MergeOptions) -> Result<Learned, MergeError> {
    Words::read(Counted::new(words), options)
        .unwrap()
        .learn(options, &Quiet)
}

/// Left, right, joined, count.
type TextbookMerge = (u32, u32, u32, u64);

/// Tokens and merges, the slow and obvious way.
fn textbook(
    words: &BTreeMap<Vec<u8>, u64>,
    options: &MergeOptions,
) -> (Vec<Vec<u8>>, Vec<TextbookMerge>) {
    let level = ByteLevel::default();
    let mut tokens: Vec<Vec<u8>> = Vec::new();
    let mut ids: HashMap<Vec<u8>, u32> = HashMap::new();
    for special in &options.special_tokens {
        let text = level.bytes_of(special);
        if let Some(text) = &text {
            ids.insert(text.clone(), tokens.len() as u32);
        }
        tokens.push(text.unwrap_or_else(|| special.clone().into_bytes()));
    }
    let seen = |byte: u8| words.keys().any(|word| word.contains(&byte));
    for byte in level.alphabet() {
        if (options.alphabet == Alphabet::AllBytes || seen(byte)) && !ids.contains_key(&vec![byte])
        {
            ids.insert(vec![byte], tokens.len() as u32);
            tokens.push(vec![byte]);
        }
    }
    let mut split: Vec<(Vec<u32>, u64)> = words
        .iter()
        .map(|(word, &count)| (word.iter().map(|&byte| ids[&vec![byte]]).collect(), count))
        .collect();
    let mut merges = Vec::new();
    while tokens.len() < options.vocabulary_size {
        let mut counts: HashMap<(u32, u32), u64> = HashMap::new();
        for (word, count) in &split {
            for pair in word.windows(2) {
                let length = tokens[pair[0] as usize].len() + tokens[pair[1] as usize].len();
                if length == 2 || options.max_token_length.is_none_or(|most| length < most) {
                    *counts.entry((pair[0], pair[1])).or_default() += count;
                }
            }
        }
        let best = counts
            .into_iter()
            .max_by(|(first, first_count), (second, second_count)| {
                let text = |id: u32| &tokens[id as usize];
                first_count
                    .cmp(second_count)
                    .then_with(|| match options.tie_break {
                        TieBreak::HuggingFace => second.cmp(first),
                        TieBreak::Gpt2Bytes => {
                            (text(first.0), text(first.1)).cmp(&(text(second.0), text(second.1)))
                        }
                    })
            });
        let Some(((left, right), count)) = best else {
            break;
        };
        if count < options.min_frequency.max(1) {
            break;
        }
        let text = [&tokens[left as usize][..], &tokens[right as usize]].concat();
        let joined = *ids.entry(text.clone()).or_insert_with(|| {
            tokens.push(text);
            tokens.len() as u32 - 1
        });
        merges.push((left, right, joined, count));
        for (word, _) in &mut split {
            let mut merged = Vec::new();
            let mut index = 0;
            while index < word.len() {
                if index + 1 < word.len() && (word[index], word[index + 1]) == (left, right) {
                    merged.push(joined);
                    index += 2;
                } else {
                    merged.push(word[index]);
                    index += 1;
                }
            }
            *word = merged;
        }
    }
    (tokens, merges)
}

fn assert_as_in_the_textbook(
    words: &BTreeMap<Vec<u8>, u64>,
    options: &MergeOptions,
    say: &str,
) -> Learned {
    let (tokens, merges) = textbook(words, options);
    let learned = learn(words, options).unwrap();
    let learned_merges: Vec<_> = learned
        .merges
        .iter()
        .map(|m| (m.left, m.right, m.joined, m.count))
        .collect();
    assert_eq!(learned_merges, merges, "{say}: {options:?} {words:?}");
    assert_eq!(
        learned
            .tokens
            .iter()
            .map(|text| text.to_vec())
            .collect::<Vec<_>>(),
        tokens,
        "{say}"
    );
    learned
}

fn random_words(
    random: &mut Random,
    alphabet: &[u8],
    words: u64,
    longest: u64,
) -> BTreeMap<Vec<u8>, u64> {
    let mut counted = BTreeMap::new();
    for _ in 0..words {
        let length = 1 + random.below(longest);
        let word = (0..length)
            .map(|_| alphabet[random.below(alphabet.len() as u64) as usize])
            .collect();
        let count = match random.below(10) {
            0 => 1 + random.below(3),
            1 => (1 << 31) + random.below(1 << 40),
            2 => u64::from(u32::MAX) - 1 + random.below(3),
            _ => 1 + random.below(20),
        };
        *counted.entry(word).or_default() += count;
    }
    counted
}

fn random_options(random: &mut Random) -> MergeOptions {
    let specials: &[&[&str]] = &[
        &[],
        &["<|endoftext|>"],
        &["ab", "<pad>"],
        &["a", "漢 字"],
        &["abc", "Ġa", "ba"],
    ];
    let special_tokens: Vec<String> = specials[random.below(5) as usize]
        .iter()
        .map(|&s| s.to_owned())
        .collect();
    MergeOptions {
        vocabulary_size: 256 + special_tokens.len() + random.below(60) as usize,
        special_tokens,
        min_frequency: random.below(4),
        max_token_length: (random.below(3) == 0).then(|| 1 + random.below(8) as usize),
        tie_break: if random.below(2) == 0 {
            TieBreak::HuggingFace
        } else {
            TieBreak::Gpt2Bytes
        },
        alphabet: if random.below(4) == 0 {
            Alphabet::Seen
        } else {
            Alphabet::AllBytes
        },
        threads: 1,
        memory_budget_bytes: None,
    }
}

#[test]
fn a_thousand_random_corpora_merge_as_in_the_textbook() {
    for seed in 1..=1000 {
        let mut random = Random::seeded(seed);
        let alphabet =
            [&b"ab"[..], b"a", b"abc d", b"\xe4\xb8\xad\xe6\x96"][random.below(4) as usize];
        let (words, longest) = (1 + random.below(30), 1 + random.below(24));
        let words = random_words(&mut random, alphabet, words, longest);
        let options = random_options(&mut random);
        assert_as_in_the_textbook(&words, &options, &format!("seed {seed}"));
    }
}

/// The smallest budget that is not refused, and a little more: there is hardly any room for an index.
fn least_budget(words: &BTreeMap<Vec<u8>, u64>, options: &MergeOptions) -> u64 {
    Words::read(Counted::new(words), options)
        .unwrap()
        .plan(options)
        .unwrap()
        .least_bytes
}

#[test]
fn any_budget_and_any_number_of_threads_give_the_same_merges() {
    let mut indexes = 0;
    let mut scans = 0;
    for seed in 1..=12 {
        let mut random = Random::seeded(seed);
        // With two letters every list is long.
        let letters = if seed < 3 {
            2
        } else {
            3 + random.below(20) as u8
        };
        let alphabet: Vec<u8> = (b'a'..b'a' + letters).collect();
        let words = random_words(&mut random, &alphabet, 4000, 14);
        let mut options = MergeOptions {
            vocabulary_size: 1200,
            min_frequency: 2,
            tie_break: if seed % 2 == 0 {
                TieBreak::HuggingFace
            } else {
                TieBreak::Gpt2Bytes
            },
            ..MergeOptions::default()
        };
        let expected = learn(&words, &options).unwrap();
        let least = least_budget(&words, &options);
        for (threads, more) in [(1, 0), (2, 0), (1, 20_000), (3, 60_000), (4, 1 << 30)] {
            options.threads = threads;
            options.memory_budget_bytes = Some(
                least_budget(
                    &words,
                    &MergeOptions {
                        memory_budget_bytes: None,
                        ..options.clone()
                    },
                )
                .max(least)
                    + more,
            );
            let learned = learn(&words, &options).unwrap();
            assert_eq!(
                learned.merges, expected.merges,
                "seed {seed}, {threads} threads, {more} bytes more"
            );
            indexes += learned.statistics.indexes;
            scans += learned.statistics.scans;
        }
    }
    assert!(indexes > 100, "tiny budgets force indexes anew: {indexes}");
    assert!(scans > 0, "some lists have no room at all");
}

#[test]
fn a_tiny_budget_merges_as_in_the_textbook() {
    for seed in 1..=10 {
        let mut random = Random::seeded(seed);
        let words = random_words(&mut random, b"abcdefgh", 700, 12);
        let mut options = random_options(&mut random);
        options.vocabulary_size = 400;
        options.memory_budget_bytes = Some(least_budget(&words, &options));
        assert_as_in_the_textbook(&words, &options, &format!("seed {seed}"));
    }
}

#[test]
fn ties_by_the_thousand_are_taken_in_order_with_hardly_any_room() {
    // Every pair once: more pairs of the highest count than the table takes.
    let words: BTreeMap<Vec<u8>, u64> = (0..64u8)
        .flat_map(|a| (0..64u8).map(move |b| (vec![b'0' + a, b'0' + b], 1)))
        .collect();
    for tie_break in [TieBreak::HuggingFace, TieBreak::Gpt2Bytes] {
        let mut options = MergeOptions {
            vocabulary_size: 900,
            tie_break,
            ..MergeOptions::default()
        };
        let expected = learn(&words, &options).unwrap();
        options.memory_budget_bytes = Some(least_budget(&words, &options));
        let learned = learn(&words, &options).unwrap();
        assert_eq!(learned.merges, expected.merges);
        assert!(learned.statistics.indexes > 0);
    }
}

#[test]
fn runs_of_one_byte_are_replaced_from_left_to_right() {
    let words = (1..40usize)
        .map(|length| (vec![b'a'; length], length as u64))
        .collect();
    let options = MergeOptions {
        vocabulary_size: 290,
        ..MergeOptions::default()
    };
    assert_as_in_the_textbook(&words, &options, "runs");
}

#[test]
fn a_word_of_a_megabyte_is_merged_by_any_number_of_threads() {
    let mut random = Random(7);
    let long: Vec<u8> = (0..1 << 20)
        .map(|_| b"abcd"[random.below(4) as usize])
        .collect();
    let words = BTreeMap::from([(long, 3), (vec![b'a'; 1 << 20], 2), (b"abab".to_vec(), 1)]);
    let mut options = MergeOptions {
        vocabulary_size: 600,
        ..MergeOptions::default()
    };
    let expected = learn(&words, &options).unwrap();
    assert_eq!(expected.tokens.len(), 600);
    options.threads = 3;
    assert_eq!(learn(&words, &options).unwrap().merges, expected.merges);
    options.vocabulary_size = 262;
    let (_, merges) = textbook(&words, &options);
    let first: Vec<_> = expected.merges[..merges.len()]
        .iter()
        .map(|m| (m.left, m.right, m.joined, m.count))
        .collect();
    assert_eq!(first, merges);
}

#[test]
fn ids_beyond_sixteen_bits_change_nothing() {
    let mut random = Random(11);
    let words = random_words(&mut random, b"abcdefgh", 300, 12);
    let narrow = learn(
        &words,
        &MergeOptions {
            vocabulary_size: 60_000,
            ..MergeOptions::default()
        },
    )
    .unwrap();
    let wide = learn(
        &words,
        &MergeOptions {
            vocabulary_size: 70_000,
            ..MergeOptions::default()
        },
    )
    .unwrap();
    assert_eq!(narrow.merges, wide.merges);
}

#[test]
fn nothing_to_merge_gives_the_alphabet() {
    for words in [BTreeMap::new(), BTreeMap::from([(b"a".to_vec(), 5)])] {
        let learned = learn(&words, &MergeOptions::default()).unwrap();
        assert_eq!((learned.tokens.len(), learned.merges.len()), (256, 0));
    }
}

#[test]
fn what_cannot_be_learnt_is_refused_in_one_sentence() {
    let words = BTreeMap::from([(b"hello".to_vec(), 5)]);
    let refusal = |options: &MergeOptions| learn(&words, options).unwrap_err().to_string();
    let specials = |tokens: &[&str]| {
        tokens
            .iter()
            .map(|&token| token.to_owned())
            .collect::<Vec<_>>()
    };
    let small = MergeOptions {
        vocabulary_size: 256,
        special_tokens: specials(&["<s>"]),
        ..MergeOptions::default()
    };
    assert_eq!(
        refusal(&small),
        "a vocabulary of 256 tokens is too small: 256 bytes and 1 special tokens need at least 257"
    );
    let empty = MergeOptions {
        special_tokens: specials(&["<s>", ""]),
        ..MergeOptions::default()
    };
    assert_eq!(refusal(&empty), "special token number 2 is empty");
    let doubled = MergeOptions {
        special_tokens: specials(&["<s>", "<s>"]),
        ..MergeOptions::default()
    };
    assert_eq!(refusal(&doubled), "special token given twice: <s>");
    let budget = MergeOptions {
        memory_budget_bytes: Some(1000),
        ..MergeOptions::default()
    };
    assert!(
        refusal(&budget).starts_with(
            "a memory budget of 1000 bytes is too small to merge these words, at least "
        )
    );
    let huge = MergeOptions {
        vocabulary_size: usize::MAX,
        ..MergeOptions::default()
    };
    assert!(refusal(&huge).starts_with("a vocabulary of 18446744073709551615 tokens is larger"));
    let heavy = BTreeMap::from([(b"hello".to_vec(), u64::MAX)]);
    let error = Words::read(Counted::new(&heavy), &MergeOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the counts of the words add up to more than 2^63 bytes of text"
    );
}

#[test]
fn whoever_asks_to_stop_is_heard() {
    struct Stop;
    impl Progress for Stop {
        fn should_stop(&self) -> bool {
            true
        }
    }
    let mut random = Random(5);
    let alphabet: Vec<u8> = (0..=255).collect();
    let words = random_words(&mut random, &alphabet, 60_000, 30);
    let options = MergeOptions {
        vocabulary_size: 60_000,
        ..MergeOptions::default()
    };
    let error = Words::read(Counted::new(&words), &options)
        .unwrap()
        .learn(&options, &Stop)
        .unwrap_err();
    assert!(matches!(error, MergeError::Stopped { .. }), "{error}");
}
