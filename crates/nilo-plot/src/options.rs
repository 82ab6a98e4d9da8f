//! What the caller says about a chart.

use nilo_analysis::assessment::{RanOut, RanOutKind};
use nilo_analysis::ending::limit_in_force;
use nilo_analysis::summary::{ChartFigures, CpuSummary};
use nilo_sample::{Limit, Recording};

use crate::theme::Theme;

/// The highest level that is known, from whatever source knows best.
#[derive(Debug, Clone, PartialEq)]
pub struct PeakMark {
    /// How much.
    pub bytes: u64,
    /// When, in nanoseconds since the run began, where it is known.
    pub time_nanos: Option<u64>,
    /// What measured it, such as `VmHWM`.
    pub kind: String,
}

/// That memory ran out, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RanOutMark {
    /// How it showed.
    pub kind: RanOutKind,
    /// When, in nanoseconds since the run began, where it is known.
    pub time_nanos: Option<u64>,
}

impl RanOutMark {
    /// What is said at its place.
    pub(crate) fn text(self) -> &'static str {
        match self.kind {
            RanOutKind::OomKill => "OOM kill",
            RanOutKind::GpuAllocation => "GPU out of memory",
            RanOutKind::HostAllocation => "out of memory",
        }
    }

    pub(crate) fn of(ran_out: &RanOut) -> RanOutMark {
        RanOutMark {
            kind: ran_out.kind,
            time_nanos: ran_out.time_nanos,
        }
    }
}

/// What lies across.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XAxisKind {
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
    /// How many runs that this one resumes have their metrics in it.
    pub earlier_runs: usize,
    /// What lies across; several runs are always drawn over time.
    pub across: XAxisKind,
    /// The headline; the run's name or id without one.
    pub title: Option<String>,
    /// The peak to mark; the highest sample without one.
    pub peak: Option<PeakMark>,
    /// Memory ran out, where that is how the run ended.
    pub ran_out: Option<RanOutMark>,
    /// The CPU figures of the run's summary; those of the samples without them.
    pub cpu: Option<CpuSummary>,
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
            earlier_runs: 0,
            across: XAxisKind::Time,
            title: None,
            peak: None,
            ran_out: None,
            cpu: None,
            limit: None,
            duration_nanos: None,
            theme: Theme::Light,
            max_processes: 8,
        }
    }
}

impl ChartOptions {
    /// What every picture of this run shows, whoever asks for it: the figures of its summary, and the limit that it had.
    pub fn of_run(recording: &Recording, figures: &ChartFigures) -> ChartOptions {
        ChartOptions {
            metrics: figures.usual_metric().into_iter().collect(),
            peak: peak(figures),
            ran_out: figures.ran_out.as_ref().map(RanOutMark::of),
            cpu: Some(figures.cpu),
            // A limit of addresses is no line over memory.
            limit: limit_in_force(recording).filter(Limit::is_of_memory),
            duration_nanos: Some(figures.duration_nanos),
            ..ChartOptions::default()
        }
    }

    /// The size that is drawn.
    pub(crate) fn drawn_size(&self) -> (f64, f64) {
        (
            f64::from(self.width.clamp(240, 8192)),
            f64::from(self.height.clamp(160, 8192)),
        )
    }
}

fn peak(figures: &ChartFigures) -> Option<PeakMark> {
    let memory = &figures.memory;
    let kind = memory.peak_kind?.measured_by();
    Some(PeakMark {
        bytes: memory.peak_bytes?,
        time_nanos: memory.peak_secs.map(|secs| (secs * 1e9) as u64),
        kind: kind.to_owned(),
    })
}
