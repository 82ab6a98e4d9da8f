//! `nilo bpe train`: count, foretell, merge, write.

use std::path::{Path, PathBuf};

use nilo_sample::units::format_bytes;
use nilo_sample::words::duration_in_words;
use nilo_tokenizer::merge::{Alphabet, MergeError, MergeOptions, ReadWordsError, TieBreak, Words};
use nilo_tokenizer::model::{Model, ModelError};
use nilo_tokenizer::{
    Allowance, Corpus, CountError, CountSettings, Counted, MergedCounts, Pattern, Totals,
    WordSource, count, resume,
};
use serde::Serialize;

use super::means::with_program;
use super::progress::BarProgress;
use super::recording::Recording;
use super::stages::{Stage, Stages};
use super::texts::{check_special_tokens, count_failure, pattern};
use super::{INTERRUPTED, stop};
use crate::args::{BpeTrainArgs, TextOrJson, TieBreakArg};
use crate::failure::{Failure, note, warn};
use crate::settings::Settings;
use crate::text::bars::Bars;

/// In the folder of the result, while counting is interrupted.
const STATE_FILE: &str = "counting.state";
const BYTES: usize = 256;

pub(crate) fn run(args: BpeTrainArgs, settings: &Settings) -> Result<u8, Failure> {
    let quiet = args.means.quiet || settings.quiet;
    let allowance = args.means.allowance();
    let options = merge_options(&args, allowance)?;
    let input = Input::find(&args)?;
    make_folder(&args.output)?;
    let recording = Recording::begin(&args.recording, settings)?;
    stop::listen();
    let progress = BarProgress(Bars::new(quiet));
    let mut stages = Stages::begin();
    let trained = train(
        &args,
        &input,
        &options,
        allowance,
        &progress,
        &mut stages,
        quiet,
    );
    progress.0.end();
    let (exit_code, failure) = match &trained {
        Ok(_) => (0, None),
        Err(failure) => (failure.status(), Some(failure)),
    };
    if let Some(failure) = failure {
        failure.report();
    }
    if let Ok(trained) = &trained {
        tell(&args, trained, &stages, recording.peak_bytes(), quiet)?;
    }
    recording.finish(exit_code, quiet || trained.is_err());
    Ok(exit_code)
}

/// What is learnt from, found before anything begins.
enum Input {
    Texts(Box<(Corpus, Pattern)>),
    Counts,
}

impl Input {
    fn find(args: &BpeTrainArgs) -> Result<Input, Failure> {
        if !args.from_counts.is_empty() {
            return Ok(Input::Counts);
        }
        let texts = (args.texts.corpus()?, args.texts.pattern()?);
        Ok(Input::Texts(Box::new(texts)))
    }
}

/// What was learnt and from what.
struct Trained {
    totals: Totals,
    model: Model,
    merges: usize,
    files: Vec<PathBuf>,
    predicted_peak_bytes: u64,
}

fn train(
    args: &BpeTrainArgs,
    input: &Input,
    options: &MergeOptions,
    allowance: Allowance,
    progress: &BarProgress,
    stages: &mut Stages,
    quiet: bool,
) -> Result<Trained, Failure> {
    let (words, pattern, totals) = read_words(args, input, options, allowance, progress)?;
    progress.0.end();
    stages.end("counting");
    if totals.text_bytes == 0 {
        return Err(Failure::new("the texts are empty").hint("there is nothing to learn from"));
    }
    let plan = words.plan(options).map_err(merge_failure)?;
    let predicted_peak_bytes = with_program(plan.peak_bytes);
    if !quiet {
        note(&format!(
            "{} of text, {} distinct words: merging takes about {} and {} at the most",
            format_bytes(totals.text_bytes as f64),
            words.distinct(),
            duration_in_words(plan.seconds),
            format_bytes(predicted_peak_bytes as f64)
        ));
    }
    let learned = words.learn(options, progress).map_err(merge_failure)?;
    progress.0.end();
    stages.end("merging");
    let merges = learned.merges.len();
    let model = Model::from_learned(learned, pattern);
    let files = save(&model, &args.output)?;
    stages.end("writing");
    std::fs::remove_file(args.output.join(STATE_FILE)).ok();
    Ok(Trained {
        totals,
        model,
        merges,
        files,
        predicted_peak_bytes,
    })
}

