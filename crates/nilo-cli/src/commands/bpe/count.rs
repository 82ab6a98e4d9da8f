//! `nilo bpe count`: the counting stage alone, for shards on many machines.

use nilo_sample::units::format_bytes;
use nilo_tokenizer::{CountError, CountOutcome, WholeFile, count};

use super::INTERRUPTED;
use super::duplicate_input::say_doubled;
use super::progress::BarProgress;
use super::stop::{self, WaitingReads};
use super::texts::count_failure;
use crate::args::BpeCountArgs;
use crate::failure::{Failure, note};
use crate::output_file::{refuse_overwriting, refuse_stdout};
use crate::settings::Settings;
use crate::text::bars::Bars;

pub(crate) fn run(args: BpeCountArgs, settings: &Settings) -> Result<u8, Failure> {
    let quiet = args.means.quiet || settings.is_quiet();
    let hint = "name a file with -o, such as -o shard.counts";
    refuse_stdout(&args.output, "counts", hint)?;
    let pattern = args.texts.pattern()?;
    let corpus = args.texts.corpus()?;
    let inputs = corpus.files.iter().filter_map(|file| file.path.as_deref());
    refuse_overwriting(&args.output, inputs, "-o")?;
    let settings = args.means.count_settings(pattern)?;
    if !quiet {
        say_doubled(corpus.files.iter().filter_map(|file| file.path.as_deref()));
    }
    // Said before hours of work; what is tried leaves nothing.
    WholeFile::create(&args.output)
        .map_err(|source| CountError::Write {
            path: args.output.clone(),
            source,
        })
        .map_err(count_failure)?;
    stop::listen(WaitingReads::GoOn);
    let progress = BarProgress(Bars::new(quiet));
    let counted = count(&corpus, &settings, &progress);
    progress.0.end();
    let counts = match counted.map_err(count_failure)? {
        CountOutcome::Finished(counts) => counts,
        CountOutcome::Stopped(_) => {
            return Err(Failure::new("interrupted; nothing was written").code(INTERRUPTED));
        }
    };
    counts.write(&args.output).map_err(count_failure)?;
    if !quiet {
        let totals = counts.totals();
        let size = std::fs::metadata(&args.output).map_or(0, |file| file.len());
        note(&format!(
            "{} distinct words of {} in {}: {} ({})",
            totals.distinct_words,
            format_bytes(totals.text_bytes as f64),
            match totals.documents {
                1 => "1 document".to_owned(),
                count => format!("{count} documents"),
            },
            args.output.display(),
            format_bytes(size as f64)
        ));
    }
    Ok(0)
}
