//! Shares, savings, and figures in words.

use nilo_sample::units::format_duration;

use crate::recommendation::{SavedResource, Saving};

/// Less than this is not worth a change of a program.
pub(super) const LEAST_BYTES: f64 = (1u64 << 20) as f64;

/// A part of a whole; nothing where there is no whole.
pub(super) fn share(part: f64, whole: f64) -> Option<f64> {
    let share = part / whole;
    (whole > 0.0 && share.is_finite()).then_some(share)
}

/// `44 %`; small ones keep a decimal.
pub(super) fn percent(ratio: f64) -> String {
    let percent = 100.0 * ratio;
    match percent.abs() < 9.95 {
        true => format!("{percent:.1} %"),
        false => format!("{percent:.0} %"),
    }
}

/// `1 sample`, `2 samples`.
pub(super) fn count(number: u64, of: &str) -> String {
    match number {
        1 => format!("1 {of}"),
        _ => format!("{number} {of}s"),
    }
}

/// `once`, `5 times`.
pub(super) fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        _ => format!("{number} times"),
    }
}

/// A number of the user's with three decimals at most: 0.1 is not 0.10000000149011612.
pub(super) fn decimal(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `250 ms`.
pub(super) fn seconds(secs: f64) -> String {
    format_duration((secs * 1e9) as u64)
}

/// Bytes of the GPU that are not needed, of all that are in use.
pub(super) fn gpu_memory(bytes: f64, of_all: Option<f64>) -> Saving {
    memory(SavedResource::GpuMemory, bytes, of_all)
}

/// Bytes of the machine that are not needed, of all that are in use.
pub(super) fn host_memory(bytes: f64, of_all: Option<f64>) -> Saving {
    memory(SavedResource::HostMemory, bytes, of_all)
}

fn memory(of: SavedResource, bytes: f64, of_all: Option<f64>) -> Saving {
    let ratio = of_all.and_then(|whole| share(bytes, whole));
    Saving {
        of,
        bytes: Some(bytes.round() as u64),
        ratio: ratio.map(|ratio| ratio.clamp(0.0, 1.0)),
    }
}

/// Time of a step, as a share of it where that can be told.
pub(super) fn step_time(ratio: Option<f64>) -> Saving {
    Saving {
        of: SavedResource::StepTime,
        bytes: None,
        ratio: ratio.map(|ratio| ratio.clamp(0.0, 1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural_and_decimals_are_few() {
        assert_eq!(count(1, "sample"), "1 sample");
        assert_eq!(
            (count(0, "step"), count(2, "step")),
            ("0 steps".into(), "2 steps".into())
        );
        assert_eq!((times(1), times(3)), ("once".into(), "3 times".into()));
        assert_eq!(decimal(f64::from(0.1f32)), "0.1");
        assert_eq!(
            (decimal(0.98631), decimal(1.0)),
            ("0.986".into(), "1".into())
        );
    }
}