/// Every form that another library reads.
fn save(model: &Model, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = model.save_tokenizer_json(folder)?;
    files.extend(model.save_vocab_merges(folder)?);
    match model.save_ranks(folder) {
        Ok(ranks) => files.extend(ranks),
        Err(error @ ModelError::Write { .. }) => return Err(error.into()),
        Err(error) => warn(&format!("no ranks for tiktoken: {error}")),
    }
    Ok(files)
}

/// The counted words, from texts or from files of counts, and how the text fell apart.
fn read_words(
    args: &BpeTrainArgs,
    input: &Input,
    options: &MergeOptions,
    allowance: Allowance,
    progress: &BarProgress,
) -> Result<(Words, Pattern, Totals), Failure> {
    let Input::Texts(texts) = input else {
        return words_from_counts(args, options);
    };
    let (corpus, pattern) = &**texts;
    let state = args.output.join(STATE_FILE);
    let settings = CountSettings {
        pattern: pattern.clone(),
        threads: allowance.threads,
        memory_budget_bytes: allowance.for_counting(),
        spill_folder: args.means.temp_dir.clone(),
        ..CountSettings::default()
    };
    let counted = match args.resume {
        false => count(corpus, &settings, progress),
        true if !state.exists() => {
            let failure = Failure::new(format!(
                "no counting was interrupted in {}",
                args.output.display()
            ));
            return Err(failure.hint("leave --resume out to count from the beginning"));
        }
        true => resume(&state, corpus, &settings, progress),
    };
    progress.0.end();
    match counted.map_err(count_failure)? {
        Counted::Finished(counts) => {
            let totals = *counts.totals();
            Ok((
                collect(counts.into_words(1), options)?,
                settings.pattern,
                totals,
            ))
        }
        Counted::Stopped(unfinished) => {
            let done = format_bytes(unfinished.counts().totals().text_bytes as f64);
            let failure = match unfinished.save(&state) {
                Ok(()) => Failure::new(format!(
                    "interrupted after {done} of text, which stay counted"
                ))
                .hint("the same command with --resume goes on from there"),
                Err(error) => Failure::new("interrupted").hint(Failure::from(error).sentence()),
            };
            Err(failure.code(INTERRUPTED))
        }
    }
}

fn words_from_counts(
    args: &BpeTrainArgs,
    options: &MergeOptions,
) -> Result<(Words, Pattern, Totals), Failure> {
    let counts = MergedCounts::open(&args.from_counts, 1).map_err(count_failure)?;
    let recipe = counts.recipe().clone();
    if let Some(asked) = &args.texts.pattern
        && *asked != recipe.pattern
    {
        let failure = Failure::new(format!(
            "these counts were made with the pattern {}, not {asked}",
            recipe.pattern
        ));
        return Err(failure.hint("leave --pattern out, or count again"));
    }
    for token in &recipe.cut_out {
        if !args.texts.special_tokens.contains(token) {
            warn(&format!(
                "{token:?} was cut out of the texts and is no special token here"
            ));
        }
    }
    let totals = *counts.totals();
    let pattern = pattern(&recipe.pattern)?;
    Ok((collect(counts, options)?, pattern, totals))
}

fn collect(
    source: impl WordSource<Error = CountError>,
    options: &MergeOptions,
) -> Result<Words, Failure> {
    Words::read(source, options).map_err(|error| match error {
        ReadWordsError::Source(error) => count_failure(error),
        ReadWordsError::Merge(error) => merge_failure(error),
    })
}

