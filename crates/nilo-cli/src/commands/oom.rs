//! `nilo oom`: what runs out of memory, when, and how sure that is.

use nilo_analysis::assessment::{Assessment, RanOutKind, Thresholds, assess_verdict, exit_status};
use nilo_analysis::tracking::{Resource, Verdict};
use nilo_forecast::{Cause, Growth, RiskLevel};
use nilo_sample::Certainty;
use nilo_sample::units::to_secs;
use serde::Serialize;

use crate::args::{OomArgs, TextOrJson};
use crate::commands::oom_live;
use crate::diagnosis::{About, Diagnosis, Warned};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::text::json::write_json;
use crate::text::oom::write_diagnosis;
use crate::text::screen::Screen;
use crate::text::wrap::Wrapped;

/// What is said of one resource.
#[derive(Debug)]
pub(crate) struct Danger {
    pub(crate) verdict: Verdict,
    pub(crate) assessment: Assessment,
    pub(crate) history: Vec<Warned>,
}

pub(crate) fn run(args: OomArgs, settings: &Settings) -> Result<u8, Failure> {
    check_threshold(args.threshold)?;
    if args.is_live() {
        return oom_live::run(&args, settings);
    }
    let diagnosis = Diagnosis::of(&args.judged, settings)?;
    answer(&diagnosis, &args)
}

pub(crate) fn check_threshold(percent: f64) -> Result<(), Failure> {
    if percent > 0.0 && percent <= 100.0 {
        return Ok(());
    }
    let sentence = format!("a threshold of {percent} percent is out of range");
    Err(Failure::new(sentence).hint("use a value above 0 and up to 100, such as 85"))
}

/// Says how everything stands; the status is 1 where there is something to warn of.
pub(crate) fn answer(diagnosis: &Diagnosis, args: &OomArgs) -> Result<u8, Failure> {
    let dangers = dangers(diagnosis, args.threshold);
    let status = exit_status(dangers.iter().map(|danger| &danger.assessment));
    let mut out = std::io::stdout().lock();
    match args.format {
        TextOrJson::Json => {
            let answer = OomAnswer::of(diagnosis, &dangers, args.threshold);
            write_json(&mut out, &answer)?;
        }
        TextOrJson::Text => {
            write_diagnosis(
                &mut Wrapped::new(out, Screen::stdout()),
                diagnosis,
                &dangers,
            )?;
        }
    }
    Ok(status)
}

impl Danger {
    pub(crate) fn is_warning(&self) -> bool {
        self.assessment.is_warning()
    }
}

fn dangers(diagnosis: &Diagnosis, threshold_percent: f64) -> Vec<Danger> {
    let thresholds = Thresholds::from_percent(threshold_percent);
    let danger = |verdict: Verdict| Danger {
        history: diagnosis.warnings(&verdict.resource),
        assessment: assess_verdict(&verdict, &thresholds, diagnosis.ran_out.as_ref()),
        verdict,
    };
    let verdicts = diagnosis.verdicts(None).into_iter();
    let all = verdicts.chain(diagnosis.unmeasured());
    let mut dangers: Vec<Danger> = all.map(danger).collect();
    dangers.sort_by_key(|danger| std::cmp::Reverse(danger.assessment.level));
    dangers
}

/// The answer as JSON.
#[derive(Serialize)]
struct OomAnswer<'a> {
    schema: &'static str,
    #[serde(flatten)]
    about: About<'a>,
    threshold_percent: f64,
    warned: bool,
    /// The worst of all resources.
    level: RiskLevel,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    ran_out: Option<AnswerRanOut>,
    growth_bytes_per_sec: Option<f64>,
    growth_lasted_secs: Option<f64>,
    readings: u64,
    watched_secs: f64,
    reason: &'a str,
    recommendations: &'a [&'static str],
    warnings: Vec<AnswerWarning>,
}

/// What has run out already, as JSON.
#[derive(Serialize)]
struct AnswerRanOut {
    kind: RanOutKind,
    at_secs: f64,
    who: Option<String>,
    limit_bytes: Option<u64>,
    peak_bytes: Option<u64>,
    certain: bool,
    /// What led there.
    growth: Option<Growth>,
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

impl<'a> OomAnswer<'a> {
    fn of(
        diagnosis: &'a Diagnosis,
        dangers: &'a [Danger],
        threshold_percent: f64,
    ) -> OomAnswer<'a> {
        let of = |danger| AnswerResource::of(danger, diagnosis.end_nanos);
        let levels = dangers.iter().map(|danger| danger.assessment.level);
        OomAnswer {
            schema: "nilo.oom/1",
            about: diagnosis.about(),
            threshold_percent,
            warned: dangers.iter().any(Danger::is_warning),
            level: levels.max().unwrap_or_default(),
            resources: dangers.iter().map(of).collect(),
        }
    }
}

impl<'a> AnswerResource<'a> {
    pub(crate) fn of(danger: &'a Danger, end_nanos: u64) -> AnswerResource<'a> {
        let verdict = &danger.verdict;
        let forecast = &verdict.forecast;
        let assessment = &danger.assessment;
        // Also times that text leaves out as unlikely: the confidence says how likely they are.
        let is_ahead = assessment.ran_out.is_none();
        let ran_out = assessment.ran_out.as_ref().map(|ran_out| AnswerRanOut {
            kind: ran_out.kind,
            at_secs: to_secs(ran_out.time_nanos),
            who: ran_out.pid.map(|_| ran_out.who()),
            limit_bytes: ran_out.limit_bytes,
            peak_bytes: ran_out.peak_bytes,
            certain: ran_out.certainty == Certainty::Certain,
            growth: ran_out.growth,
        });
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
            name: &assessment.name,
            resource: &verdict.resource,
            warned: danger.is_warning(),
            level: assessment.level,
            used_bytes: verdict.reading.needed_bytes(),
            limit_bytes: verdict.reading.limit_bytes,
            used_percent: assessment.used_percent,
            predicted_secs: forecast.seconds.filter(|_| is_ahead),
            predicted_low_secs: forecast.seconds_low.filter(|_| is_ahead),
            predicted_high_secs: forecast.seconds_high.filter(|_| is_ahead),
            confidence: forecast.confidence,
            cause: assessment.cause,
            ran_out,
            growth_bytes_per_sec: forecast.bytes_per_sec,
            growth_lasted_secs: forecast.lasted_secs,
            readings: verdict.readings,
            watched_secs: verdict.watched_secs,
            reason: &assessment.reason,
            recommendations: &assessment.recommendations,
            warnings: danger.history.iter().map(warning).collect(),
        }
    }
}
