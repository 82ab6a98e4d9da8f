//! What `nilo oom` answers: what runs out of memory, when, and how sure that is.

use nilo_analysis::assessment::{
    Assessment, RanOut, RanOutKind, Thresholds, assess_verdict, exit_status,
};
use nilo_analysis::tracking::{Resource, ResourceVerdict};
use nilo_analysis::{HandledGpuFailures, LimitUse};
use nilo_forecast::{Cause, Growth, RiskLevel};
use nilo_sample::units::to_secs;
use nilo_sample::{Certainty, Severity};
use schemars::JsonSchema;
use serde::Serialize;

use crate::diagnosis::{DiagnosedSource, Diagnosis, PastWarning};

/// The value of [`OomAnswer::schema`].
pub const OOM_SCHEMA: &str = "nilo.oom/1";

/// What is said of one resource.
#[derive(Debug)]
pub struct ResourceRisk {
    /// What was measured and forecast.
    pub verdict: ResourceVerdict,
    /// What follows from that.
    pub assessment: Assessment,
    /// Warnings on the way.
    pub history: Vec<PastWarning>,
}

impl ResourceRisk {
    /// A resource without a past.
    pub fn now(
        verdict: ResourceVerdict,
        thresholds: &Thresholds,
        ran_out: Option<&RanOut>,
    ) -> ResourceRisk {
        ResourceRisk {
            assessment: assess_verdict(&verdict, thresholds, ran_out),
            verdict,
            history: Vec::new(),
        }
    }

    /// Whether somebody should be told.
    pub fn is_warning(&self) -> bool {
        self.assessment.is_warning()
    }

    /// How serious it is; nothing where nobody needs to be told.
    pub fn severity(&self) -> Option<Severity> {
        match self.assessment.level {
            RiskLevel::Critical => Some(Severity::Critical),
            _ => self.is_warning().then_some(Severity::Warning),
        }
    }
}

/// What is said of every resource of a diagnosis, the worst first.
pub fn resource_risks(diagnosis: &Diagnosis, threshold_percent: f64) -> Vec<ResourceRisk> {
    let thresholds = Thresholds::from_percent(threshold_percent);
    let verdicts = diagnosis.verdicts(None).into_iter();
    let each = verdicts.chain(diagnosis.unmeasured()).map(|verdict| {
        let history = diagnosis.warnings(&verdict.resource);
        ResourceRisk {
            history,
            ..ResourceRisk::now(verdict, &thresholds, diagnosis.ran_out.as_ref())
        }
    });
    let mut risks: Vec<ResourceRisk> = each.collect();
    risks.sort_by_key(|risk| std::cmp::Reverse(risk.assessment.level));
    risks
}

/// 1 where there is something to warn of. Memory that has run out is, also where the program went on.
pub fn oom_exit_status(risks: &[ResourceRisk], handled: Option<&HandledGpuFailures>) -> u8 {
    exit_status(risks.iter().map(|risk| &risk.assessment)).max(u8::from(handled.is_some()))
}

/// What runs out of memory, when, and how sure that is.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct OomAnswer {
    /// `nilo.oom/1`.
    #[schemars(extend("const" = OOM_SCHEMA))]
    pub schema: &'static str,
    /// What was judged.
    #[serde(flatten)]
    pub about: DiagnosedSource,
    /// The share of a limit from which on a level is a warning.
    pub threshold_percent: f64,
    /// Whether anything is to be warned of.
    pub warned: bool,
    /// The worst of all resources; `high` at the least where allocations failed.
    pub level: RiskLevel,
    /// Allocations on a GPU that failed while the program went on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handled_gpu_failures: Option<HandledGpuFailures>,
    /// Everything that can run out, the worst first.
    pub resources: Vec<OomResource>,
}

