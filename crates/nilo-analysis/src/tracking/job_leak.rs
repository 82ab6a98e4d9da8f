//! The one leak that advice is given on: that of the job's own memory.

use nilo_forecast::{Cause, GrowthKind};

use super::{Resource, ResourceVerdict};

/// Growth of the job's memory that does not end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobLeak {
    /// How fast it grows.
    pub bytes_per_second: f64,
    /// Whether it is so early that it may be loading.
    pub may_be_loading: bool,
    /// When it reaches the limit, where one is known: seconds, and the confidence of that forecast.
    pub limit_forecast: Option<(f64, f64)>,
}

/// The leak among the verdicts of a recorded run, or of a program that watches itself: both are told of the same.
pub fn job_leak(verdicts: &[ResourceVerdict]) -> Option<JobLeak> {
    let job = verdicts
        .iter()
        .filter(|verdict| verdict.resource == Resource::Job);
    // Files in tmpfs are kept by nobody in the program.
    let mut own = job.filter(|verdict| !verdict.grows_in_tmpfs());
    own.find_map(|verdict| {
        let growth = verdict.growth.as_ref()?;
        (growth.kind == GrowthKind::Leak).then(|| JobLeak {
            bytes_per_second: growth.bytes_per_sec,
            may_be_loading: verdict.growth_may_be_loading(),
            limit_forecast: limit_forecast(verdicts, verdict),
        })
    })
}

/// A job without a limit of its own leaks into the machine's memory.
fn limit_forecast(verdicts: &[ResourceVerdict], job: &ResourceVerdict) -> Option<(f64, f64)> {
    let limited = match job.reading.limit() {
        Some(_) => job,
        None => verdicts
            .iter()
            .find(|verdict| verdict.resource == Resource::Host)?,
    };
    let forecast = &limited.forecast;
    let seconds = forecast
        .seconds
        .filter(|_| forecast.cause == Some(Cause::Leak))?;
    Some((seconds, forecast.confidence))
}
