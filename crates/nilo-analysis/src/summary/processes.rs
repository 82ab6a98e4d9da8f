//! Every process of the tree in figures.

use std::collections::BTreeMap;

use nilo_sample::units::to_secs;
use nilo_sample::{Event, ProcessId, ProcessInfo, Recording, Subject};
use schemars::JsonSchema;
use serde::Serialize;

use super::whole;
use crate::process_peaks::process_peaks;
use crate::process_programs::ProcessPrograms;

/// One process of the tree.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ProcessSummary {
    /// PID.
    pub pid: u32,
    /// Parent when first seen.
    pub parent: u32,
    /// Recognisable name of what it ran at its peak.
    pub name: String,
    /// The name of what it ran last, where `exec` made that another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub later_name: Option<String>,
    /// Command line at its peak.
    pub command: String,
    /// When it was first seen.
    pub started_secs: f64,
    /// When it left, if it did.
    pub ended_secs: Option<f64>,
    /// The most that it held in memory during the recording: the kernel's high-water mark, or the largest sample where that is larger.
    /// Pages that it has mapped more than once count once, as far as measured.
    pub peak_rss_bytes: Option<u64>,
    /// The most that it added to the tree: pages that several processes hold count for the oldest of them.
    pub peak_added_bytes: Option<u64>,
    /// The last level.
    pub last_rss_bytes: Option<u64>,
    /// The last measured proportional share.
    pub pss_bytes: Option<u64>,
    /// The last measured private memory.
    pub uss_bytes: Option<u64>,
    /// CPU time.
    pub cpu_secs: Option<f64>,
    /// Most threads seen.
    pub max_threads: Option<u64>,
    /// Most open files seen.
    pub max_open_files: Option<u64>,
    /// Bytes read from storage.
    pub read_bytes: Option<u64>,
    /// Bytes written to storage.
    pub written_bytes: Option<u64>,
}

pub(super) fn summarize_processes(recording: &Recording) -> Vec<ProcessSummary> {
    let mut found: BTreeMap<ProcessId, ProcessSummary> = BTreeMap::new();
    for timed in &recording.events {
        match &timed.event {
            Event::ProcessStarted { id, info } | Event::ProcessRenamed { id, info } => {
                found
                    .entry(*id)
                    .or_insert_with(|| unmeasured(*id, info, timed.time_nanos));
            }
            Event::ProcessEnded { id, .. } => {
                if let Some(entry) = found.get_mut(id) {
                    entry.ended_secs = Some(to_secs(timed.time_nanos));
                }
            }
            _ => {}
        }
    }
    for table in &recording.tables {
        let (Subject::Process(id) | Subject::ProcessDetail(id)) = &table.spec.subject else {
            continue;
        };
        let Some(entry) = found.get_mut(id) else {
            continue;
        };
        let largest = |column: &str| {
            table
                .series(column)?
                .max()
                .and_then(|(_, value)| whole(value))
        };
        let last = |column: &str| table.series(column)?.last().and_then(whole);
        if matches!(table.spec.subject, Subject::Process(_)) {
            entry.last_rss_bytes = last("rss_bytes");
            entry.cpu_secs = last("cpu_nanos").map(to_secs);
        } else {
            entry.pss_bytes = last("pss_bytes");
            entry.uss_bytes = last("uss_bytes");
            entry.max_threads = largest("threads");
            entry.max_open_files = largest("open_files");
            entry.read_bytes = last("read_bytes");
            entry.written_bytes = last("written_bytes");
        }
    }
    let peaks = process_peaks(recording);
    let programs = ProcessPrograms::of(recording);
    for (id, entry) in &mut found {
        let peaks = peaks.get(id);
        if let Some(peaks) = peaks {
            entry.peak_rss_bytes = peaks.resident.and_then(|peak| whole(peak.bytes));
            entry.peak_added_bytes = peaks.added_bytes.and_then(whole);
        }
        if let Some(program) = programs.at_peak(*id, peaks) {
            entry.name.clone_from(&program.info.name);
            entry.command.clone_from(&program.info.command);
            entry.later_name = program.later_name.map(str::to_owned);
        }
    }
    let mut processes: Vec<ProcessSummary> = found.into_values().collect();
    // Older recordings do not tell what a process added.
    processes.sort_by_key(|process| {
        let added = process.peak_added_bytes.or(process.peak_rss_bytes);
        std::cmp::Reverse((added, process.peak_rss_bytes))
    });
    processes
}

fn unmeasured(id: ProcessId, info: &ProcessInfo, time_nanos: u64) -> ProcessSummary {
    ProcessSummary {
        pid: id.pid,
        parent: info.parent,
        name: info.name.clone(),
        later_name: None,
        command: info.command.clone(),
        started_secs: to_secs(time_nanos),
        ended_secs: None,
        peak_rss_bytes: None,
        peak_added_bytes: None,
        last_rss_bytes: None,
        pss_bytes: None,
        uss_bytes: None,
        cpu_secs: None,
        max_threads: None,
        max_open_files: None,
        read_bytes: None,
        written_bytes: None,
    }
}
