//! Every process as a resource of its own: where several programs are watched together, one that swings hides another that leaks.

use std::collections::BTreeMap;

use nilo_sample::{Event, ProcessId, Recording, Subject};

use super::{Resource, ResourceTracker};
use nilo_forecast::Reading;

/// What the resident memory of each process tells.
pub fn over_processes(recording: &Recording) -> ResourceTracker {
    let mut names: BTreeMap<ProcessId, &str> = BTreeMap::new();
    for timed in &recording.events {
        if let Event::ProcessStarted { id, info } | Event::ProcessRenamed { id, info } =
            &timed.event
        {
            names.insert(*id, &info.name);
        }
    }
    let mut tracker = ResourceTracker::default();
    for table in &recording.tables {
        let Subject::Process(id) = table.spec.subject else {
            continue;
        };
        let Some(level) = table.series("rss_bytes") else {
            continue;
        };
        let resource = Resource::Process {
            pid: id.pid,
            name: (*names.get(&id).unwrap_or(&"a process")).to_owned(),
        };
        for (time_nanos, used_bytes) in level.present() {
            let reading = Reading {
                time_nanos,
                used_bytes,
                ..Reading::default()
            };
            tracker.observe(resource.clone(), reading);
        }
    }
    tracker
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_forecast::GrowthKind;
    use nilo_sample::TableSpec;
    use nilo_sample::fixture::{recording, table, tick};
    use nilo_sample::rows::ProcessRow;

    const MIB: f64 = 1048576.0;

    #[test]
    fn one_that_leaks_is_seen_beside_one_that_swings() {
        let id = |pid| ProcessId {
            pid,
            start_ticks: 1,
        };
        let mut leaking = table(TableSpec::process(id(7)));
        let mut swinging = table(TableSpec::process(id(8)));
        for tenth in 0..300_u64 {
            let row = |mib: f64| ProcessRow {
                rss_bytes: mib * MIB,
                ..ProcessRow::ABSENT
            };
            let time = tenth * 100_000_000;
            tick(&mut leaking, time, row(100.0 + tenth as f64));
            let swing = if tenth % 40 < 20 { 3000.0 } else { 500.0 };
            tick(&mut swinging, time, row(swing));
        }
        let mut run = recording();
        run.tables = vec![leaking, swinging];
        let verdicts = over_processes(&run).verdicts(Some(20.0 * MIB));
        let leaks: Vec<String> = verdicts
            .iter()
            .filter(|verdict| {
                let growth = verdict.growth;
                growth.is_some_and(|growth| growth.kind == GrowthKind::Leak)
            })
            .map(|verdict| verdict.resource.to_string())
            .collect();
        assert_eq!(leaks, ["a process (PID 7)"]);
    }
}
