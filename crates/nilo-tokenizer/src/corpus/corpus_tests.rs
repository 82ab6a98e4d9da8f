//! Inputs as users name them: files, folders, patterns, packed files, JSON lines, and what is wrong with them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use super::*;
use crate::count::{CountError, CountOutcome, CountSettings, count};
use crate::{Quiet, WordSource};

fn find(inputs: &[&Path]) -> Result<Corpus, CorpusError> {
    let inputs: Vec<String> = inputs
        .iter()
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    Corpus::find(&inputs, TextFormat::default())
}

fn count_words(corpus: &Corpus) -> Result<BTreeMap<String, u64>, CountError> {
    let settings = CountSettings {
        threads: 2,
        chunk_bytes: 1000,
        ..CountSettings::default()
    };
    let CountOutcome::Finished(counts) = count(corpus, &settings, &Quiet)? else {
        panic!("stopped");
    };
    let mut source = counts.into_words(1);
    let mut words = BTreeMap::new();
    while let Some((word, count)) = source.next_word()? {
        words.insert(String::from_utf8_lossy(word).into_owned(), count);
    }
    Ok(words)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text).unwrap();
    packer.finish().unwrap()
}

#[test]
fn a_folder_is_read_in_order_without_hidden_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("b/.git")).unwrap();
    for name in ["c.txt", "a.txt", "b/z.txt", "b/.git/config", ".hidden"] {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    let corpus = find(&[folder.path()]).unwrap();
    let names: Vec<_> = corpus
        .files
        .iter()
        .map(|file| file.name().strip_prefix(folder.path()).unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        [Path::new("a.txt"), Path::new("b/z.txt"), Path::new("c.txt")]
    );
    assert_eq!(corpus.size_bytes(), Some(3));
}

#[test]
fn a_pattern_names_its_matches_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["2.txt", "1.txt", "1.csv"] {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    let corpus = find(&[&folder.path().join("*.txt")]).unwrap();
    assert_eq!(corpus.files.len(), 2);
    assert!(corpus.files[0].name().ends_with("1.txt"));
}

#[test]
fn a_text_that_is_given_as_a_path_is_not_repeated_in_full() {
    let text = "größer ".repeat(10_000);
    let error = find(&[Path::new(&text)]).unwrap_err().to_string();
    assert!(error.ends_with("… (90000 bytes)"), "{error}");
    assert!(error.len() < 400, "{error}");
}

#[test]
fn what_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        find(&[&folder.path().join("missing")]),
        Err(CorpusError::NotFound { .. })
    ));
    assert!(matches!(
        find(&[&folder.path().join("*.none")]),
        Err(CorpusError::NotFound { .. })
    ));
    assert!(matches!(
        find(&[folder.path()]),
        Err(CorpusError::Empty { .. })
    ));
    assert!(matches!(find(&[]), Err(CorpusError::Empty { .. })));
    assert!(matches!(
        find(&[Path::new("-"), Path::new("-")]),
        Err(CorpusError::StdinTwice)
    ));
}

#[test]
fn special_tokens_must_be_something_and_differ() {
    let format = |cut_out: &[&str]| TextFormat {
        documents: Documents::Files,
        cut_out: cut_out.iter().map(|token| (*token).to_owned()).collect(),
    };
    let find = |format| Corpus::find(&["-".to_owned()], format);
    assert!(matches!(
        find(format(&["a", ""])),
        Err(CorpusError::EmptyToken)
    ));
    assert!(matches!(
        find(format(&["a", "b", "a"])),
        Err(CorpusError::DoubledToken { .. })
    ));
    let empty = TextFormat {
        documents: Documents::Separated(String::new()),
        cut_out: Vec::new(),
    };
    assert!(matches!(find(empty), Err(CorpusError::EmptyToken)));
}

#[test]
fn packed_files_count_like_plain_ones() {
    let text = "the cat sat on the mat, and the dog on the log. ".repeat(300);
    let (left, right) = text.split_at(text.len() / 2);
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, &text).unwrap();
    let expected = count_words(&find(&[&plain]).unwrap()).unwrap();
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    let skippable = [
        &[0x50, 0x2A, 0x4D, 0x18, 2, 0, 0, 0, 1, 2][..],
        &zstd(&text),
    ]
    .concat();
    for packed in [
        gzip(text.as_bytes()),
        [gzip(left.as_bytes()), gzip(right.as_bytes())].concat(),
        zstd(&text),
        [zstd(left), zstd(right)].concat(),
        skippable,
    ] {
        let path = folder.path().join("packed");
        fs::write(&path, &packed).unwrap();
        assert_eq!(count_words(&find(&[&path]).unwrap()).unwrap(), expected);
    }
}

#[test]
fn a_packed_file_that_breaks_off_is_an_error_with_its_name() {
    let text = "some words ".repeat(500);
    let folder = tempfile::tempdir().unwrap();
    for packed in [
        gzip(text.as_bytes()),
        zstd::encode_all(text.as_bytes(), 1).unwrap(),
    ] {
        let path = folder.path().join("broken");
        fs::write(&path, &packed[..packed.len() - 9]).unwrap();
        let error = count_words(&find(&[&path]).unwrap()).unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
    }
}

#[test]
fn a_zstd_window_that_takes_too_much_memory_is_refused() {
    let mut packer = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    packer.window_log(30).unwrap();
    packer.write_all(b"small").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.zst");
    fs::write(&path, packer.finish().unwrap()).unwrap();
    assert!(matches!(
        count_words(&find(&[&path]).unwrap()),
        Err(CountError::Corpus(CorpusError::Read { .. }))
    ));
}

#[test]
fn an_unreadable_file_in_the_middle_is_an_error_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["1", "2", "3"] {
        fs::write(folder.path().join(name), "text").unwrap();
    }
    let corpus = find(&[folder.path()]).unwrap();
    fs::remove_file(folder.path().join("2")).unwrap();
    let error = count_words(&corpus).unwrap_err();
    assert!(error.to_string().ends_with("/2"), "{error}");
}

fn json_lines(text: &str) -> Result<BTreeMap<String, u64>, CountError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.jsonl");
    fs::write(&path, text).unwrap();
    let documents = Documents::JsonLines {
        field: "text".to_owned(),
    };
    let format = TextFormat {
        documents,
        cut_out: vec!["<s>".to_owned()],
    };
    count_words(&Corpus::find(&[path.to_str().unwrap().to_owned()], format)?)
}

#[test]
fn json_lines_give_the_strings_of_a_field() {
    let words = json_lines("{\"id\": 1, \"text\": \"one\\ntwo<s>x\"}\n\n{\"text\":\"\\u4e2d two\",\"meta\":{\"text\":5}}\r\n{\"text\": \"\\ud800\"}").unwrap();
    let names: Vec<&str> = words.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "\n",
            " two",
            "one",
            "two",
            "x",
            "\u{4e2d}",
            "\u{FFFD}\u{FFFD}\u{FFFD}"
        ]
    );
}

#[test]
fn a_line_without_the_field_is_an_error_with_its_place() {
    for (line, reason) in [
        ("{\"txt\": \"a\"}", "no such field"),
        ("{\"text\": 5}", "a string"),
        ("{\"text\": \"a\"", "EOF"),
        ("[1]", "a JSON object"),
        ("{\"text\": \"a\"} x", "trailing"),
    ] {
        let error = json_lines(&format!("{{\"text\": \"fine\"}}\n{line}\n")).unwrap_err();
        let sentence = error.to_string();
        assert!(
            sentence.contains("at byte 17") && sentence.contains(reason),
            "{sentence}"
        );
    }
}
