//! Counts against a plain map, at any chunk size, thread count and budget; spilling, files, interrupting.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::corpus::{Corpus, Documents, TextFormat};
use crate::pattern::Pattern;
use crate::{Progress, Quiet, WordSource};

type Words = BTreeMap<Vec<u8>, u64>;

fn words_of<S: WordSource<Error = CountError>>(mut source: S) -> Words {
    let hint = source.size_hint();
    let mut words = Words::new();
    while let Some((word, count)) = source.next_word().unwrap() {
        assert!(
            words.insert(word.to_vec(), count).is_none(),
            "each word comes once"
        );
    }
    if let Some((distinct, bytes)) = hint {
        assert_eq!(distinct, words.len() as u64);
        assert_eq!(
            bytes,
            words.keys().map(|word| word.len() as u64).sum::<u64>()
        );
    }
    words
}

/// Splits and counts the plain way.
fn plainly(pattern: &Pattern, texts: &[&[u8]]) -> Words {
    let mut words = Words::new();
    for text in texts {
        pattern
            .for_each_word(text, |word| *words.entry(word.to_vec()).or_default() += 1)
            .unwrap();
    }
    words
}

fn corpus_of(folder: &Path, files: &[&[u8]], format: TextFormat) -> Corpus {
    for (number, text) in files.iter().enumerate() {
        fs::write(folder.join(format!("{number:04}")), text).unwrap();
    }
    Corpus::find(&[folder.to_str().unwrap().to_owned()], format).unwrap()
}

fn settings(pattern: &Pattern) -> CountSettings {
    CountSettings {
        pattern: pattern.clone(),
        threads: 2,
        ..CountSettings::default()
    }
}

fn finished(counted: Counted) -> Counts {
    match counted {
        Counted::Finished(counts) => counts,
        Counted::Stopped(_) => panic!("counting was stopped"),
    }
}

fn separated(separator: &str) -> TextFormat {
    TextFormat {
        documents: Documents::Separated(separator.to_owned()),
        cut_out: Vec::new(),
    }
}

/// About as many distinct words as asked for, short and long.
fn many_words(distinct: u64) -> Vec<u8> {
    let mut text = String::new();
    for number in 0..distinct {
        let word = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let letters: String = format!("{word:016x}")
            .chars()
            .map(|c| char::from(b'a' + c.to_digit(16).unwrap() as u8))
            .collect();
        text.push_str(&format!(
            " {letters}{}",
            if number % 3 == 0 {
                letters.as_str()
            } else {
                ""
            }
        ));
        if number % 2 == 0 {
            text.push_str(&format!(" {}", &letters[..3]));
        }
    }
    text.into_bytes()
}

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
fn a_table_over_its_budget_spills_and_counts_the_same() {
    let text = many_words(120_000);
    let folder = tempfile::tempdir().unwrap();
    let corpus = corpus_of(
        folder.path(),
        &[&text, &text[..text.len() / 2]],
        TextFormat::default(),
    );
    let expected = plainly(&Pattern::Gpt2, &[&text, &text[..text.len() / 2]]);
    for threads in [1, 3] {
        let spill = tempfile::tempdir().unwrap();
        let settings = CountSettings {
            threads,
            chunk_bytes: 1 << 16,
            memory_budget_bytes: Some(1),
            spill_folder: Some(spill.path().to_owned()),
            ..settings(&Pattern::Gpt2)
        };
        let counts = finished(count(&corpus, &settings, &Quiet).unwrap());
        assert!(counts.has_spilled());
        assert_eq!(
            fs::read_dir(spill.path()).unwrap().count(),
            0,
            "nothing is seen in the folder"
        );
        assert_eq!(counts.totals().distinct_words, expected.len() as u64);
        assert!(words_of(counts.into_words(1)) == expected);
    }
}

#[test]
fn many_runs_are_merged_on_the_way() {
    let folder = std::sync::Arc::new(std::env::temp_dir());
    let mut spilled = super::spill::Spilled::new(&folder).unwrap();
    for run in 0..200_u64 {
        let mut shard = super::shard::Shard::new();
        for word in [
            format!("w{}", run % 50),
            "common".to_owned(),
            format!("long word number {run}"),
        ] {
            shard.add(word.as_bytes(), super::shard::hash_of(word.as_bytes()), 2);
        }
        spilled.write(&shard).unwrap();
    }
    let size = spilled.compact().unwrap();
    assert_eq!(size.words, 251);
    let mut merged = spilled.read();
    use super::merge::SortedWords;
    assert!(merged.advance().unwrap());
    assert_eq!((merged.word(), merged.count()), (&b"common"[..], 400));
}

