//! What a training learns from: texts that are counted, or counts that were written before.

use std::path::{Path, PathBuf};

use nilo_sample::units::format_bytes;
use nilo_tokenizer::merge::{MergeOptions, ReadWordsError, Words};
use nilo_tokenizer::{
    Corpus, CorpusTotals, CountError, CountOutcome, CountSettings, MergedCounts, Pattern,
    WordSource, count, resume,
};

use super::INTERRUPTED;
use super::learning::merge_failure;
use super::progress::BarProgress;
use super::texts::{count_failure, pattern};
use crate::args::BpeTrainArgs;
use crate::failure::{Failure, warn};

/// In the folder of the result, while counting is interrupted.
pub(super) const STATE_FILE: &str = "counting.state";

/// Found before anything begins.
pub(super) enum Input {
    Texts(Box<(Corpus, CountSettings)>),
    Counts(Vec<PathBuf>),
}

impl Input {
    pub(super) fn find(args: &BpeTrainArgs) -> Result<Input, Failure> {
        if !args.from_counts.is_empty() {
            return Ok(Input::Counts(args.from_counts.clone()));
        }
        let corpus = args.texts.corpus()?;
        let settings = args.means.count_settings(args.texts.pattern()?)?;
        Ok(Input::Texts(Box::new((corpus, settings))))
    }

    /// The files, without standard input.
    pub(super) fn paths(&self) -> Box<dyn Iterator<Item = &Path> + '_> {
        match self {
            Input::Texts(texts) => {
                let files = texts.0.files.iter();
                Box::new(files.filter_map(|file| file.path.as_deref()))
            }
            Input::Counts(paths) => Box::new(paths.iter().map(|path| &**path)),
        }
    }
}

/// The counted words, from texts or from files of counts, and how the text fell apart.
pub(super) fn read_words(
    args: &BpeTrainArgs,
    input: &Input,
    options: &MergeOptions,
    progress: &BarProgress,
) -> Result<(Words, Pattern, CorpusTotals), Failure> {
    let (corpus, settings) = match input {
        Input::Texts(texts) => &**texts,
        Input::Counts(paths) => return words_from_counts(paths, args, options),
    };
    let state = args.output.join(STATE_FILE);
    let counted = match args.resume {
        false => {
            if state.exists() {
                warn(
                    "ignoring the counts that an interrupted run left in the output folder; use --resume to continue from them (they are deleted when this run completes)",
                );
            }
            count(corpus, settings, progress)
        }
        true if !state.exists() => {
            let failure = Failure::new(format!("nothing to resume in {}", args.output.display()));
            return Err(failure.hint("omit --resume to count from the beginning"));
        }
        true => resume(&state, corpus, settings, progress),
    };
    progress.0.end();
    match counted.map_err(count_failure)? {
        CountOutcome::Finished(counts) => {
            let totals = *counts.totals();
            let words = collect(counts.into_words(1), options)?;
            Ok((words, settings.pattern.clone(), totals))
        }
        CountOutcome::Stopped(unfinished) => {
            let done = format_bytes(unfinished.counts().totals().text_bytes as f64);
            let failure = match unfinished.save(&state) {
                Ok(()) => Failure::new(format!(
                    "interrupted after {done} of text; the counts so far are kept"
                ))
                .hint("run the same command with --resume to continue"),
                Err(error) => Failure::new("interrupted").hint(Failure::from(error).sentence()),
            };
            Err(failure.code(INTERRUPTED))
        }
    }
}

fn words_from_counts(
    paths: &[PathBuf],
    args: &BpeTrainArgs,
    options: &MergeOptions,
) -> Result<(Words, Pattern, CorpusTotals), Failure> {
    let counts = MergedCounts::open(paths, 1).map_err(count_failure)?;
    let recipe = counts.recipe().clone();
    if let Some(asked) = &args.texts.pattern
        && *asked != recipe.pattern
    {
        let failure = Failure::new(format!(
            "these counts were made with the pattern {}, not {asked}",
            recipe.pattern
        ));
        return Err(failure.hint("omit --pattern, or count again"));
    }
    for token in &recipe.cut_out {
        if !args.texts.special_tokens.contains(token) {
            warn(&format!(
                "{token:?} was a special token when the texts were counted, but is not one here"
            ));
        }
    }
    let is_kept = args.texts.keep_special_tokens;
    for token in args.texts.special_tokens.iter().filter(|_| !is_kept) {
        if !recipe.cut_out.contains(token) {
            warn(&format!(
                "{token:?} was not a special token when the texts were counted, so it is learned as ordinary text"
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
