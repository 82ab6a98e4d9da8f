//! What `nilo snapshot why` answers: for each failed allocation what was asked, what was free, why it did not do, and what would help.

use nilo_allocator::GpuSnapshot;
use nilo_allocator::snapshot::{DeviceTrace, TraceAction};
use nilo_allocator::usage::{OomReport, explain_ooms_within};
use nilo_sample::units::format_bytes;
use schemars::JsonSchema;
use serde::Serialize;

use super::call_stack::{AllocationStack, HeldByStack, largest_holders};
use super::leaks::SnapshotLeaksAnswer;
use super::pinned_segments::{PinnedByStack, PinnedSegmentReport, pinned_by, pinned_report};
use super::problem::SnapshotProblem;
use super::reserved_parts::ReservedParts;
use super::trace_place::{TraceBound, TraceMoment, TraceRange};
use super::tried_settings::{LimitRange, TriedSettings, serves};

/// The value of [`SnapshotWhyAnswer::schema`].
pub const SNAPSHOT_WHY_SCHEMA: &str = "nilo.snapshot-why/1";

/// From this part on, what accumulated is the cause, and what is free is worth speaking of.
const NOTABLE_SHARE: f64 = 0.1;

/// Why allocations failed.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct SnapshotWhyAnswer {
    /// `nilo.snapshot-why/1`.
    #[schemars(extend("const" = SNAPSHOT_WHY_SCHEMA))]
    pub schema: &'static str,
    /// The file.
    pub file: String,
    /// How many allocations failed.
    pub oom_events: u64,
    /// The last of them, oldest first.
    pub ooms: Vec<ExplainedOom>,
}

/// One failed allocation.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ExplainedOom {
    /// The GPU's ordinal.
    pub device: usize,
    /// When it was.
    #[serde(flatten)]
    pub moment: TraceMoment,
    /// Why it failed.
    pub cause: OomCause,
    /// What set the limit.
    pub limited_by: OomLimit,
    /// The block that was asked for.
    pub asked_bytes: u64,
    /// What the driver was asked for to hold it.
    pub asked_from_driver_bytes: u64,
    /// What the device had left, as the driver said.
    pub device_free_bytes: u64,
    /// What the reserved bytes were for.
    #[serde(flatten)]
    pub parts: ReservedParts,
    /// Free bytes that the request could have come from: same pool, stream and class of size.
    pub eligible_free_bytes: u64,
    /// The largest free block among them.
    pub largest_eligible_bytes: u64,
    /// Whether all free bytes together would have been enough.
    pub fits_defragmented: bool,
    /// Whether it would have been served with expandable segments; `null` where they were on, or where that depends on the limit.
    pub expandable_segments_would_serve: Option<bool>,
    /// Where it depends on the limit of the process, which the file does not say: what that lies between.
    pub depends_on_limit: Option<LimitRange>,
    /// Other values of `PYTORCH_CUDA_ALLOC_CONF` that would have served it, in a replay of the whole trace.
    pub serving_configurations: Vec<String>,
    /// Where the request came from.
    pub request: AllocationStack,
    /// Who held the allocated bytes, most first.
    pub holders: Vec<HeldByStack>,
    /// The segment that would have been large enough and had least in it.
    pub pinned_segment: Option<PinnedSegmentReport>,
    /// Who lives in the segments with gaps that the request could have come from, most free bytes kept first.
    pub pinned_by: Vec<PinnedByStack>,
    /// What accumulated over the trace before it, of all call stacks.
    pub accumulated_bytes: u64,
    /// What to do, the most effective first.
    pub advice: Vec<String>,
}

/// Why an allocation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OomCause {
    /// Little was free, and blocks had accumulated all along the trace.
    Accumulation,
    /// Enough was free, but in pieces.
    Fragmentation,
    /// Enough would have been free, but other streams had not finished with it.
    PendingFrees,
    /// The program needed more than there was.
    TooMuchInUse,
}

