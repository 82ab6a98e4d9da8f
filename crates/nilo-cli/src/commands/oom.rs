//! `nilo oom`: what runs out of memory, when, and how sure that is.

use std::io::Write;

use nilo_analysis::forecast::words::{reason, recommendations};
use nilo_analysis::forecast::{Cause, Forecast, RiskLevel};
use nilo_analysis::lookout::{Resource, Verdict};
use nilo_sample::units::to_secs;
use serde::Serialize;

use crate::args::{OomArgs, TextOrJson};
use crate::commands::oom_live;
use crate::failure::Failure;
use crate::outlook::{About, Outlook, Warned};
use crate::settings::Settings;
use crate::text::oom::write_outlook;

/// What is said of one resource.
#[derive(Debug)]
pub(crate) struct Danger {
    pub(crate) verdict: Verdict,
    pub(crate) name: String,
    /// Share of the limit at the newest reading, in percent.
    pub(crate) used_percent: Option<f64>,
    /// Whether it is worth a warning: by its risk, or by the threshold.
    pub(crate) warned: bool,
    pub(crate) reason: String,
    pub(crate) recommendations: Vec<&'static str>,
    pub(crate) history: Vec<Warned>,
}

pub(crate) fn run(args: OomArgs, settings: &Settings) -> Result<u8, Failure> {
    check_threshold(args.threshold)?;
    if args.is_live() {
        return oom_live::run(&args, settings);
    }
    let outlook = Outlook::of(&args.judged, settings)?;
    answer(&outlook, &args)
}

pub(crate) fn check_threshold(percent: f64) -> Result<(), Failure> {
    if percent > 0.0 && percent <= 100.0 {
        return Ok(());
    }
    let sentence = format!("a threshold of {percent} percent means nothing");
    Err(Failure::new(sentence).hint("it lies above 0 and is at most 100; 85 is usual"))
}

/// Says how everything stands; the status is 1 where there is something to warn of.
pub(crate) fn answer(outlook: &Outlook, args: &OomArgs) -> Result<u8, Failure> {
    let dangers = dangers(outlook, args.threshold);
    let found = dangers.iter().any(|danger| danger.warned);
    let mut out = std::io::stdout().lock();
    match args.format {
        TextOrJson::Json => {
            let answer = Answer::of(outlook, &dangers, args.threshold);
            serde_json::to_writer_pretty(&mut out, &answer).map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
        }
        TextOrJson::Text => write_outlook(&mut out, outlook, &dangers)?,
    }
    Ok(u8::from(found))
}

impl Danger {
    pub(crate) fn of(verdict: Verdict, threshold_percent: f64, history: Vec<Warned>) -> Danger {
        let name = verdict.resource.to_string();
        let used_percent = verdict.reading.used_share().map(|share| 100.0 * share);
        let full = used_percent.is_some_and(|percent| percent > threshold_percent);
        let cause = verdict.forecast.cause;
        // A resource that was read a moment ago has a limit and no forecast yet.
        let forecast = Forecast {
            used_share: verdict.reading.used_share(),
            ..verdict.forecast
        };
        let above = "the recording is above the limit that was given: check --limit and --unit";
        let is_given = matches!(verdict.resource, Resource::Track { .. });
        let (reason, recommendations) = match cause {
            Some(Cause::AboveLimit) if is_given => (above.to_owned(), Vec::new()),
            _ => (
                reason(&forecast, &name),
                recommendations(cause, verdict.resource.is_gpu()),
            ),
        };
        Danger {
            used_percent,
            warned: full || verdict.forecast.level >= RiskLevel::High,
            reason,
            recommendations,
            history,
            name,
            verdict,
        }
    }
}

fn dangers(outlook: &Outlook, threshold_percent: f64) -> Vec<Danger> {
    let danger = |verdict: Verdict| {
        let history = outlook.warnings(&verdict.resource);
        Danger::of(verdict, threshold_percent, history)
    };
    let mut dangers: Vec<Danger> = outlook.verdicts(None).into_iter().map(danger).collect();
    dangers.sort_by_key(|danger| !danger.warned);
    dangers
}

/// The answer as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    schema: &'static str,
    #[serde(flatten)]
    about: About<'a>,
    threshold_percent: f64,
    warned: bool,
    resources: Vec<AnswerResource<'a>>,
}

/// A resource as JSON.
#[derive(Serialize)]
pub(crate) struct AnswerResource<'a> {
    name: &'a str,
    resource: &'a Resource,
    warned: bool,
    level: RiskLevel,
    used_bytes: f64,
    limit_bytes: Option<f64>,
    used_percent: Option<f64>,
    predicted_secs: Option<f64>,
    predicted_low_secs: Option<f64>,
    predicted_high_secs: Option<f64>,
    confidence: f64,
    cause: Option<Cause>,
    growth_bytes_per_sec: Option<f64>,
    growth_lasted_secs: Option<f64>,
    readings: u64,
    watched_secs: f64,
    reason: &'a str,
    recommendations: &'a [&'static str],
    warnings: Vec<AnswerWarning>,
}

#[derive(Serialize)]
struct AnswerWarning {
    at_secs: f64,
    before_end_secs: f64,
    cleared_at_secs: Option<f64>,
    level: RiskLevel,
    predicted_secs: Option<f64>,
    predicted_low_secs: Option<f64>,
    predicted_high_secs: Option<f64>,
    confidence: f64,
    cause: Option<Cause>,
}

impl<'a> Answer<'a> {
    fn of(outlook: &'a Outlook, dangers: &'a [Danger], threshold_percent: f64) -> Answer<'a> {
        let of = |danger| AnswerResource::of(danger, outlook.end_nanos);
        Answer {
            schema: "nilo.oom/1",
            about: outlook.about(),
            threshold_percent,
            warned: dangers.iter().any(|danger| danger.warned),
            resources: dangers.iter().map(of).collect(),
        }
    }
}

impl<'a> AnswerResource<'a> {
    pub(crate) fn of(danger: &'a Danger, end_nanos: u64) -> AnswerResource<'a> {
        let verdict = &danger.verdict;
        let forecast = &verdict.forecast;
        let warning = |warned: &Warned| AnswerWarning {
            at_secs: to_secs(warned.at_nanos),
            before_end_secs: to_secs(end_nanos.saturating_sub(warned.at_nanos)),
            cleared_at_secs: warned.cleared_nanos.map(to_secs),
            level: warned.forecast.level,
            predicted_secs: warned.forecast.seconds,
            predicted_low_secs: warned.forecast.seconds_low,
            predicted_high_secs: warned.forecast.seconds_high,
            confidence: warned.forecast.confidence,
            cause: warned.forecast.cause,
        };
        AnswerResource {
            name: &danger.name,
            resource: &verdict.resource,
            warned: danger.warned,
            level: forecast.level,
            used_bytes: verdict.reading.needed_bytes(),
            limit_bytes: verdict.reading.limit_bytes,
            used_percent: danger.used_percent,
            predicted_secs: forecast.seconds,
            predicted_low_secs: forecast.seconds_low,
            predicted_high_secs: forecast.seconds_high,
            confidence: forecast.confidence,
            cause: forecast.cause,
            growth_bytes_per_sec: forecast.bytes_per_sec,
            growth_lasted_secs: forecast.lasted_secs,
            readings: verdict.readings,
            watched_secs: verdict.watched_secs,
            reason: &danger.reason,
            recommendations: &danger.recommendations,
            warnings: danger.history.iter().map(warning).collect(),
        }
    }
}
