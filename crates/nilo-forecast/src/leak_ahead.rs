//! A leak and a limit are a forecast: whoever calls a growth a leak also says when it reaches the limit.

use super::calibration::{Spread, times, told_confidence};
use super::forecaster::MODERATE_SECS;
use super::growth::{Growth, GrowthKind, SAME_PACE};
use super::reading::Reading;
use super::risk::{Cause, Forecast, RiskLevel};

/// A level this share of the growth below its line has been given back.
const FALLEN: f64 = 0.5;

/// The forecast of a resource whose growth is known.
///
/// A forecast that rests on this growth tells its rate and for how long it has lasted, so that there is one figure for it.
/// One that sees a risk keeps its level and its times, and calls a leak one. Of one that sees none a leak makes a moderate risk within half an hour,
/// and a time further ahead. It never makes an alarm: that takes the care of `scenario.rs`.
pub fn leak_ahead(forecast: &Forecast, growth: Option<&Growth>, reading: &Reading) -> Forecast {
    let is_on_its_line = |growth: &&Growth| {
        let least = |level: f64| level - FALLEN * growth.grown_bytes;
        let own_bytes = reading.job_bytes.filter(|_| reading.is_shared);
        let own_bytes = own_bytes.unwrap_or_else(|| reading.needed_bytes());
        let is_above = |level: f64| own_bytes >= least(level);
        growth.level_bytes.is_none_or(is_above)
    };
    let growth = growth.filter(is_on_its_line);
    // Of a cgroup that others are in too the forecast tells the growth of all of them.
    let of_level = growth.filter(|_| !reading.is_shared);
    let forecast = of_level.map_or(*forecast, |growth| with_rate_of(forecast, growth));
    let leak = growth.filter(|growth| growth.kind == GrowthKind::Leak);
    let (Some(leak), Some(limit)) = (leak, reading.limit()) else {
        return forecast;
    };
    if forecast.level > RiskLevel::Low {
        return forecast;
    }
    // Full memory kills nobody while there is swap to go to.
    let swap = reading.swap().map_or(0.0, |(used, total)| total - used);
    let room = limit + swap - reading.needed_bytes() - forecast.peak_height_bytes;
    let secs = room.max(0.0) / leak.bytes_per_sec.max(1e-3);
    let times = times(secs, leak.lasted_secs, Spread::Line, 0.0);
    let is_sooner = |told: f64| told <= times.expected;
    if reading.is_shared && forecast.seconds.is_some_and(is_sooner) {
        return forecast;
    }
    Forecast {
        level: match times.expected <= MODERATE_SECS {
            true => RiskLevel::Moderate,
            false => RiskLevel::Low,
        },
        seconds: Some(times.expected),
        seconds_low: Some(times.low),
        seconds_high: Some(times.high),
        // What has lasted for some time lasts as long again with even odds.
        confidence: told_confidence(
            leak.lasted_secs / (leak.lasted_secs + secs).max(1e-9),
            false,
        ),
        cause: Some(Cause::Leak),
        bytes_per_sec: Some(leak.bytes_per_sec),
        lasted_secs: Some(leak.lasted_secs),
        ..forecast
    }
}

