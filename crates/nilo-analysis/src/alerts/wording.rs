//! The sentence of each alert, and what can be done about it.

use nilo_sample::units::{format_bytes, format_duration};
use nilo_sample::words::rate_in_words;
use nilo_sample::{Alert, AlertKind, Severity};

use crate::assessment::{FILLER_UNKNOWN, advice};
use crate::tracking::{Resource, ResourceVerdict};
use nilo_forecast::{Cause, Growth, Reading};

/// An alert with the figures of a reading and nothing said yet.
fn blank(
    kind: AlertKind,
    severity: Severity,
    resource: &Resource,
    time_nanos: u64,
    reading: &Reading,
) -> Alert {
    let limit = reading.limit();
    let used = reading.needed_bytes();
    Alert {
        kind,
        severity,
        resource: resource.to_string(),
        raised: true,
        time_nanos,
        text: String::new(),
        used_bytes: Some(used as u64),
        limit_bytes: limit.map(|limit| limit as u64),
        used_percent: limit.map(|limit| (1000.0 * used / limit).round() / 10.0),
        bytes_per_sec: None,
        seconds_left: None,
        seconds_left_low: None,
        seconds_left_high: None,
        confidence: None,
        recommendations: Vec::new(),
    }
}

/// What raised an alert.
pub(crate) enum AlertReason<'a> {
    /// A threshold, as a share of the limit.
    Level(f64),
    Leak(&'a Growth),
    Risk,
}

pub(crate) fn raised(
    kind: AlertKind,
    severity: Severity,
    verdict: &ResourceVerdict,
    reason: &AlertReason<'_>,
) -> Alert {
    let (resource, reading, forecast) = (&verdict.resource, &verdict.reading, &verdict.forecast);
    let time_nanos = reading.time_nanos;
    let advice = |cause: Option<Cause>| {
        let advice = advice(verdict, cause, None).into_iter();
        advice.map(str::to_owned).collect::<Vec<String>>()
    };
    let mut alert = blank(kind, severity, resource, time_nanos, reading);
    match reason {
        AlertReason::Level(threshold) => {
            alert.text = format!(
                "{} is at {}, above {} %{}",
                filled(resource, reading),
                level_words(&alert),
                // Two decimals at most: a threshold of 0.01 % is not 0 %.
                (1e4 * threshold).round() / 1e2,
                own_part(reading)
            );
            alert.recommendations = advice(forecast.cause);
        }
        AlertReason::Leak(growth) => {
            alert.bytes_per_sec = Some(growth.bytes_per_sec);
            alert.text = format!(
                "{resource} has been leaking {} for {}",
                rate_in_words(
                    growth.bytes_per_sec,
                    growth.bytes_per_sec,
                    growth.bytes_per_sec
                ),
                spell(growth.lasted_secs)
            );
            if let Some(odd) = verdict.odd_peers.first() {
                alert.text = format!("{}: {odd}", alert.text);
            }
            alert.recommendations = advice(Some(Cause::Leak));
        }
        AlertReason::Risk => {
            alert.bytes_per_sec = forecast.bytes_per_sec;
            alert.seconds_left = forecast.seconds;
            alert.seconds_left_low = forecast.seconds_low;
            alert.seconds_left_high = forecast.seconds_high;
            alert.confidence = Some(forecast.confidence);
            alert.text = format!(
                "{} is likely to run out in {} (confidence {:.2}); it is at {}{}; {}",
                filled(resource, reading),
                spell(forecast.seconds.unwrap_or(0.0)),
                forecast.confidence,
                level_words(&alert),
                own_part(reading),
                verdict.reason_in_words()
            );
            if verdict.is_filler_unknown() {
                alert.text = format!("{}; {FILLER_UNKNOWN}", alert.text);
            }
            alert.recommendations = advice(forecast.cause);
            alert.recommendations.insert(0, SAVE.to_owned());
        }
    }
    alert
}

pub(crate) fn cleared(
    kind: AlertKind,
    resource: &Resource,
    time_nanos: u64,
    reading: &Reading,
) -> Alert {
    let mut alert = blank(kind, Severity::Info, resource, time_nanos, reading);
    alert.raised = false;
    alert.text = match kind {
        AlertKind::MemoryLeak => format!("{resource} has stopped growing"),
        AlertKind::OomRisk => format!(
            "{} is no longer likely to run out; it is at {}",
            filled(resource, reading),
            level_words(&alert)
        ),
        _ => format!(
            "{} is back at {}",
            filled(resource, reading),
            level_words(&alert)
        ),
    };
    alert
}

/// What the level is of: others may be in the job's cgroup.
fn filled(resource: &Resource, reading: &Reading) -> String {
    match reading.is_shared {
        true => "the cgroup that this job shares".to_owned(),
        false => resource.to_string(),
    }
}

/// `; the job holds 38.00 MiB of it`, where it is not all the job's.
fn own_part(reading: &Reading) -> String {
    let own = reading.job_bytes.filter(|_| reading.is_shared);
    own.map_or(String::new(), |own| {
        format!("; the job holds {} of it", format_bytes(own))
    })
}

/// `91.2 % of its limit (466.94 MiB of 512.00 MiB)`
fn level_words(alert: &Alert) -> String {
    let used = format_bytes(alert.used_bytes.unwrap_or(0) as f64);
    match (alert.used_percent, alert.limit_bytes) {
        (Some(percent), Some(limit)) => {
            format!(
                "{percent:.1} % of its limit ({used} of {})",
                format_bytes(limit as f64)
            )
        }
        _ => used,
    }
}

/// What to do first when memory runs out soon, whatever the cause is.
const SAVE: &str = "Save a checkpoint while there is time";

fn spell(seconds: f64) -> String {
    format_duration((seconds.max(0.0) * 1e9) as u64)
}
