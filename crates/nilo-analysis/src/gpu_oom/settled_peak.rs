//! What steps needed before the one that failed, by PyTorch's own peak over time.

use nilo_sample::units::to_secs;
use nilo_sample::{GpuAllocationFailure, RecordedTable, Recording, Subject};

/// A peak that grew by no more than this had settled ...
const SETTLED: f64 = 0.01;
/// ... if it stayed for so long, and for this share of the time.
const SETTLED_SECS: f64 = 2.0;
const SETTLED_SHARE: f64 = 0.3;
/// Steps are seen by so many changes of this share of the peak.
const FEWEST_MOVES: u32 = 3;
const MOVE: f64 = 0.001;

/// The most that steps before the end needed, and for how long that was so.
#[derive(Debug, Clone, Copy)]
pub(super) struct SettledPeak {
    pub(super) bytes: f64,
    pub(super) secs: f64,
}

/// The peak that the program's steps had come to before its last rise, where it had stayed there.
pub(super) fn settled_peak(
    recording: &Recording,
    failure: &GpuAllocationFailure,
) -> Option<SettledPeak> {
    let table = table_of(recording, failure)?;
    let allocated = table.series("allocated_bytes")?;
    let peaks = table.series("peak_allocated_bytes")?;
    let rows = allocated.times.iter().zip(allocated.values);
    let rows = rows
        .zip(peaks.values)
        .map(|((time, held), peak)| (*time, *held, *peak));
    let mut rows = rows.filter(|(_, held, peak)| held.is_finite() && peak.is_finite());
    let (began, mut before, level) = rows.next()?;
    let mut stretch = Stretch {
        since: began,
        level,
        moves: 0,
    };
    let (mut longest, mut last) = (None::<SettledPeak>, began);
    for (time, held, peak) in rows {
        if peak > (1.0 + SETTLED) * stretch.level {
            stretch = Stretch {
                since: time,
                level: peak,
                moves: 0,
            };
        }
        stretch.moves += u32::from((held - before).abs() > MOVE * peak);
        let secs = to_secs(time - stretch.since);
        let is_longest = longest.is_none_or(|longest| secs >= longest.secs);
        if stretch.moves >= FEWEST_MOVES && is_longest {
            longest = Some(SettledPeak { bytes: peak, secs });
        }
        (before, last) = (held, time);
    }
    let lasted = to_secs(last - began);
    longest.filter(|settled| settled.secs >= SETTLED_SECS.max(SETTLED_SHARE * lasted))
}

/// A time in which the peak stayed where it was.
struct Stretch {
    since: u64,
    level: f64,
    /// How often what was allocated changed: in steps it comes and goes, in a program that loads or waits it does not.
    moves: u32,
}

/// PyTorch's figures of the device in the process that failed.
fn table_of<'a>(
    recording: &'a Recording,
    failure: &GpuAllocationFailure,
) -> Option<&'a RecordedTable> {
    recording.tables.iter().find(|table| {
        let Subject::TorchMemory { device, pid } = table.spec.subject else {
            return false;
        };
        let is_of_process = match pid {
            Some(pid) => pid == failure.pid,
            None => table.writer.ends_with(&format!("-{}", failure.pid)),
        };
        is_of_process && failure.device.is_none_or(|failed| failed == device)
    })
}