/// The forecast in the figures of the growth that it rests on. One that rests on another growth, such as a faster one of the last seconds, stays as it is.
fn with_rate_of(forecast: &Forecast, growth: &Growth) -> Forecast {
    let is_of_level = matches!(
        forecast.cause,
        Some(Cause::Growth | Cause::Leak | Cause::Workers | Cause::Peaks)
    );
    let pace = forecast
        .bytes_per_sec
        .map(|rate| growth.bytes_per_sec / rate);
    if !is_of_level || !pace.is_some_and(|pace| SAME_PACE.contains(&pace)) {
        return *forecast;
    }
    Forecast {
        cause: match (forecast.cause, growth.kind) {
            (Some(Cause::Growth), GrowthKind::Leak) => Some(Cause::Leak),
            (cause, _) => cause,
        },
        bytes_per_sec: Some(growth.bytes_per_sec),
        lasted_secs: Some(growth.lasted_secs),
        ..*forecast
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    fn growth(kind: GrowthKind) -> Growth {
        Growth {
            kind,
            bytes_per_sec: MIB,
            bytes_per_sec_low: MIB,
            bytes_per_sec_high: MIB,
            grown_bytes: 60.0 * MIB,
            lasted_secs: 60.0,
            paused_secs: 0.0,
            is_in_tmpfs: false,
            level_bytes: None,
        }
    }

    fn reading(used_mib: f64, limit_mib: Option<f64>) -> Reading {
        Reading {
            used_bytes: used_mib * MIB,
            limit_bytes: limit_mib.map(|limit| limit * MIB),
            ..Reading::default()
        }
    }

    fn of(kind: GrowthKind, limit_mib: Option<f64>) -> Forecast {
        leak_ahead(
            &Forecast::default(),
            Some(&growth(kind)),
            &reading(100.0, limit_mib),
        )
    }

    #[test]
    fn a_leak_that_reaches_the_limit_within_half_an_hour_is_a_moderate_risk() {
        let forecast = of(GrowthKind::Leak, Some(1100.0));
        assert_eq!(
            (forecast.level, forecast.cause),
            (RiskLevel::Moderate, Some(Cause::Leak))
        );
        let secs = forecast.seconds.unwrap();
        assert!((900.0..1000.0).contains(&secs), "{secs}");
    }

    #[test]
    fn a_leak_far_from_the_limit_is_told_with_its_time() {
        let forecast = of(GrowthKind::Leak, Some(100_000.0));
        assert_eq!(
            (forecast.level, forecast.cause),
            (RiskLevel::Low, Some(Cause::Leak))
        );
        assert!(forecast.seconds.is_some());
    }

    #[test]
    fn growth_that_is_no_leak_and_memory_without_a_limit_stay_as_they_were() {
        assert_eq!(of(GrowthKind::Growth, Some(1100.0)), Forecast::default());
        assert_eq!(of(GrowthKind::Leak, None), Forecast::default());
    }

    #[test]
    fn a_leak_that_was_given_back_leads_nowhere() {
        let given_back = Growth {
            level_bytes: Some(160.0 * MIB),
            ..growth(GrowthKind::Leak)
        };
        let of = |used_mib| {
            let reading = reading(used_mib, Some(1100.0));
            leak_ahead(&Forecast::default(), Some(&given_back), &reading)
        };
        assert_eq!(of(100.0), Forecast::default());
        assert_eq!(of(158.0).cause, Some(Cause::Leak));
    }

    #[test]
    fn an_alarm_keeps_its_level_and_its_time_and_tells_the_leak_with_its_rate() {
        let alarm = Forecast {
            level: RiskLevel::Critical,
            seconds: Some(30.0),
            cause: Some(Cause::Growth),
            bytes_per_sec: Some(1.05 * MIB),
            lasted_secs: Some(20.0),
            ..Forecast::default()
        };
        let told = |alarm: &Forecast, kind| {
            leak_ahead(alarm, Some(&growth(kind)), &reading(100.0, Some(200.0)))
        };
        let same_figures = Forecast {
            bytes_per_sec: Some(MIB),
            lasted_secs: Some(60.0),
            ..alarm
        };
        assert_eq!(told(&alarm, GrowthKind::Growth), same_figures);
        let leak = Forecast {
            cause: Some(Cause::Leak),
            ..same_figures
        };
        assert_eq!(told(&alarm, GrowthKind::Leak), leak);
        let burst = Forecast {
            bytes_per_sec: Some(10.0 * MIB),
            ..alarm
        };
        assert_eq!(told(&burst, GrowthKind::Leak), burst);
    }
}
