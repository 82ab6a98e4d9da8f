//! A forecast and a growth in sentences: why, and what to do about it.

use nilo_sample::words::{
    bytes_in_words, duration_between_in_words, duration_in_words, rate_in_words,
};

use super::growth::{Growth, GrowthKind};
use super::risk::{Cause, Forecast};

/// Why a forecast says what it says, as one sentence without a full stop; `what` is the resource's name.
pub fn reason(forecast: &Forecast, what: &str) -> String {
    let Some(cause) = forecast.cause else {
        return match forecast.used_share {
            Some(_) => format!("{what} is not growing towards its limit"),
            None => format!("{what} has no known limit"),
        };
    };
    let rate = forecast.bytes_per_sec.map_or(String::new(), |rate| {
        format!(" by {}", rate_in_words(rate, rate, rate))
    });
    let lasted = forecast.lasted_secs.map_or(String::new(), |secs| {
        format!(", for {} so far", duration_in_words(secs))
    });
    let height = bytes_in_words(forecast.peak_height_bytes);
    match cause {
        Cause::Growth => format!("{what} grows{rate}{lasted}"),
        Cause::Leak => format!("{what} leaks{rate}{lasted}"),
        Cause::Workers => format!("{what} grows{rate} in worker processes{lasted}"),
        Cause::Peaks => format!(
            "the lowest level of {what} grows{rate}{lasted}, and the recurring spikes of {height} above it will not fit"
        ),
        Cause::Stairs => format!(
            "{what} rises in steps{lasted}, and the next ones of about {height} will not fit"
        ),
        Cause::Fragmentation => {
            format!("{what} grows{rate}{lasted} by fragmentation: what is allocated does not grow")
        }
        Cause::Swap => format!("{what} is full, and swap fills{rate}{lasted}"),
        Cause::Neighbour => format!("{what} fills{rate}{lasted}, but not because of this job"),
        Cause::AboveLimit => format!("{what} is above its limit already"),
    }
}

/// What is said of growth of which nothing is forecast: `job memory grows by 117 MiB/min, for 28 seconds so far; too early to tell when it reaches the limit`.
pub fn growth_without_forecast(growth: &Growth, what: &str) -> String {
    let rate = growth.bytes_per_sec;
    let rate = rate_in_words(rate, rate, rate);
    let lasted = duration_in_words(growth.lasted_secs);
    let grows = match growth.kind {
        GrowthKind::Leak => "leaks",
        GrowthKind::Growth => "grows",
    };
    format!(
        "{what} {grows} by {rate}, for {lasted} so far; too early to tell when it reaches the limit"
    )
}

/// What is said of something that was watched for too short a time.
pub fn too_short_to_forecast(what: &str) -> String {
    format!("{what} was not monitored long enough for a forecast")
}

/// When it runs out, such as `in 8 minutes (6–11)`; nothing when nothing points to it.
pub fn time_left(forecast: &Forecast) -> Option<String> {
    let secs = forecast.seconds?;
    let low = forecast.seconds_low.unwrap_or(secs);
    let high = forecast.seconds_high.unwrap_or(secs);
    Some(format!("in {}", duration_between_in_words(secs, low, high)))
}

/// What to do about a risk, the first thing first; `gpu` when it is a GPU's memory.
pub fn recommendations(cause: Option<Cause>, gpu: bool) -> Vec<&'static str> {
    let mut advice: Vec<&'static str> = Vec::new();
    if gpu && !matches!(cause, Some(Cause::Neighbour | Cause::AboveLimit)) {
        advice.extend(["Prepare to release cache", "Consider reducing batch size"]);
    }
    advice.extend_from_slice(match (cause, gpu) {
        (Some(Cause::Growth | Cause::Leak), true) => &[
            "Look for tensors retained across steps, such as losses with their graphs (`nilo leak`)",
        ][..],
        (Some(Cause::Growth | Cause::Leak), false) => &[
            "Look for objects retained across steps (`nilo leak`)",
            "Request more memory next time (`nilo request`)",
        ],
        (Some(Cause::Workers), _) => &[
            "Use fewer DataLoader workers or a smaller prefetch_factor",
            "Restart workers every epoch (persistent_workers=False), or keep large data out of Python objects",
        ],
        (Some(Cause::Peaks), true) => {
            &[
                "Find the phase with the spike; evaluate or save in smaller pieces",
                "Look for objects retained across steps (`nilo leak`)",
            ]
        }
        (Some(Cause::Peaks), false) => &[
            "Find the phase with the spike; write checkpoints or evaluate in pieces",
            "Look for objects retained across steps (`nilo leak`)",
            "Request more memory next time (`nilo request`)",
        ],
        (Some(Cause::Stairs), true) => &[
            "Stop raising the batch size or the sequence length, or raise them in smaller steps",
        ],
        (Some(Cause::Stairs), false) => &[
            "Stop raising what grows in steps (batch size, sequence length), or look for what each epoch keeps (`nilo leak`)",
            "Request more memory next time (`nilo request`)",
        ],
        (Some(Cause::Fragmentation), _) => &[
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            "Avoid shapes that vary, or pad them to a few sizes",
        ],
        (Some(Cause::Swap), _) => &[
            "Use less memory or fewer processes at once: memory is full and swap is filling",
            "Request more memory next time (`nilo request`)",
        ],
        (Some(Cause::Neighbour), _) => &[
            "Look for another job on this machine that takes the memory",
            "Request a dedicated memory limit from the scheduler, or the whole machine",
        ],
        (None, false) => &[
            "Free memory before the next spike, or allocate less at once",
            "Request more memory next time (`nilo request`)",
        ],
        (Some(Cause::AboveLimit), _) => &[
            "Check the limit: usage is already above it",
        ],
        (None, true) => &[],
    });
    advice
}

