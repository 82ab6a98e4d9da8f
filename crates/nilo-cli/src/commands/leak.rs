//! `nilo leak`: what grows without end.

use nilo_analysis::findings::Holder;
use nilo_analysis::tracking::{OddPeer, Resource};
use nilo_forecast::{Growth, GrowthKind};
use nilo_sample::units::MIB;
use nilo_sample::words::duration_in_words;
use serde::Serialize;

use crate::args::{LeakArgs, TextOrJson};
use crate::commands::leak_live;
use crate::diagnosis::{About, Diagnosis};
use crate::failure::Failure;
use crate::folder::{known_runs, runs_root};
use crate::growths::{Grown, Growths};
use crate::settings::Settings;
use crate::text::json::{write_json, write_json_line};
use crate::text::leak::{write_check, write_leaks};
use crate::text::screen::Screen;
use crate::text::wrap::Wrapped;

pub(crate) fn run(args: LeakArgs, settings: &Settings) -> Result<u8, Failure> {
    let least_bytes = least_bytes(args.threshold)?;
    if args.live.are_meant() || nothing_is_recorded(&args, settings) {
        return leak_live::run(&args, least_bytes, settings);
    }
    let diagnosis = Diagnosis::of(&args.judged, settings)?;
    let growths = Growths::of(&diagnosis, least_bytes);
    if args.check && growths.is_too_short() {
        let secs = duration_in_words(growths.watched_secs());
        let sentence = format!("a recording of {secs} is too short to detect a leak");
        return Err(
            Failure::new(sentence).hint("it takes at least 10 seconds, or 50 training steps")
        );
    }
    answer(&diagnosis, &growths, &args)
}

/// Whether nothing is named, and there is no run that could be meant.
fn nothing_is_recorded(args: &LeakArgs, settings: &Settings) -> bool {
    let judged = &args.judged;
    let is_unnamed = judged.run.is_none() && judged.csv.is_none();
    is_unnamed && known_runs(&runs_root(&judged.place, settings)).is_empty()
}

/// The threshold in bytes.
pub(crate) fn least_bytes(threshold_mib: Option<f64>) -> Result<Option<f64>, Failure> {
    let sensible = |mib: f64| mib > 0.0 && mib.is_finite();
    if let Some(mib) = threshold_mib.filter(|mib| !sensible(*mib)) {
        return Err(
            Failure::new(format!("a threshold of {mib} MB is out of range"))
                .hint("use a value above 0; growth below it is ignored"),
        );
    }
    Ok(threshold_mib.map(|mib| mib * MIB as f64))
}

/// Says what grows; the status is 1 for a leak.
pub(crate) fn answer(
    diagnosis: &Diagnosis,
    growths: &Growths,
    args: &LeakArgs,
) -> Result<u8, Failure> {
    let mut out = std::io::stdout().lock();
    match (args.format, args.check) {
        (TextOrJson::Text, true) => write_check(&mut out, growths)?,
        (TextOrJson::Text, false) => {
            write_leaks(&mut Wrapped::new(out, Screen::stdout()), diagnosis, growths)?;
        }
        (TextOrJson::Json, check) => {
            let answer = LeakAnswer::of(diagnosis, growths, args.threshold);
            match check {
                true => write_json_line(&mut out, &answer)?,
                false => write_json(&mut out, &answer)?,
            }
        }
    }
    Ok(u8::from(growths.leaks().next().is_some()))
}

/// The answer as JSON.
#[derive(Serialize)]
struct LeakAnswer<'a> {
    schema: &'static str,
    #[serde(flatten)]
    about: About<'a>,
    threshold_mb: Option<f64>,
    leak: bool,
    #[serde(skip_serializing_if = "<[Holder]>::is_empty")]
    grown_in: &'a [Holder],
    resources: Vec<AnswerResource<'a>>,
}

/// One resource as JSON.
#[derive(Serialize)]
pub(crate) struct AnswerResource<'a> {
    name: String,
    resource: &'a Resource,
    /// `leak`, `growth` or nothing.
    kind: Option<GrowthKind>,
    growth_bytes_per_sec: Option<f64>,
    growth_low_bytes_per_sec: Option<f64>,
    growth_high_bytes_per_sec: Option<f64>,
    grown_bytes: Option<f64>,
    grown_over_secs: Option<f64>,
    /// Growth that the threshold leaves out.
    #[serde(skip_serializing_if = "Option::is_none")]
    below_threshold: Option<Growth>,
    #[serde(skip_serializing_if = "<[OddPeer]>::is_empty")]
    odd_peers: &'a [OddPeer],
    /// Whether the growth ended in running out of memory.
    led_to_end: bool,
    used_bytes: f64,
    limit_bytes: Option<f64>,
    too_short: bool,
    readings: u64,
    watched_secs: f64,
}

impl<'a> LeakAnswer<'a> {
    fn of(
        diagnosis: &'a Diagnosis,
        growths: &'a Growths,
        threshold_mb: Option<f64>,
    ) -> LeakAnswer<'a> {
        LeakAnswer {
            schema: "nilo.leak/1",
            about: diagnosis.about(),
            threshold_mb,
            leak: growths.leaks().next().is_some(),
            grown_in: &growths.holders,
            resources: growths.each.iter().map(AnswerResource::of).collect(),
        }
    }
}

impl<'a> AnswerResource<'a> {
    pub(crate) fn of(grown: &'a Grown) -> AnswerResource<'a> {
        let verdict = &grown.verdict;
        let growth = verdict.growth;
        AnswerResource {
            name: verdict.resource.to_string(),
            resource: &verdict.resource,
            kind: growth.map(|growth| growth.kind),
            growth_bytes_per_sec: growth.map(|growth| growth.bytes_per_sec),
            growth_low_bytes_per_sec: growth.map(|growth| growth.bytes_per_sec_low),
            growth_high_bytes_per_sec: growth.map(|growth| growth.bytes_per_sec_high),
            below_threshold: grown.below_threshold,
            odd_peers: &verdict.odd_peers,
            grown_bytes: growth.map(|growth| growth.grown_bytes),
            grown_over_secs: growth.map(|growth| growth.lasted_secs),
            led_to_end: verdict.led_to_end && growth.is_some(),
            used_bytes: verdict.reading.needed_bytes(),
            limit_bytes: verdict.reading.limit_bytes,
            too_short: verdict.too_young,
            readings: verdict.readings,
            watched_secs: verdict.watched_secs,
        }
    }
}