fn merge_options(args: &BpeTrainArgs, allowance: Allowance) -> Result<MergeOptions, Failure> {
    let special_tokens = args.texts.special_tokens.clone();
    check_special_tokens(&special_tokens)?;
    let needed = special_tokens.len() + BYTES;
    let vocabulary_size = args.vocab_size as usize;
    // Known before anything is counted.
    if !args.seen_bytes_only && vocabulary_size < needed {
        return Err(merge_failure(MergeError::VocabularyTooSmall {
            wanted: vocabulary_size,
            specials: special_tokens.len(),
            bytes: BYTES,
            needed,
        }));
    }
    Ok(MergeOptions {
        vocabulary_size,
        special_tokens,
        min_frequency: args.min_frequency,
        max_token_length: args.max_token_length.map(|length| length as usize),
        tie_break: match args.tie_break {
            TieBreakArg::Hf => TieBreak::HuggingFace,
            TieBreakArg::Gpt2Bytes => TieBreak::Gpt2Bytes,
        },
        alphabet: match args.seen_bytes_only {
            true => Alphabet::Seen,
            false => Alphabet::AllBytes,
        },
        threads: allowance.threads,
        memory_budget_bytes: allowance.for_merging(),
    })
}

fn merge_failure(error: MergeError) -> Failure {
    match error {
        MergeError::BudgetTooSmall {
            budget_bytes,
            needed_bytes,
        } => {
            let whole = |bytes| format_bytes(with_program(bytes) as f64);
            Failure::new(format!(
                "{} are too little to merge these words: at least {} are needed",
                whole(budget_bytes),
                whole(needed_bytes)
            ))
            .hint("raise --memory-budget, or run where more memory is free")
        }
        MergeError::VocabularyTooSmall { .. } => Failure::from(error)
            .hint("raise --vocab-size, or give only bytes that occur a token (--seen-bytes-only)"),
        MergeError::Stopped { .. } => Failure::from(error)
            .hint("counts can be kept: `nilo bpe count`, then `nilo bpe train --from-counts`")
            .code(INTERRUPTED),
        other => Failure::from(other),
    }
}

/// Says before hours of work that the result could not be written.
fn make_folder(folder: &Path) -> Result<(), Failure> {
    let made =
        std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder).map(drop));
    made.map_err(|error| {
        Failure::new(format!("cannot write into {}: {error}", folder.display()))
            .hint("name another folder with --output")
    })
}

/// The answer as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    schema: &'static str,
    vocabulary_size: usize,
    merges: usize,
    special_tokens: &'a [String],
    totals: &'a Totals,
    wall_secs: f64,
    stages: &'a [Stage],
    predicted_peak_bytes: u64,
    peak_bytes: Option<u64>,
    files: Vec<String>,
}

fn tell(
    args: &BpeTrainArgs,
    trained: &Trained,
    stages: &Stages,
    peak_bytes: Option<u64>,
    quiet: bool,
) -> Result<(), Failure> {
    let files: Vec<String> = trained
        .files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    if !quiet {
        let wanted = args.vocab_size as usize;
        if trained.model.vocabulary_size() < wanted {
            note(&format!(
                "the texts have pairs for {} tokens only, not for {wanted}",
                trained.model.vocabulary_size()
            ));
        }
        if trained.totals.invalid_bytes > 0 {
            note(&format!(
                "{} bytes of the text are not UTF-8; they were counted as bytes",
                trained.totals.invalid_bytes
            ));
        }
        note(&format!(
            "Training completed in {:.2} seconds",
            stages.wall_secs()
        ));
        if args.recording.cpu_profile {
            note(stages.table().trim_end());
        }
        note(&format!("wrote {}", files.join(", ")));
    }
    if args.format == TextOrJson::Json {
        let answer = Answer {
            schema: "nilo.bpe-train/1",
            vocabulary_size: trained.model.vocabulary_size(),
            merges: trained.merges,
            special_tokens: &args.texts.special_tokens,
            totals: &trained.totals,
            wall_secs: stages.wall_secs(),
            stages: &stages.done,
            predicted_peak_bytes: trained.predicted_peak_bytes,
            peak_bytes,
            files,
        };
        let text = serde_json::to_string_pretty(&answer).map_err(std::io::Error::from)?;
        std::io::Write::write_all(&mut std::io::stdout().lock(), (text + "\n").as_bytes())?;
    }
    Ok(())
}
