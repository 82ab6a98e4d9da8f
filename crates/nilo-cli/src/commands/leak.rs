//! `nilo leak`: what grows without end.

use nilo_answer::diagnosis::Diagnosis;
use nilo_answer::growths::GrowthFindings;
use nilo_answer::leak::LeakAnswer;
use nilo_runfile::list_runs;
use nilo_sample::units::MIB;
use nilo_sample::words::duration_in_words;

use crate::args::{LeakArgs, TextOrJson};
use crate::commands::leak_live;
use crate::diagnosis::diagnose;
use crate::failure::{Failure, verdict_status};
use crate::folder::{existing_root, known_runs};
use crate::screen::Screen;
use crate::settings::Settings;
use crate::text::json::{write_json, write_json_line};
use crate::text::leak::{write_check, write_leaks};
use crate::wrap::WrappingWriter;

pub(crate) fn run(args: LeakArgs, settings: &Settings) -> Result<u8, Failure> {
    let least_bytes = least_bytes(args.threshold)?;
    if args.live.are_meant() || nothing_is_recorded(&args, settings)? {
        return leak_live::run(&args, least_bytes, settings);
    }
    let diagnosis = diagnose(&args.judged, settings)?;
    let growths = GrowthFindings::of(&diagnosis, least_bytes);
    if args.check && growths.is_too_short() {
        let secs = duration_in_words(growths.watched_secs());
        let sentence = format!("a recording of {secs} is too short to detect a leak");
        return Err(
            Failure::new(sentence).hint("at least 10 seconds or 50 training steps are needed")
        );
    }
    answer(&diagnosis, &growths, &args)
}

/// Whether nothing is named, and there is no run that could be meant.
fn nothing_is_recorded(args: &LeakArgs, settings: &Settings) -> Result<bool, Failure> {
    let judged = &args.judged;
    if judged.run.is_some() || judged.csv.is_some() || judged.limit.is_some() {
        return Ok(false);
    }
    let root = existing_root(&judged.place, settings)?;
    // Of a run that is damaged the user wants to know that.
    let mut found = list_runs(&root).into_iter();
    let is_damaged = found.any(|run| run.and_then(|run| run.describe()).is_err());
    Ok(known_runs(&root).is_empty() && !is_damaged)
}

/// The threshold in bytes.
pub(crate) fn least_bytes(threshold_mib: Option<f64>) -> Result<Option<f64>, Failure> {
    let sensible = |mib: f64| mib > 0.0 && mib.is_finite();
    if let Some(mib) = threshold_mib.filter(|mib| !sensible(*mib)) {
        return Err(
            Failure::new(format!("a threshold of {mib} MiB is out of range"))
                .hint("use a value above 0, such as 100; growth below it is ignored"),
        );
    }
    Ok(threshold_mib.map(|mib| mib * MIB as f64))
}

/// Says what grows; the status is 1 for a leak.
pub(crate) fn answer(
    diagnosis: &Diagnosis,
    growths: &GrowthFindings,
    args: &LeakArgs,
) -> Result<u8, Failure> {
    let mut out = std::io::stdout().lock();
    let written = match (args.format, args.check) {
        (TextOrJson::Text, true) => write_check(&mut out, growths),
        (TextOrJson::Text, false) => write_leaks(
            &mut WrappingWriter::new(out, Screen::stdout()),
            diagnosis,
            growths,
        ),
        (TextOrJson::Json, check) => {
            let answer = LeakAnswer::of(diagnosis, growths, args.threshold);
            match check {
                true => write_json_line(&mut out, &answer),
                false => write_json(&mut out, &answer),
            }
        }
    };
    verdict_status(growths.exit_status(), written)
}