#[test]
fn a_full_disk_is_an_error_that_says_so() {
    let full = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/full")
        .unwrap();
    let folder = std::sync::Arc::new(std::path::PathBuf::from("/the/folder"));
    let mut spilled = super::spill::Spilled::on(full, &folder);
    let mut shard = super::shard::Shard::new();
    shard.add(b"word", super::shard::hash_of(b"word"), 1);
    let error = spilled.write(&shard).unwrap_err();
    assert_eq!(
        error.to_string(),
        "could not keep counted words in /the/folder"
    );
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("No space left"), "{source}");
    assert!(error.hint().unwrap().contains("space"));
}

#[test]
fn a_folder_that_takes_no_files_is_an_error() {
    let text = many_words(60_000);
    let folder = tempfile::tempdir().unwrap();
    let corpus = corpus_of(folder.path(), &[&text], TextFormat::default());
    let settings = CountSettings {
        memory_budget_bytes: Some(1),
        spill_folder: Some(folder.path().join("missing")),
        ..settings(&Pattern::Gpt2)
    };
    let error = count(&corpus, &settings, &Quiet).unwrap_err();
    assert!(matches!(error, CountError::Spill { .. }), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn counts_beyond_32_bits_are_exact() {
    let table = CountSettings::default().table();
    for word in ["word", "a word of more than sixteen bytes"] {
        for _ in 0..3 {
            table.add(word.as_bytes(), u64::from(u32::MAX));
        }
    }
    let (parts, _) = table.finish().unwrap();
    let recipe = Recipe::new(&Pattern::Gpt2, &TextFormat::default());
    let totals = Totals {
        distinct_words: 2,
        distinct_bytes: 4 + 33,
        ..Totals::default()
    };
    let words = words_of(Counts::new(parts, totals, recipe).into_words(1));
    assert_eq!(
        words.values().copied().collect::<Vec<_>>(),
        [3 * u64::from(u32::MAX); 2]
    );
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

#[test]
fn files_of_parts_merge_into_the_whole() {
    let text = many_words(3_000);
    let (left, right) = text.split_at(text.iter().position(|byte| *byte == b' ').unwrap() + 30_000);
    let folder = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (name, part) in [("left", left), ("right", right)] {
        let inputs = folder.path().join(format!("{name}-texts"));
        fs::create_dir(&inputs).unwrap();
        let corpus = corpus_of(&inputs, &[part], TextFormat::default());
        let path = folder.path().join(name);
        finished(count(&corpus, &settings(&Pattern::Gpt2), &Quiet).unwrap())
            .write(&path)
            .unwrap();
        paths.push(path);
    }
    let expected = plainly(&Pattern::Gpt2, &[left, right]);
    assert_eq!(words_of(MergedCounts::open(&paths, 1).unwrap()), expected);
    let whole = folder.path().join("whole");
    let totals = MergedCounts::write(&paths, &whole).unwrap();
    assert_eq!(totals.distinct_words, expected.len() as u64);
    assert_eq!(words_of(MergedCounts::open(&[whole], 1).unwrap()), expected);
}

#[test]
fn files_by_different_rules_are_not_merged() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = folder.path().join("texts");
    fs::create_dir(&inputs).unwrap();
    let write = |name: &str, pattern: Pattern, format: TextFormat| {
        let corpus = corpus_of(&inputs, &[b"some text"], format);
        let path = folder.path().join(name);
        finished(count(&corpus, &settings(&pattern), &Quiet).unwrap())
            .write(&path)
            .unwrap();
        path
    };
    let plain = write("plain", Pattern::Gpt2, TextFormat::default());
    let lines = TextFormat {
        documents: Documents::Lines,
        cut_out: Vec::new(),
    };
    let tokens = TextFormat {
        cut_out: vec!["<s>".to_owned()],
        ..TextFormat::default()
    };
    for (other, part) in [
        (
            write("other", Pattern::O200k, TextFormat::default()),
            "the pattern differs",
        ),
        (
            write("lines", Pattern::Gpt2, lines),
            "what is a text differs",
        ),
        (
            write("tokens", Pattern::Gpt2, tokens),
            "what is cut out differs",
        ),
    ] {
        let error = MergedCounts::open(&[plain.clone(), other], 1)
            .err()
            .unwrap();
        assert!(error.to_string().starts_with(part), "{error}");
    }
    // How documents are parted changes no rule once they are texts.
    let separated = write("separated", Pattern::Gpt2, separated("\n\n"));
    assert!(MergedCounts::open(&[plain, separated], 1).is_ok());
}

/// The file was written by another program from the description in `file.rs`, and is never written again.
#[test]
fn counts_of_the_first_version_stay_readable() {
    let bytes = include_bytes!("../../testdata/counts-v1");
    let reader = CountsReader::new(&bytes[..], Path::new("counts-v1")).unwrap();
    assert_eq!(reader.recipe().cut_out, ["<|endoftext|>"]);
    assert_eq!(reader.totals().words, 12);
    let expected: [(&[u8], u64); 6] = [
        (b"\0", 1),
        (b" the", 5_000_000_000),
        (b" then", 2),
        ("\u{4e2d}\u{6587}".repeat(7).leak().as_bytes(), 1),
        (b"\xFF", 1),
        (b"\xFF\xFE", 300),
    ];
    assert_eq!(
        words_of(reader),
        expected
            .into_iter()
            .map(|(word, count)| (word.to_vec(), count))
            .collect()
    );
}

/// A small counts file.
fn small_file(folder: &Path) -> Vec<u8> {
    let inputs = folder.join("texts");
    fs::create_dir(&inputs).unwrap();
    let corpus = corpus_of(
        &inputs,
        &[b"one two two three, a-word-of-many-letters and averyveryverylongone"],
        TextFormat::default(),
    );
    let path = folder.join("counts");
    finished(count(&corpus, &settings(&Pattern::Gpt2), &Quiet).unwrap())
        .write(&path)
        .unwrap();
    fs::read(path).unwrap()
}

fn read_all(bytes: &[u8]) -> Result<Words, CountError> {
    let mut reader = CountsReader::new(bytes, Path::new("counts"))?;
    let mut words = Words::new();
    while let Some((word, count)) = reader.next_word()? {
        words.insert(word.to_vec(), count);
    }
    Ok(words)
}

#[test]
fn a_counts_file_that_is_cut_or_changed_anywhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = small_file(folder.path());
    assert!(read_all(&bytes).is_ok());
    for length in 0..bytes.len() {
        assert!(read_all(&bytes[..length]).is_err(), "cut at {length}");
    }
    for place in 0..bytes.len() {
        for bit in [1, 0x80] {
            let mut changed = bytes.clone();
            changed[place] ^= bit;
            assert!(read_all(&changed).is_err(), "changed at {place}");
        }
    }
    assert!(read_all(&[&bytes[..], b"x"].concat()).is_err());
    let mut later = bytes;
    later[7] = b'2';
    assert!(
        std::error::Error::source(&read_all(&later).unwrap_err())
            .unwrap()
            .to_string()
            .contains("later version")
    );
}

#[test]
fn a_counts_file_is_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = corpus_of(folder.path(), &[b"text"], TextFormat::default());
    let counts = finished(count(&corpus, &settings(&Pattern::Gpt2), &Quiet).unwrap());
    let target = folder.path().join("a-folder");
    fs::create_dir(&target).unwrap();
    assert!(matches!(
        counts.write(&target).unwrap_err(),
        CountError::Write { .. }
    ));
    assert!(counts.write(&folder.path().join("no/such/folder")).is_err());
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        2,
        "nothing was left behind"
    );
}