/// Something that can run out.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct OomResource {
    /// Its name, such as `job memory`.
    pub name: String,
    /// What it is.
    pub resource: Resource,
    /// Whether it is to be warned of.
    pub warned: bool,
    /// The worst of what its level, the forecast and the ending say.
    pub level: RiskLevel,
    /// What counts against the limit and cannot be given back.
    pub used_bytes: f64,
    /// The limit, where one is known.
    pub limit_bytes: Option<f64>,
    /// The first in percent of the second.
    pub used_percent: Option<f64>,
    /// Seconds until it runs out.
    pub predicted_secs: Option<f64>,
    /// In four of five cases it lasts longer than this ...
    pub predicted_low_secs: Option<f64>,
    /// ... and shorter than this.
    pub predicted_high_secs: Option<f64>,
    /// The share of predictions like this that come true, 0 to 1.
    pub confidence: f64,
    /// What drives it there.
    pub cause: Option<Cause>,
    /// How it ran out, where it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran_out: Option<RanOutAnswer>,
    /// How fast it grows.
    pub growth_bytes_per_sec: Option<f64>,
    /// For how long it has.
    pub growth_lasted_secs: Option<f64>,
    /// How often it was read.
    pub readings: u64,
    /// Over how long a time.
    pub watched_secs: f64,
    /// Why the level is what it is, in one sentence.
    pub reason: String,
    /// What to do about it, the first thing first.
    pub recommendations: Vec<&'static str>,
    /// Predictions on the way that were a warning, made from the recording; which alerts were raised is in `nilo show`.
    pub warnings: Vec<OomWarning>,
}

/// How a resource ran out.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct RanOutAnswer {
    /// How it showed.
    pub kind: RanOutKind,
    /// When, from the start; `null` where the recorder died before it.
    pub at_secs: Option<f64>,
    /// The process that was killed or failed.
    pub who: Option<String>,
    /// The limit that was reached.
    pub limit_bytes: Option<u64>,
    /// The most that was held; of a cgroup's limit, all that was charged to the cgroup.
    pub peak_bytes: Option<u64>,
    /// What filled the limit, where it is a cgroup's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_use: Option<LimitUse>,
    /// Whether the kernel said so.
    pub certain: bool,
    /// What led there.
    pub growth: Option<Growth>,
}

/// A time in which a prediction was a warning, whether or not anybody was alerted.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct OomWarning {
    /// When it began, from the start.
    pub at_secs: f64,
    /// How long before memory ran out, or before the end where it did not.
    pub before_end_secs: f64,
    /// When the prediction was taken back; `null` when it stood to the end. The level may be a warning all the same.
    pub cleared_at_secs: Option<f64>,
    /// The risk when it began.
    pub level: RiskLevel,
    /// Seconds until it would run out, as it was said then.
    pub predicted_secs: Option<f64>,
    /// In four of five cases longer than this ...
    pub predicted_low_secs: Option<f64>,
    /// ... and shorter than this.
    pub predicted_high_secs: Option<f64>,
    /// The share of predictions like this that come true, 0 to 1.
    pub confidence: f64,
    /// What drove it there.
    pub cause: Option<Cause>,
}

impl OomAnswer {
    /// The answer for a diagnosis with its risks.
    pub fn of(
        diagnosis: &Diagnosis,
        risks: &[ResourceRisk],
        handled: Option<HandledGpuFailures>,
        threshold_percent: f64,
    ) -> OomAnswer {
        let levels = risks.iter().map(|risk| risk.assessment.level);
        let levels = levels.chain(handled.iter().map(|_| RiskLevel::High));
        let resources = risks.iter();
        OomAnswer {
            schema: OOM_SCHEMA,
            about: diagnosis.about(),
            threshold_percent,
            warned: risks.iter().any(ResourceRisk::is_warning) || handled.is_some(),
            level: levels.max().unwrap_or_default(),
            handled_gpu_failures: handled,
            resources: resources
                .map(|risk| OomResource::of(risk, diagnosis.decisive_nanos()))
                .collect(),
        }
    }
}

