//! An estimate beside what a run recorded: which figure was off, and by how much.

use nilo_analysis::Summary;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{BytesRange, FitAnswer};

/// The value of [`FitCheckAnswer::schema`].
pub const FIT_CHECK_SCHEMA: &str = "nilo.fit-check/1";

/// Estimate and record.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FitCheckAnswer {
    /// `nilo.fit-check/1`.
    #[schemars(extend("const" = FIT_CHECK_SCHEMA))]
    pub schema: &'static str,
    /// The run.
    pub run: String,
    /// The model.
    pub model: String,
    /// The GPU of the run, where its name was recorded.
    pub gpu: Option<String>,
    /// What was recorded, beside its estimate; what was not recorded is left out.
    pub figures: Vec<CheckedFigure>,
    /// The figure that is furthest from its estimate; `null` where all are within their ranges.
    pub furthest: Option<&'static str>,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct CheckedFigure {
    /// allocated, reserved, context (what the process took besides reserved memory), or process.
    pub name: &'static str,
    /// The estimate.
    pub estimated_bytes: BytesRange,
    /// The highest that the run recorded.
    pub recorded_bytes: u64,
    /// How far the estimate is from that, in percent.
    pub error_percent: f64,
    /// Whether what was recorded lies within the range.
    pub is_within_range: bool,
}

impl FitCheckAnswer {
    /// Compares the busiest GPU of a run with an estimate; none where the run has no GPU memory.
    pub fn of(summary: &Summary, answer: &FitAnswer) -> Option<Self> {
        let torch = summary
            .torch_memory
            .iter()
            .max_by_key(|torch| torch.peak_reserved_bytes);
        let busiest = summary.gpus.iter().max_by_key(|gpu| gpu.peak_job_bytes);
        let allocated = torch.and_then(|torch| torch.peak_allocated_bytes);
        let reserved = torch.and_then(|torch| torch.peak_reserved_bytes);
        let process = busiest.and_then(|gpu| gpu.peak_job_bytes);
        let context = match (process, reserved) {
            (Some(process), Some(reserved)) => process.checked_sub(reserved),
            _ => None,
        };
        let estimated_context = answer.process_bytes.expected - answer.reserved_bytes.expected;
        let context_range = BytesRange {
            low: estimated_context / 2,
            expected: estimated_context,
            high: estimated_context * 2,
        };
        let pairs = [
            ("allocated", answer.allocated_bytes, allocated),
            ("reserved", answer.reserved_bytes, reserved),
            ("context", context_range, context),
            ("process", answer.process_bytes, process),
        ];
        let figures: Vec<CheckedFigure> = pairs
            .into_iter()
            .filter_map(|(name, range, recorded)| Some(checked(name, range, recorded?)))
            .collect();
        if figures.is_empty() {
            return None;
        }
        let distance = |figure: &&CheckedFigure| {
            figure
                .estimated_bytes
                .expected
                .abs_diff(figure.recorded_bytes)
        };
        let outside = figures.iter().filter(|figure| !figure.is_within_range);
        Some(Self {
            schema: FIT_CHECK_SCHEMA,
            run: summary
                .name
                .clone()
                .unwrap_or_else(|| summary.run.to_string()),
            model: answer.model.name.clone(),
            gpu: busiest.and_then(|gpu| gpu.name.clone()),
            furthest: outside.max_by_key(distance).map(|figure| figure.name),
            figures,
        })
    }
}

fn checked(name: &'static str, range: BytesRange, recorded: u64) -> CheckedFigure {
    let error = range.expected as f64 / recorded.max(1) as f64 - 1.0;
    CheckedFigure {
        name,
        estimated_bytes: range,
        recorded_bytes: recorded,
        error_percent: (error * 10_000.0).round() / 100.0,
        is_within_range: (range.low..=range.high).contains(&recorded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_of_the_range_is_told_with_its_error() {
        let range = BytesRange {
            low: 950,
            expected: 1000,
            high: 1050,
        };
        let near = checked("reserved", range, 1010);
        assert!(
            near.is_within_range && near.error_percent == -0.99,
            "{near:?}"
        );
        let far = checked("reserved", range, 2000);
        assert!(
            !far.is_within_range && far.error_percent == -50.0,
            "{far:?}"
        );
    }
}
