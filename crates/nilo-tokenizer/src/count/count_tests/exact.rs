//! Any chunk size and thread count counts as a plain map does.

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_chunk_size_and_thread_count_gives_the_same_counts(
        parts in prop::collection::vec(prop::sample::select(&[
            "the", " cat", " ", "  ", "\n", "'s", "'", "1", "234", ",", "<|", "<|e|>", "<|e|", "|>", "<s>", "中文", "\u{3000}", "é",
            "\u{301}", "Z", "a-rather-long-word", "averyveryverylongword", "\u{1F469}\u{200D}",
        ][..]), 0..80),
        cuts in prop::collection::vec(0_usize..80, 0..3),
        chunk_bytes in 1_usize..200,
        threads in 1_usize..5,
        pattern in prop::sample::select(&["gpt2", "cl100k", "o200k", "none", r"\w+|\s"][..]),
        invalid in any::<bool>(),
        cut_out in any::<bool>(),
    ) {
        let pattern: Pattern = pattern.parse().unwrap();
        let mut files: Vec<Vec<u8>> = vec![Vec::new()];
        for (place, part) in parts.iter().enumerate() {
            if cuts.contains(&place) {
                files.push(Vec::new());
            }
            let file = files.last_mut().unwrap();
            file.extend_from_slice(part.as_bytes());
            if invalid && place % 7 == 3 {
                file.push(0xF0);
            }
        }
        let mut format = separated("<|e|>");
        if cut_out {
            format.cut_out = vec!["<s>".to_owned(), "<|".to_owned()];
        }
        // Plainly: the separator, or the longest token, at the first place where there is one.
        let mut texts: Vec<Vec<u8>> = Vec::new();
        let mut documents = 0;
        for file in &files {
            let mut any = false;
            let mut text = Vec::new();
            let mut at = 0;
            while at < file.len() {
                let token = ["<|e|>", "<s>", "<|"].into_iter().take(if cut_out { 3 } else { 1 }).find(|token| file[at..].starts_with(token.as_bytes()));
                match token {
                    Some("<|e|>") => {
                        documents += u64::from(any);
                        any = false;
                    }
                    Some(_) => any = true,
                    None => {
                        any = true;
                        text.push(file[at]);
                    }
                }
                if token.is_some() {
                    texts.push(std::mem::take(&mut text));
                }
                at += token.map_or(1, str::len);
            }
            texts.push(text);
            documents += u64::from(any);
        }
        let expected = plainly(&pattern, &texts.iter().map(Vec::as_slice).collect::<Vec<_>>());

        let folder = tempfile::tempdir().unwrap();
        let slices: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
        let corpus = corpus_of(folder.path(), &slices, format);
        let settings = CountSettings { chunk_bytes, threads, ..settings(&pattern) };
        let counts = finished(count(&corpus, &settings, &Quiet).unwrap());
        let totals = *counts.totals();
        prop_assert_eq!(totals.words, expected.values().sum::<u64>());
        prop_assert_eq!(totals.text_bytes, texts.iter().map(|text| text.len() as u64).sum::<u64>());
        prop_assert_eq!(totals.documents, documents);
        prop_assert_eq!(totals.distinct_words, expected.len() as u64);
        prop_assert_eq!(words_of(counts.into_words(1)), expected);
    }

    #[test]
    fn lines_are_texts_of_their_own(lines in prop::collection::vec("[a-z ']{0,12}", 0..20), chunk_bytes in 1_usize..40) {
        let text = lines.join("\n").into_bytes();
        let texts: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let folder = tempfile::tempdir().unwrap();
        let format = TextFormat { documents: Documents::Lines, cut_out: Vec::new() };
        let corpus = corpus_of(folder.path(), &[&text], format);
        let settings = CountSettings { chunk_bytes, ..settings(&Pattern::Gpt2) };
        let counts = finished(count(&corpus, &settings, &Quiet).unwrap());
        prop_assert_eq!(counts.totals().documents, texts.len() as u64);
        prop_assert_eq!(words_of(counts.into_words(1)), plainly(&Pattern::Gpt2, &texts));
    }
}

#[test]
fn rare_words_can_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = corpus_of(
        folder.path(),
        &[b"a b a a-very-very-long-one-indeed a-very-very-long-one-indeed"],
        TextFormat::default(),
    );
    let counts = finished(count(&corpus, &settings(&Pattern::Gpt2), &Quiet).unwrap());
    let words = words_of(counts.into_words(2));
    assert!(words.values().all(|&count| count >= 2));
    assert!(words.contains_key(&b"-very"[..1]));
    assert!(!words.contains_key(&b" b"[..]));
}

#[test]
fn words_that_end_in_zeros_stay_apart() {
    let folder = tempfile::tempdir().unwrap();
    let text = b"\0\0\0 \0\0 \0";
    let corpus = corpus_of(folder.path(), &[text], TextFormat::default());
    let counts = finished(count(&corpus, &settings(&Pattern::Gpt2), &Quiet).unwrap());
    let path = folder.path().join("counts");
    counts.write(&path).unwrap();
    let expected = plainly(&Pattern::Gpt2, &[text]);
    assert_eq!(expected.len(), 3);
    assert_eq!(words_of(CountsReader::open(&path).unwrap()), expected);
}

#[test]
fn one_word_without_any_cut_is_counted() {
    let text = vec![b'a'; 3_000_000];
    let folder = tempfile::tempdir().unwrap();
    let corpus = corpus_of(folder.path(), &[&text], TextFormat::default());
    let settings = CountSettings {
        chunk_bytes: 1000,
        ..settings(&Pattern::Gpt2)
    };
    let counts = finished(count(&corpus, &settings, &Quiet).unwrap());
    assert_eq!(words_of(counts.into_words(1)), Words::from([(text, 1)]));
}

#[test]
fn documents_handed_in_one_by_one_count_the_same() {
    let text = many_words(2_000);
    let texts: Vec<&[u8]> = text.chunks(997).collect();
    let settings = CountSettings {
        chunk_bytes: 5_000,
        threads: 2,
        ..CountSettings::default()
    };
    let mut counter = DocumentCounter::new(settings, Vec::new()).unwrap();
    for text in &texts {
        counter.add(text).unwrap();
    }
    counter.add(b"").unwrap();
    let counts = counter.finish().unwrap();
    assert_eq!(counts.totals().documents, texts.len() as u64);
    assert_eq!(
        words_of(counts.into_words(1)),
        plainly(&Pattern::Gpt2, &texts)
    );
}
