//! Counting that is interrupted and goes on, and how far it says it has come.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::Progress;

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
            CountOutcome::Finished(counts) => break counts,
            CountOutcome::Stopped(unfinished) => unfinished.save(&state).unwrap(),
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
    let CountOutcome::Stopped(unfinished) =
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
    let CountOutcome::Stopped(unfinished) =
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
        error.to_string().contains("was moved or changed since"),
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