/// What set the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OomLimit {
    /// The device had enough left: the process may not use more (`set_per_process_memory_fraction`).
    Process,
    /// The device had no more.
    Device,
}

impl SnapshotWhyAnswer {
    /// Explains the last failed allocations, at most so many of each device.
    pub fn of(
        file: String,
        snapshot: &GpuSnapshot,
        range: &TraceRange,
        most: usize,
        most_stacks: usize,
    ) -> Result<Self, SnapshotProblem> {
        let mut ooms = Vec::new();
        let mut oom_events = 0;
        let mut problem = Some(SnapshotProblem::NoEvents);
        for trace in snapshot
            .traces
            .iter()
            .filter(|trace| !trace.rows.is_empty())
        {
            let rows = match range.rows(snapshot, trace.device) {
                Ok(rows) => rows,
                Err(empty) => {
                    problem = problem.and(Some(empty));
                    continue;
                }
            };
            problem = None;
            let failed = |row: &usize| snapshot.events.actions()[*row] == TraceAction::Oom;
            let in_range = rows.clone().filter(failed).count();
            if in_range == 0 {
                continue;
            }
            oom_events += in_range as u64;
            let reports = explain_ooms_within(snapshot, trace.device, rows, most);
            let tried = TriedSettings::new(snapshot, trace.device);
            for report in &reports {
                let accumulated = accumulated_before(snapshot, trace, report);
                ooms.push(ExplainedOom::of(
                    snapshot,
                    trace.device,
                    report,
                    &tried,
                    accumulated.as_ref(),
                    most_stacks,
                ));
            }
        }
        match problem {
            Some(problem) => Err(problem),
            None => Ok(Self {
                schema: SNAPSHOT_WHY_SCHEMA,
                file,
                oom_events,
                ooms,
            }),
        }
    }

    /// 1 where an allocation failed.
    pub fn exit_status(&self) -> u8 {
        u8::from(self.oom_events > 0)
    }
}

/// What accumulated from the beginning of the trace to a failed allocation.
fn accumulated_before(
    snapshot: &GpuSnapshot,
    trace: &DeviceTrace,
    report: &OomReport,
) -> Option<SnapshotLeaksAnswer> {
    let range = TraceRange {
        from: None,
        to: Some(TraceBound::Event(
            (report.row - trace.rows.start + 1) as u64,
        )),
    };
    SnapshotLeaksAnswer::of(String::new(), snapshot, trace.device, &range, 1).ok()
}

impl ExplainedOom {
    fn of(
        snapshot: &GpuSnapshot,
        device: usize,
        report: &OomReport,
        tried: &TriedSettings,
        accumulated: Option<&SnapshotLeaksAnswer>,
        most_stacks: usize,
    ) -> Self {
        let moment = TraceMoment::of(snapshot, device, Some(report.row));
        let parts = ReservedParts::from(report.breakdown);
        let free = report.breakdown.free_bytes();
        let accumulated_bytes = accumulated.map_or(0, |found| found.accumulated_bytes);
        let is_part = |bytes: u64, whole: u64| bytes as f64 >= NOTABLE_SHARE * whole as f64;
        let cause = if is_part(accumulated_bytes, parts.allocated_bytes.max(1))
            && !is_part(free, parts.reserved_bytes)
        {
            OomCause::Accumulation
        } else if report.fits_defragmented {
            OomCause::Fragmentation
        } else if free + parts.pending_bytes >= report.block_bytes {
            OomCause::PendingFrees
        } else {
            OomCause::TooMuchInUse
        };
        let serving = tried.others.iter();
        let serving = serving.filter(|outcome| serves(outcome, moment.event));
        let (expandable_segments_would_serve, depends_on_limit) =
            tried.expandable_would_serve(moment.event);
        let mut explained = Self {
            device,
            cause,
            limited_by: match report.device_free_bytes >= report.segment_bytes {
                true => OomLimit::Process,
                false => OomLimit::Device,
            },
            asked_bytes: report.block_bytes,
            asked_from_driver_bytes: report.segment_bytes,
            device_free_bytes: report.device_free_bytes,
            parts,
            eligible_free_bytes: report.eligible_free_bytes,
            largest_eligible_bytes: report.largest_eligible_bytes,
            fits_defragmented: report.fits_defragmented,
            expandable_segments_would_serve,
            depends_on_limit,
            serving_configurations: serving.map(|one| one.configuration.clone()).collect(),
            request: AllocationStack::of(snapshot, snapshot.events.row(report.row).stack),
            holders: largest_holders(snapshot, &report.holders, most_stacks),
            pinned_segment: report
                .pinned
                .as_ref()
                .map(|pinned| pinned_report(snapshot, pinned, most_stacks)),
            pinned_by: pinned_by(snapshot, report, most_stacks),
            accumulated_bytes,
            advice: Vec::new(),
            moment,
        };
        explained.advice = advice(&explained, tried, accumulated);
        explained
    }
}

