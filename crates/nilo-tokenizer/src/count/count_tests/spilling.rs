//! More words than memory for them, and counts beyond 32 bits.

use super::*;

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
        "could not store counted words in /the/folder"
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
    let totals = CorpusTotals {
        distinct_words: 2,
        distinct_bytes: 4 + 33,
        ..CorpusTotals::default()
    };
    let words = words_of(Counts::new(parts, totals, recipe).into_words(1));
    assert_eq!(
        words.values().copied().collect::<Vec<_>>(),
        [3 * u64::from(u32::MAX); 2]
    );
}