/// What a growth is: `leaks 14.2 MiB/min (80 % interval 13–15), 1.3 GiB in 50 seconds`.
pub fn growth_in_words(growth: &Growth) -> String {
    let figures = growth_figures(growth);
    match growth.kind {
        GrowthKind::Leak => format!("leaks {figures}"),
        GrowthKind::Growth => format!("grows {figures}, too early to call it a leak"),
    }
}

/// Said of growth in the first minute of a program that has made fewer than 50 steps, or of which nobody knows its steps.
pub fn may_be_loading(is_stepping: bool) -> &'static str {
    match is_stepping {
        true => "in the first minute and the first 50 steps this may be loading",
        false => "in the first minute this may be loading",
    }
}

/// What a growth was that led to the end: `leaked 14.2 MiB/min (80 % interval 13–15), 1.3 GiB in 50 seconds, until memory ran out`.
pub fn growth_until_the_end(growth: &Growth) -> String {
    let figures = growth_figures(growth);
    match growth.kind {
        GrowthKind::Leak => format!("leaked {figures}, until memory ran out"),
        GrowthKind::Growth => format!("grew {figures}, until memory ran out"),
    }
}

/// What was a growth that has paused: `grew by 2.4 GiB in 20 seconds, then stood still for 3 seconds: too short to tell whether it would go on`.
pub fn paused_growth_in_words(growth: &Growth) -> String {
    let grown = bytes_in_words(growth.grown_bytes);
    let lasted = duration_in_words(growth.lasted_secs);
    let paused = duration_in_words(growth.paused_secs);
    format!(
        "grew by {grown} in {lasted}, then was flat for {paused}: too short to tell whether the growth is over"
    )
}

fn growth_figures(growth: &Growth) -> String {
    let rate = rate_in_words(
        growth.bytes_per_sec,
        growth.bytes_per_sec_low,
        growth.bytes_per_sec_high,
    );
    let grown = bytes_in_words(growth.grown_bytes);
    let lasted = duration_in_words(growth.lasted_secs);
    format!("{rate}, {grown} in {lasted}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast(cause: Cause) -> Forecast {
        Forecast {
            used_share: Some(0.8),
            seconds: Some(480.0),
            seconds_low: Some(360.0),
            seconds_high: Some(660.0),
            cause: Some(cause),
            bytes_per_sec: Some(14.2 * 1048576.0 / 60.0),
            lasted_secs: Some(300.0),
            peak_height_bytes: 1.5 * 1073741824.0,
            ..Forecast::default()
        }
    }

    #[test]
    fn every_cause_has_a_reason_of_its_own_and_something_to_do() {
        let reasons: Vec<String> = Cause::ALL
            .iter()
            .map(|cause| reason(&forecast(*cause), "GPU 0"))
            .collect();
        assert_eq!(
            reasons[0],
            "GPU 0 grows by 14.2 MiB/min, for 5 minutes so far"
        );
        for (at, text) in reasons.iter().enumerate() {
            assert!(text.contains("GPU 0"), "{text}");
            assert!(!reasons[..at].contains(text), "{text}");
        }
        for cause in Cause::ALL.into_iter().map(Some).chain([None]) {
            assert!(!recommendations(cause, false).is_empty(), "{cause:?}");
            assert!(!recommendations(cause, true).is_empty(), "{cause:?}");
        }
    }

    #[test]
    fn a_gpu_is_told_of_its_cache_and_its_batch_unless_a_neighbour_fills_it() {
        let gpu = recommendations(Some(Cause::Growth), true);
        assert_eq!(
            gpu[..2],
            ["Prepare to release cache", "Consider reducing batch size"]
        );
        let host = recommendations(Some(Cause::Growth), false);
        assert!(!host.iter().any(|advice| advice.contains("batch")));
        let neighbour = recommendations(Some(Cause::Neighbour), true);
        assert!(!neighbour.iter().any(|advice| advice.contains("batch")));
    }

    #[test]
    fn times_have_their_interval_and_calm_has_none() {
        let growth = forecast(Cause::Growth);
        assert_eq!(time_left(&growth).as_deref(), Some("in 8 minutes (6–11)"));
        assert_eq!(time_left(&Forecast::default()), None);
        assert_eq!(
            reason(&Forecast::default(), "rss"),
            "rss has no known limit"
        );
    }

    #[test]
    fn a_leak_is_called_one_and_growth_is_not() {
        let mut growth = Growth {
            kind: GrowthKind::Leak,
            bytes_per_sec: 14.2 * 1048576.0 / 60.0,
            bytes_per_sec_low: 13.0 * 1048576.0 / 60.0,
            bytes_per_sec_high: 15.0 * 1048576.0 / 60.0,
            grown_bytes: 1.3 * 1073741824.0,
            paused_secs: 0.0,
            is_in_tmpfs: false,
            level_bytes: None,
            lasted_secs: 50.0,
        };
        let leak = "leaks 14.2 MiB/min (80 % interval 13–15), 1.3 GiB in 50 seconds";
        assert_eq!(growth_in_words(&growth), leak);
        growth.kind = GrowthKind::Growth;
        assert!(growth_in_words(&growth).ends_with("too early to call it a leak"));
        assert_eq!(
            growth_without_forecast(&growth, "GPU 0"),
            "GPU 0 grows by 14.2 MiB/min, for 50 seconds so far; too early to tell when it reaches the limit"
        );
    }
}
