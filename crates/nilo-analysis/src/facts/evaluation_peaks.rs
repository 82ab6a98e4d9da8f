//! The most GPU memory of training and of evaluation, where phases tell them apart.

use nilo_sample::{RecordedTable, Recording, Subject};

/// Names of a phase that is no training.
const EVALUATION: [&str; 9] = [
    "eval",
    "evaluate",
    "evaluation",
    "val",
    "validate",
    "validation",
    "test",
    "generate",
    "generation",
];

/// The peaks of both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EvaluationPeaks {
    pub(super) train_bytes: f64,
    pub(super) evaluation_bytes: f64,
}

/// Of one device of one process. A stretch between two readings counts where it lies all in an evaluation, or all outside.
pub(super) fn evaluation_peaks(
    recording: &Recording,
    writer: &str,
    device: u32,
) -> Option<EvaluationPeaks> {
    let spans = evaluation_spans(recording, writer);
    let subject = Subject::TorchMemory { device, pid: None };
    let is_device = |table: &&RecordedTable| {
        table.spec.subject == subject && table.writer == writer && !spans.is_empty()
    };
    let table = recording.tables.iter().find(is_device)?;
    let allocated = table.series("allocated_bytes")?.values;
    let peaks = table.series("peak_allocated_bytes")?.values;
    let (mut train, mut evaluation) = (None, None);
    let (mut before, mut highest) = (*table.times.first()?, 0.0);
    for ((time, held), peak) in table.times.iter().zip(allocated).zip(peaks) {
        // The recorded peak is that of all time until then: what raised it lies in this stretch.
        let rose = peak.is_finite() && *peak > highest;
        let most = if rose { peak.max(*held) } else { *held };
        highest = highest.max(if rose { *peak } else { 0.0 });
        let stretch = (before, *time);
        before = *time;
        let inside = spans
            .iter()
            .any(|span| span.0 <= stretch.0 && stretch.1 <= span.1);
        let outside = spans
            .iter()
            .all(|span| stretch.1 <= span.0 || span.1 <= stretch.0);
        let peak = match (inside, outside) {
            (true, _) => &mut evaluation,
            (_, true) => &mut train,
            _ => continue,
        };
        if most.is_finite() && peak.is_none_or(|peak| most > peak) {
            *peak = Some(most);
        }
    }
    Some(EvaluationPeaks {
        train_bytes: train?,
        evaluation_bytes: evaluation?,
    })
}

/// When the process evaluated, from and to.
fn evaluation_spans(recording: &Recording, writer: &str) -> Vec<(u64, u64)> {
    let mut spans = Vec::new();
    for table in recording
        .tables
        .iter()
        .filter(|table| table.writer == writer)
    {
        let Subject::Phase { name } = &table.spec.subject else {
            continue;
        };
        let last = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        let Some(durations) = table.series("duration_nanos") else {
            continue;
        };
        if EVALUATION.contains(&last.as_str()) {
            let timed = durations.present().filter(|(_, nanos)| *nanos >= 0.0);
            spans.extend(timed.map(|(end, nanos)| (end.saturating_sub(nanos as u64), end)));
        }
    }
    spans
}
