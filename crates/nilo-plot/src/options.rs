//! What the caller says about a chart.

use nilo_sample::Limit;

use crate::theme::Theme;

/// The highest level that is known, from whatever source knows best.
#[derive(Debug, Clone, PartialEq)]
pub struct Peak {
    /// How much.
    pub bytes: u64,
    /// When, in nanoseconds since the run began, where it is known.
    pub time_nanos: Option<u64>,
    /// What measured it, such as `VmHWM`.
    pub kind: String,
}

/// Settings of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartOptions {
    /// Width in pixels at scale 1; drawn as at least 240 and at most 8192.
    pub width: u32,
    /// Height in pixels at scale 1; drawn as at least 160 and at most 8192.
    pub height: u32,
    /// The headline; the run's name or id without one.
    pub title: Option<String>,
    /// The peak to mark; the highest sample without one.
    pub peak: Option<Peak>,
    /// The limit to draw; none without one.
    pub limit: Option<Limit>,
    /// Length of the time axis; up to the last sample or the end of the run without one, and never shorter than the samples.
    pub duration_nanos: Option<u64>,
    /// Colours.
    pub theme: Theme,
    /// How many processes get a colour of their own; at most 12.
    pub max_processes: usize,
}

impl Default for ChartOptions {
    fn default() -> ChartOptions {
        ChartOptions {
            width: 960,
            height: 540,
            title: None,
            peak: None,
            limit: None,
            duration_nanos: None,
            theme: Theme::Light,
            max_processes: 8,
        }
    }
}

impl ChartOptions {
    /// The size that is drawn.
    pub(crate) fn drawn_size(&self) -> (f64, f64) {
        (
            f64::from(self.width.clamp(240, 8192)),
            f64::from(self.height.clamp(160, 8192)),
        )
    }
}