/// Stops after some looks.
struct StopAfter(AtomicU64);

impl Progress for StopAfter {
    fn should_stop(&self) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_err()
    }
}

#[test]
fn counting_that_was_interrupted_again_and_again_ends_with_the_same_counts() {
    let texts = [
        many_words(3_000),
        many_words(500),
        b"<|e|>a<|e|><|e|>b".to_vec(),
    ];
    let folder = tempfile::tempdir().unwrap();
    let inputs = folder.path().join("texts");
    fs::create_dir(&inputs).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &texts[1]).unwrap();
    let packed = packed.finish().unwrap();
    let corpus = corpus_of(
        &inputs,
        &[&texts[0], &packed, &texts[2]],
        separated("<|e|>"),
    );
    let settings = CountSettings {
        chunk_bytes: 4_000,
        ..settings(&Pattern::Gpt2)
    };
    let whole = finished(count(&corpus, &settings, &Quiet).unwrap());
    let state = folder.path().join("state");
    let mut interruptions = 0;
    let mut counted = count(&corpus, &settings, &StopAfter(AtomicU64::new(5))).unwrap();
    let counts = loop {
        match counted {
            Counted::Finished(counts) => break counts,
            Counted::Stopped(unfinished) => unfinished.save(&state).unwrap(),
        }
        interruptions += 1;
        assert!(matches!(
            MergedCounts::open(std::slice::from_ref(&state), 1)
                .err()
                .unwrap(),
            CountError::Unfinished { .. }
        ));
        counted = resume(&state, &corpus, &settings, &StopAfter(AtomicU64::new(5))).unwrap();
    };
    assert!(interruptions > 3, "{interruptions}");
    assert_eq!(counts.totals(), whole.totals());
    assert!(words_of(counts.into_words(1)) == words_of(whole.into_words(1)));
}