/// What to do, the most effective first.
fn advice(
    oom: &ExplainedOom,
    tried: &TriedSettings,
    accumulated: Option<&SnapshotLeaksAnswer>,
) -> Vec<String> {
    let mut advice = Vec::new();
    if oom.cause == OomCause::Accumulation
        && let Some((found, largest)) =
            accumulated.and_then(|found| Some((found, found.stacks.first()?)))
    {
        let place = largest.stack.main_frame().map_or(String::new(), |frame| {
            let line = frame.line.map_or(String::new(), |line| format!(":{line}"));
            format!(", most of it at {}{line}", frame.file)
        });
        advice.push(format!(
            "{} accumulated over the trace and is still alive{place}: if it is retained across steps, that is the leak (`nilo snapshot leaks`)",
            format_bytes(found.accumulated_bytes as f64)
        ));
    }
    if oom.expandable_segments_would_serve == Some(true)
        && let Some(expandable) = &tried.expandable
    {
        advice.push(format!(
            "Set PYTORCH_CUDA_ALLOC_CONF={}: in a replay of this trace the allocation is served",
            expandable.configuration
        ));
    } else if let Some(configuration) = oom.serving_configurations.first() {
        advice.push(format!(
            "Set PYTORCH_CUDA_ALLOC_CONF={configuration}: in a replay of this trace the allocation is served"
        ));
    }
    if let (Some(range), Some(expandable)) = (oom.depends_on_limit, &tried.expandable)
        && oom.fits_defragmented
    {
        advice.push(format!(
            "Set PYTORCH_CUDA_ALLOC_CONF={}: in a replay of this trace the allocation is served if the process may use almost {}, and not if it may use {} only",
            expandable.configuration,
            format_bytes(range.below_bytes as f64),
            format_bytes(range.at_least_bytes as f64)
        ));
    }
    let has_setting = oom.expandable_segments_would_serve == Some(true)
        || oom.depends_on_limit.is_some()
        || !oom.serving_configurations.is_empty();
    match oom.cause {
        OomCause::Fragmentation if !has_setting => advice.push(
            "No setting of the allocator serves it in a replay: free the blocks that pin the segments before the large allocation, or make it first"
                .to_owned(),
        ),
        OomCause::Fragmentation | OomCause::Accumulation => {}
        OomCause::PendingFrees => advice.push(format!(
            "{} wait for other streams: synchronize them, or call record_stream on fewer tensors",
            format_bytes(oom.parts.pending_bytes as f64)
        )),
        OomCause::TooMuchInUse => {
            let missing = oom.asked_bytes.saturating_sub(oom.parts.free_bytes());
            advice.push(format!(
                "{} more would have been needed even without fragmentation: use a smaller batch or sequence, checkpoint activations, evaluate under torch.no_grad(), or free what is listed below",
                format_bytes(missing as f64)
            ));
        }
    }
    if oom.limited_by == OomLimit::Process {
        advice.push(format!(
            "The process is limited, not the device, which had {} free: raise set_per_process_memory_fraction",
            format_bytes(oom.device_free_bytes as f64)
        ));
    }
    advice
}
