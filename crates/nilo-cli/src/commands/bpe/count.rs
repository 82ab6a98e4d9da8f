//! `nilo bpe count`: the counting stage alone, for shards on many machines.

use nilo_sample::units::format_bytes;
use nilo_tokenizer::{CountSettings, Counted, count};

use super::INTERRUPTED;
use super::progress::BarProgress;
use super::stop;
use super::texts::count_failure;
use crate::args::BpeCountArgs;
use crate::failure::{Failure, note};
use crate::settings::Settings;
use crate::text::bars::Bars;

pub(crate) fn run(args: BpeCountArgs, settings: &Settings) -> Result<u8, Failure> {
    let quiet = args.means.quiet || settings.quiet;
    let pattern = args.texts.pattern()?;
    let corpus = args.texts.corpus()?;
    let allowance = args.means.allowance();
    let settings = CountSettings {
        pattern,
        threads: allowance.threads,
        memory_budget_bytes: allowance.for_counting(),
        spill_folder: args.means.temp_dir.clone(),
        ..CountSettings::default()
    };
    stop::listen();
    let progress = BarProgress(Bars::new(quiet));
    let counted = count(&corpus, &settings, &progress);
    progress.0.end();
    let counts = match counted.map_err(count_failure)? {
        Counted::Finished(counts) => counts,
        Counted::Stopped(_) => {
            return Err(Failure::new("interrupted; nothing was written").code(INTERRUPTED));
        }
    };
    counts.write(&args.output).map_err(count_failure)?;
    if !quiet {
        let totals = counts.totals();
        let size = std::fs::metadata(&args.output).map_or(0, |file| file.len());
        note(&format!(
            "{} distinct words of {} in {} documents: {} ({})",
            totals.distinct_words,
            format_bytes(totals.text_bytes as f64),
            totals.documents,
            args.output.display(),
            format_bytes(size as f64)
        ));
    }
    Ok(0)
}
