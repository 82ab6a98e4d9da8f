//! `nilo bpe train`: count, predict, merge, write.

use std::path::{Path, PathBuf};

use nilo_sample::units::format_bytes;
use nilo_sample::words::duration_in_words;
use nilo_tokenizer::CorpusTotals;
use nilo_tokenizer::merge::MergeOptions;
use nilo_tokenizer::model::Model;

use super::answer::tell;
use super::counted::{Input, STATE_FILE, read_words};
use super::duplicate_input::say_doubled;
use super::learning::{merge_failure, merge_options};
use super::memory_budget::with_program;
use super::progress::BarProgress;
use super::recording::TrainingRecord;
use super::stages::Stages;
use super::stop::{self, WaitingReads};
use crate::args::BpeTrainArgs;
use crate::failure::{Failure, note, warn};
use crate::output_file::{refuse_overwriting, refuse_stdout};
use crate::settings::Settings;
use crate::text::bars::Bars;

pub(crate) fn run(args: BpeTrainArgs, settings: &Settings) -> Result<u8, Failure> {
    let quiet = args.means.quiet || settings.is_quiet();
    let options = merge_options(&args, args.means.allowance())?;
    let input = Input::find(&args)?;
    refuse_stdout(&args.output, "tokenizer", "name a folder with -o")?;
    for name in Model::SAVED_NAMES.iter().chain([&STATE_FILE]) {
        refuse_overwriting(&args.output.join(name), input.paths(), "-o")?;
    }
    if let Some(log) = args.recording.log_path(args.vocab_size) {
        refuse_overwriting(&log, input.paths(), "--memory-log")?;
    }
    make_folder(&args.output)?;
    if !quiet {
        say_doubled(input.paths());
    }
    // Before the recording begins: whoever interrupts from there on is told what is kept, and the run has an end.
    stop::listen(WaitingReads::GoOn);
    let recording = TrainingRecord::begin(&args, settings, quiet)?;
    let progress = BarProgress(Bars::new(quiet));
    let mut stages = Stages::begin();
    let trained = train(&args, &input, &options, &progress, &mut stages, quiet);
    progress.0.end();
    // The last reading comes after the last stage, so that the peak is that of all of them.
    let exit_code = trained.as_ref().map_or_else(Failure::status, |_| 0);
    let recorded = recording.finish(exit_code);
    tell(&args, &trained?, &stages, recorded.peak_bytes, quiet)?;
    if !quiet {
        recorded.report(settings);
    }
    Ok(0)
}

/// What was learnt and from what.
pub(super) struct Trained {
    pub(super) totals: CorpusTotals,
    pub(super) model: Model,
    pub(super) merges: usize,
    pub(super) files: Vec<PathBuf>,
    pub(super) predicted_peak_bytes: u64,
}

fn train(
    args: &BpeTrainArgs,
    input: &Input,
    options: &MergeOptions,
    progress: &BarProgress,
    stages: &mut Stages,
    quiet: bool,
) -> Result<Trained, Failure> {
    let (words, pattern, totals) = read_words(args, input, options, progress)?;
    progress.0.end();
    stages.end("counting");
    if totals.text_bytes == 0 {
        return Err(Failure::new("the input is empty").hint("name files that contain text"));
    }
    let plan = words.plan(options).map_err(merge_failure)?;
    let predicted_peak_bytes = with_program(plan.peak_bytes);
    if !quiet {
        note(&format!(
            "{} of text, {} distinct words: merging will take about {} and at most {} of memory",
            format_bytes(totals.text_bytes as f64),
            totals.distinct_words,
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
    let saved = model.save(folder).map_err(|error| {
        Failure::from(error).hint(
            "check that the disk is not full, then run the same command again, or write elsewhere with --output",
        )
    })?;
    if let Some(error) = saved.no_ranks {
        warn(&format!("ranks.tiktoken was not written: {error}"));
    }
    Ok(saved.paths)
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
