//! Which program a process ran at which time: `exec` gives it another name and another memory.

use std::collections::HashMap;

use nilo_sample::{Event, ProcessId, ProcessInfo, Recording, Subject};

use crate::process_peaks::{ListedMoment, ProcessPeaks};

/// A mark that reaches this share of a peak is that peak's.
const SAME_PEAK: f64 = 0.99;

/// The programs of every process, in the order of time.
#[derive(Debug)]
pub struct ProcessPrograms<'a> {
    by_id: HashMap<ProcessId, Vec<RunProgram<'a>>>,
}

#[derive(Debug)]
struct RunProgram<'a> {
    /// When it was first seen; `exec` was shortly before.
    since_nanos: u64,
    info: &'a ProcessInfo,
    /// The first high-water mark that was read of it. The kernel begins a new one on `exec`.
    first_mark_bytes: Option<f64>,
}

/// The program that had a peak, and what the process ran after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeakProgram<'a> {
    /// What it ran at its peak.
    pub info: &'a ProcessInfo,
    /// The name of what it ran last, where that is another.
    pub later_name: Option<&'a str>,
}

impl<'a> ProcessPrograms<'a> {
    /// Reads names and marks.
    pub fn of(recording: &'a Recording) -> ProcessPrograms<'a> {
        let mut by_id: HashMap<ProcessId, Vec<RunProgram<'a>>> = HashMap::new();
        for timed in &recording.events {
            if let Event::ProcessStarted { id, info } | Event::ProcessRenamed { id, info } =
                &timed.event
            {
                by_id.entry(*id).or_default().push(RunProgram {
                    since_nanos: timed.time_nanos,
                    info,
                    first_mark_bytes: None,
                });
            }
        }
        for table in &recording.tables {
            let Subject::ProcessDetail(id) = table.spec.subject else {
                continue;
            };
            let programs = by_id.get_mut(&id).filter(|programs| programs.len() > 1);
            let (Some(programs), Some(marks)) = (programs, table.series("peak_rss_bytes")) else {
                continue;
            };
            for (time_nanos, bytes) in marks.present() {
                let begun = programs.partition_point(|it| it.since_nanos <= time_nanos);
                if let Some(program) = programs[..begun].last_mut() {
                    program.first_mark_bytes.get_or_insert(bytes);
                }
            }
        }
        ProcessPrograms { by_id }
    }

    /// What a process ran at a time.
    pub fn at(&self, id: ProcessId, time_nanos: u64) -> Option<&'a ProcessInfo> {
        let programs = self.by_id.get(&id)?;
        let begun = programs.partition_point(|it| it.since_nanos <= time_nanos);
        programs.get(begun.saturating_sub(1)).map(|it| it.info)
    }

    /// What a process ran when it had the peak that it is listed with.
    pub fn at_peak(&self, id: ProcessId, peaks: Option<&ProcessPeaks>) -> Option<PeakProgram<'a>> {
        let programs = self.by_id.get(&id)?;
        let last = programs.last()?;
        let owner = match peaks.and_then(|peaks| peaks.listed_at) {
            Some(moment) => owner_of(programs, moment)?,
            None => last,
        };
        let later_name = Some(last.info.name.as_str());
        Some(PeakProgram {
            info: owner.info,
            later_name: later_name.filter(|name| *name != owner.info.name),
        })
    }
}

/// A program that was noticed late has the peak in its own mark; so has a process that merely took another name.
fn owner_of<'p, 'a>(
    programs: &'p [RunProgram<'a>],
    moment: ListedMoment,
) -> Option<&'p RunProgram<'a>> {
    let begun = programs.partition_point(|it| it.since_nanos <= moment.time_nanos);
    let (before, after) = programs.split_at(begun.max(1).min(programs.len()));
    let has_peak = |program: &&RunProgram<'_>| {
        let mark = program.first_mark_bytes;
        mark.is_some_and(|mark| mark >= SAME_PEAK * moment.held_bytes)
    };
    let noticed_late = after.iter().take_while(has_peak).last();
    noticed_late.or(before.last())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process_peaks::process_peaks;
    use nilo_sample::rows::{ProcessDetailRow, ProcessRow};
    use nilo_sample::{TableSpec, TimedEvent, fixture};

    const ID: ProcessId = ProcessId {
        pid: 7,
        start_ticks: 1,
    };

    fn info(name: &str) -> ProcessInfo {
        ProcessInfo {
            parent: 1,
            name: name.to_owned(),
            command: name.to_owned(),
            ..ProcessInfo::default()
        }
    }

    /// A process of these sizes by time, that was seen under another name at 20, with these marks.
    fn renamed(sizes: &[(u64, f64)], marks: &[(u64, f64)]) -> Recording {
        let mut recording = fixture::recording();
        let rows = sizes.iter().map(|(time, bytes)| {
            let row = ProcessRow {
                rss_bytes: *bytes,
                memory_bytes: *bytes,
                ..ProcessRow::ABSENT
            };
            (*time, row)
        });
        let rows: Vec<(u64, ProcessRow)> = rows.collect();
        let marks = marks.iter().map(|(time, bytes)| {
            let row = ProcessDetailRow {
                peak_rss_bytes: *bytes,
                ..ProcessDetailRow::ABSENT
            };
            (*time, row)
        });
        let marks: Vec<(u64, ProcessDetailRow)> = marks.collect();
        recording.tables = vec![
            fixture::table_of(TableSpec::process(ID), &rows),
            fixture::table_of(TableSpec::process_detail(ID), &marks),
        ];
        let event = |time_nanos, event| TimedEvent { time_nanos, event };
        let (id, started, renamed) = (ID, info("python"), info("sleep"));
        recording.events = vec![
            event(0, Event::ProcessStarted { id, info: started }),
            event(20, Event::ProcessRenamed { id, info: renamed }),
        ];
        recording
    }

    /// The name at the peak, and the later one.
    fn at_peak(recording: &Recording) -> (String, Option<String>) {
        let peaks = process_peaks(recording);
        let programs = ProcessPrograms::of(recording);
        let found = programs.at_peak(ID, peaks.get(&ID)).unwrap();
        let later = found.later_name.map(str::to_owned);
        (found.info.name.clone(), later)
    }

    #[test]
    fn the_program_of_the_peak_is_named_and_not_the_one_after_it() {
        let exec = renamed(
            &[(0, 50.0), (10, 200.0), (20, 2.0)],
            &[(10, 400.0), (20, 2.0)],
        );
        assert_eq!(at_peak(&exec), ("python".into(), Some("sleep".into())));
        let programs = ProcessPrograms::of(&exec);
        assert_eq!(programs.at(ID, 19).unwrap().name, "python");
        assert_eq!(programs.at(ID, 20).unwrap().name, "sleep");
    }

    #[test]
    fn a_peak_after_exec_is_the_new_programs() {
        let grows = renamed(
            &[(0, 50.0), (20, 2.0), (30, 90.0)],
            &[(10, 50.0), (20, 2.0)],
        );
        assert_eq!(at_peak(&grows), ("sleep".into(), None));
    }

    #[test]
    fn a_program_that_was_noticed_late_has_its_peak() {
        let late = renamed(
            &[(0, 3.0), (10, 200.0), (20, 90.0)],
            &[(0, 3.0), (20, 200.0)],
        );
        assert_eq!(at_peak(&late), ("sleep".into(), None));
    }
}
