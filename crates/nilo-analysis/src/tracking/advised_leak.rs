//! The one leak that advice is given on: of all that `nilo leak` calls one, and of what grew until memory ran out, the job's own memory before anything else.

use nilo_forecast::Cause;

use super::{Resource, ResourceVerdict};
use crate::assessment::{is_leak, is_time_told};

/// Growth that does not end, or that ended in running out of memory.
#[derive(Debug, Clone, PartialEq)]
pub struct AdvisedLeak {
    /// Of what.
    pub resource: Resource,
    /// How fast it grows.
    pub bytes_per_second: f64,
    /// Whether it is called a leak; what ended sooner is growth that led there.
    pub is_established: bool,
    /// Whether most of it is shared memory or files in tmpfs.
    pub is_in_shared_memory: bool,
    /// Whether it is so early that it may be loading.
    pub may_be_loading: bool,
    /// When it reaches the limit, where one is known.
    pub limit_forecast: Option<LeakForecast>,
}

/// When a leak reaches its limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeakForecast {
    /// The limit.
    pub limit_bytes: f64,
    /// Seconds from the end of the recording; absent where the confidence is too low to tell a time.
    pub seconds: Option<f64>,
    /// The share of forecasts like this that come true.
    pub confidence: f64,
}

/// The leak among the verdicts of a recorded run, or of a program that watches itself: both are told of the same.
pub fn advised_leak(verdicts: &[ResourceVerdict]) -> Option<AdvisedLeak> {
    let leaks = verdicts.iter().filter_map(|verdict| {
        let growth = verdict.growth.as_ref()?;
        let is_told = is_leak(Some(growth)) || verdict.led_to_end;
        is_told.then_some((verdict, growth))
    });
    let (verdict, growth) = leaks.min_by_key(|(verdict, _)| match verdict.resource {
        Resource::Job => 0,
        Resource::Cgroup { .. } => 1,
        Resource::SharedMemory => 2,
        _ => 3,
    })?;
    Some(AdvisedLeak {
        resource: verdict.resource.clone(),
        bytes_per_second: growth.bytes_per_sec,
        is_established: is_leak(Some(growth)),
        is_in_shared_memory: verdict.grows_in_tmpfs(),
        may_be_loading: verdict.growth_may_be_loading(),
        limit_forecast: limit_forecast(verdicts, verdict),
    })
}

/// Whether a leak of the machine's memory was looked for, for long enough to find one.
pub(crate) fn was_leak_looked_for(verdicts: &[ResourceVerdict]) -> bool {
    let is_job = |verdict: &&ResourceVerdict| verdict.resource == Resource::Job;
    match verdicts.iter().find(is_job) {
        Some(job) => !job.too_young,
        None => verdicts
            .iter()
            .any(|verdict| !verdict.too_young && !verdict.resource.is_gpu()),
    }
}

/// A job without a limit of its own leaks into the machine's memory.
fn limit_forecast(verdicts: &[ResourceVerdict], leaking: &ResourceVerdict) -> Option<LeakForecast> {
    let is_host = |verdict: &&ResourceVerdict| verdict.resource == Resource::Host;
    let limited = match (leaking.reading.limit(), &leaking.resource) {
        (None, Resource::Job) => verdicts.iter().find(is_host)?,
        _ => leaking,
    };
    let forecast = &limited.forecast;
    let is_of_leak = forecast.cause == Some(Cause::Leak);
    Some(LeakForecast {
        limit_bytes: limited.reading.limit()?,
        seconds: match forecast.seconds.filter(|_| is_of_leak)? {
            seconds if is_time_told(forecast) => Some(seconds),
            _ => None,
        },
        confidence: forecast.confidence,
    })
}
