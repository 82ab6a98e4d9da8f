//! What `nilo snapshot flame` draws: the allocated bytes at their peak by call stack, outermost frame first.

use std::collections::HashMap;

use nilo_allocator::GpuSnapshot;
use nilo_allocator::usage::{TracePeaks, usage_by_stack};
use serde::Serialize;

use super::call_stack::{AllocationFrame, AllocationStack};
use super::problem::SnapshotProblem;
use super::reserved_parts::{layout_at, require_stacks};
use super::trace_place::{TraceMoment, TraceRange};

/// The one frame of bytes whose stack nobody recorded.
const NO_STACK: &str = "(no stack)";

/// The allocated bytes at a peak.
#[derive(Debug, Clone)]
pub struct AllocationProfile {
    /// The file.
    pub file: String,
    /// The GPU's ordinal.
    pub device: usize,
    /// All bytes.
    pub bytes: u64,
    /// When it was.
    pub moment: TraceMoment,
    /// Each stack, outermost frame first, with its bytes; most first.
    pub stacks: Vec<(Vec<AllocationFrame>, u64)>,
}

impl AllocationProfile {
    /// A device at its peak within a part of its trace.
    pub fn of(
        file: String,
        snapshot: &GpuSnapshot,
        device: usize,
        range: &TraceRange,
    ) -> Result<Self, SnapshotProblem> {
        require_stacks(snapshot)?;
        let rows = range.rows(snapshot, device)?;
        let peak = TracePeaks::within(snapshot, device, rows.clone()).allocated;
        let layout = layout_at(snapshot, device, peak.row);
        let usage = usage_by_stack(&layout);
        let stacks = usage.iter().map(|usage| {
            let mut frames = AllocationStack::of(snapshot, usage.stack).frames;
            frames.reverse();
            if frames.is_empty() {
                frames.push(AllocationFrame {
                    file: String::new(),
                    line: None,
                    function: NO_STACK.to_owned(),
                });
            }
            (frames, usage.bytes)
        });
        Ok(Self {
            file,
            device,
            bytes: usage.iter().map(|usage| usage.bytes).sum(),
            moment: TraceMoment::of_peak(snapshot, device, peak.row, &rows),
            stacks: stacks.collect(),
        })
    }

    /// The profile as <https://www.speedscope.app> reads it.
    pub fn speedscope(&self) -> SpeedscopeFile {
        let mut frames: Vec<SpeedscopeFrame> = Vec::new();
        let mut numbers: HashMap<&AllocationFrame, usize> = HashMap::new();
        let mut samples = Vec::new();
        for (stack, _) in &self.stacks {
            let numbered = stack.iter().map(|frame| {
                *numbers.entry(frame).or_insert_with(|| {
                    frames.push(SpeedscopeFrame {
                        name: frame.function.clone(),
                        file: (!frame.file.is_empty()).then(|| frame.file.clone()),
                        line: frame.line,
                    });
                    frames.len() - 1
                })
            });
            samples.push(numbered.collect());
        }
        let name = format!("{}, GPU {}", self.file, self.device);
        SpeedscopeFile {
            schema: "https://www.speedscope.app/file-format-schema.json",
            exporter: "nilo",
            name: name.clone(),
            shared: SpeedscopeShared { frames },
            profiles: vec![SpeedscopeProfile {
                kind: "sampled",
                name,
                unit: "bytes",
                start_value: 0,
                end_value: self.bytes,
                samples,
                weights: self.stacks.iter().map(|(_, bytes)| *bytes).collect(),
            }],
        }
    }
}

/// A file of speedscope; its schema is theirs.
#[derive(Debug, Clone, Serialize)]
pub struct SpeedscopeFile {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: String,
    shared: SpeedscopeShared,
    profiles: Vec<SpeedscopeProfile>,
}

#[derive(Debug, Clone, Serialize)]
struct SpeedscopeShared {
    frames: Vec<SpeedscopeFrame>,
}

#[derive(Debug, Clone, Serialize)]
struct SpeedscopeFrame {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct SpeedscopeProfile {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}