impl OomResource {
    /// What is said of a resource at a time.
    pub fn of(risk: &ResourceRisk, now_nanos: u64) -> OomResource {
        let verdict = &risk.verdict;
        let forecast = &verdict.forecast;
        let assessment = &risk.assessment;
        // Also times that text leaves out as unlikely: the confidence says how likely they are.
        let is_ahead = assessment.ran_out.is_none();
        // What has run out is told at its peak, as its share of the limit is.
        let ran_out_at = assessment.ran_out.as_ref().and_then(|it| it.peak_bytes);
        let limit_that_ran_out = assessment.ran_out.as_ref().and_then(|it| it.limit_bytes);
        let history = risk.history.iter();
        OomResource {
            name: assessment.name.clone(),
            resource: verdict.resource.clone(),
            warned: risk.is_warning(),
            level: assessment.level,
            used_bytes: ran_out_at.map_or(verdict.reading.needed_bytes(), |bytes| bytes as f64),
            limit_bytes: verdict
                .reading
                .limit_bytes
                .or(limit_that_ran_out.map(|bytes| bytes as f64)),
            used_percent: assessment.used_percent,
            predicted_secs: forecast.seconds.filter(|_| is_ahead),
            predicted_low_secs: forecast.seconds_low.filter(|_| is_ahead),
            predicted_high_secs: forecast.seconds_high.filter(|_| is_ahead),
            confidence: forecast.confidence,
            cause: assessment.cause,
            ran_out: assessment.ran_out.as_ref().map(RanOutAnswer::of),
            growth_bytes_per_sec: forecast.bytes_per_sec,
            growth_lasted_secs: forecast.lasted_secs,
            readings: verdict.readings,
            watched_secs: verdict.watched_secs,
            reason: assessment.reason.clone(),
            recommendations: assessment.recommendations.clone(),
            warnings: history
                .map(|warning| OomWarning::of(warning, now_nanos))
                .collect(),
        }
    }
}

impl RanOutAnswer {
    fn of(ran_out: &RanOut) -> RanOutAnswer {
        RanOutAnswer {
            kind: ran_out.kind,
            at_secs: ran_out.time_nanos.map(to_secs),
            who: ran_out.pid.map(|_| ran_out.who()),
            limit_bytes: ran_out.limit_bytes,
            peak_bytes: ran_out.peak_bytes,
            limit_use: ran_out.limit_use,
            certain: ran_out.certainty == Certainty::Certain,
            growth: ran_out.growth,
        }
    }
}

impl OomWarning {
    fn of(warning: &PastWarning, end_nanos: u64) -> OomWarning {
        let forecast = &warning.forecast;
        OomWarning {
            at_secs: to_secs(warning.at_nanos),
            before_end_secs: to_secs(end_nanos.saturating_sub(warning.at_nanos)),
            cleared_at_secs: warning.cleared_nanos.map(to_secs),
            level: forecast.level,
            predicted_secs: forecast.seconds,
            predicted_low_secs: forecast.seconds_low,
            predicted_high_secs: forecast.seconds_high,
            confidence: forecast.confidence,
            cause: forecast.cause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_forecast::Reading;

    fn at(used_bytes: f64) -> ResourceRisk {
        let mut verdict = ResourceVerdict::unmeasured(Resource::Job);
        verdict.reading = Reading {
            used_bytes,
            limit_bytes: Some(100.0),
            ..Reading::default()
        };
        ResourceRisk::now(verdict, &Thresholds::from_percent(80.0), None)
    }

    #[test]
    fn the_level_decides_severity_and_exit_status() {
        let of = |used_bytes: f64| {
            (
                at(used_bytes).severity(),
                oom_exit_status(&[at(used_bytes)], None),
            )
        };
        assert_eq!(of(79.0), (None, 0));
        assert_eq!(of(81.0), (Some(Severity::Warning), 1));
        assert_eq!(of(96.0), (Some(Severity::Critical), 1));
        assert_eq!(oom_exit_status(&[at(10.0), at(90.0)], None), 1);
    }

    #[test]
    fn what_ran_out_has_the_bytes_of_its_share() {
        let ran_out = RanOut {
            resource: Resource::Job,
            kind: RanOutKind::OomKill,
            time_nanos: Some(0),
            pid: None,
            name: None,
            limit_bytes: Some(100),
            refused_by: None,
            peak_bytes: Some(99),
            gpu: None,
            gpu_cause: None,
            limit_use: None,
            certainty: Certainty::Certain,
            growth: None,
            evidence: Vec::new(),
        };
        // The last sample saw less than the peak.
        let verdict = at(60.0).verdict;
        let thresholds = Thresholds::from_percent(80.0);
        let risk = ResourceRisk::now(verdict, &thresholds, Some(&ran_out));
        let told = OomResource::of(&risk, 0);
        assert_eq!((told.used_bytes, told.used_percent), (99.0, Some(99.0)));
    }
}