#[test]
fn a_pipe_is_counted_but_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    let corpus = Corpus::find(&[path.to_str().unwrap().to_owned()], TextFormat::default()).unwrap();
    assert_eq!(corpus.size_bytes(), None);
    let text = many_words(2_000);
    let settings = CountSettings {
        chunk_bytes: 1_000,
        ..settings(&Pattern::Gpt2)
    };
    let feed = |text: Vec<u8>| {
        let path = path.clone();
        // The reader may go away early, which is an error here and no matter.
        std::thread::spawn(move || drop(fs::write(path, text)))
    };
    let feeding = feed(text.clone());
    let counts = finished(count(&corpus, &settings, &Quiet).unwrap());
    feeding.join().unwrap();
    assert_eq!(
        words_of(counts.into_words(1)),
        plainly(&Pattern::Gpt2, &[&text])
    );
    let feeding = feed(text);
    let Counted::Stopped(unfinished) =
        count(&corpus, &settings, &StopAfter(AtomicU64::new(3))).unwrap()
    else {
        panic!("not stopped");
    };
    feeding.join().unwrap();
    assert!(matches!(
        unfinished.save(&folder.path().join("state")),
        Err(CountError::NotResumable)
    ));
}

/// Remembers what it was told.
#[derive(Default)]
struct Told(std::sync::Mutex<Vec<(u64, Option<u64>)>>);

impl Progress for Told {
    fn scanned(&self, bytes: u64, total_bytes: Option<u64>) {
        self.0.lock().unwrap().push((bytes, total_bytes));
    }
}

#[test]
fn progress_ends_at_the_size_on_disk_for_packed_files_too() {
    let folder = tempfile::tempdir().unwrap();
    let text = many_words(5_000);
    let packed = zstd::encode_all(&text[..], 1).unwrap();
    let corpus = corpus_of(folder.path(), &[&text, &packed], TextFormat::default());
    let told = Told::default();
    finished(count(&corpus, &settings(&Pattern::Gpt2), &told).unwrap());
    let told = told.0.into_inner().unwrap();
    let size = (text.len() + packed.len()) as u64;
    assert_eq!(told.last(), Some(&(size, Some(size))));
    assert!(told.is_sorted());
}

#[test]
fn a_state_is_refused_for_another_corpus() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = folder.path().join("texts");
    fs::create_dir(&inputs).unwrap();
    let text = many_words(1_000);
    let corpus = corpus_of(&inputs, &[&text], TextFormat::default());
    let settings = CountSettings {
        chunk_bytes: 1_000,
        ..settings(&Pattern::Gpt2)
    };
    let Counted::Stopped(unfinished) =
        count(&corpus, &settings, &StopAfter(AtomicU64::new(3))).unwrap()
    else {
        panic!("not stopped");
    };
    assert!(unfinished.counts().totals().words > 0);
    let state = folder.path().join("state");
    unfinished.save(&state).unwrap();
    let other = CountSettings {
        pattern: Pattern::O200k,
        ..settings.clone()
    };
    assert!(matches!(
        resume(&state, &corpus, &other, &Quiet).unwrap_err(),
        CountError::Changed { .. }
    ));
    let changed = corpus_of(&inputs, &[&text[1..]], TextFormat::default());
    let error = resume(&state, &changed, &settings, &Quiet).unwrap_err();
    assert!(
        error.to_string().contains("was moved or written since"),
        "{error}"
    );
    let finished_file = folder.path().join("finished");
    finished(
        count(
            &corpus_of(&inputs, &[&text], TextFormat::default()),
            &settings,
            &Quiet,
        )
        .unwrap(),
    )
    .write(&finished_file)
    .unwrap();
    assert!(matches!(
        resume(&finished_file, &changed, &settings, &Quiet).unwrap_err(),
        CountError::Finished { .. }
    ));
}
