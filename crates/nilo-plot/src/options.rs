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

/// What lies across.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Across {
    /// Time since the run began.
    #[default]
    Time,
    /// Training steps; time in a run without any.
    Steps,
}

/// Settings of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartOptions {
    /// Width in pixels at scale 1; drawn as at least 240 and at most 8192.
    pub width: u32,
    /// Height of the memory chart in pixels at scale 1; drawn as at least 160 and at most 8192. Each metric adds a panel below it.
    pub height: u32,
    /// Metrics to draw below the memory, by their names; at most 8 are drawn.
    pub metrics: Vec<String>,
    /// What lies across; several runs are always drawn over time.
    pub across: Across,
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
            metrics: Vec::new(),
            across: Across::Time,
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
