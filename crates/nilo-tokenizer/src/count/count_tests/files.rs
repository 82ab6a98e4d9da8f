//! Files of counts: merging them, reading them whole or not at all.

use super::*;

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
    let bytes = include_bytes!("../../../testdata/counts-v1");
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
