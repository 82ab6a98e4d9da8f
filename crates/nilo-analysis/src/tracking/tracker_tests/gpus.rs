//! GPUs, and what PyTorch has of them.

use nilo_forecast::RiskLevel;
use nilo_sample::fixture::{recording, table, tick};
use nilo_sample::rows::{GpuRow, TorchMemoryRow};
use nilo_sample::{Event, Recording, TableSpec, TimedEvent};

use super::{MIB, SECOND, gpu_row, over, tree};
use crate::tracking::{Resource, ResourceTracker, RiskChange};

#[test]
fn torch_runs_out_of_what_it_has_and_what_is_free() {
    let mut run = recording();
    let mut rows = table(TableSpec::torch_memory(1));
    rows.writer = "python-7".to_owned();
    for second in 0..1000_u64 {
        let allocated = (1000.0 + second as f64 * 3.0) * MIB;
        let row = TorchMemoryRow {
            allocated_bytes: allocated,
            reserved_bytes: allocated,
            device_free_bytes: 4200.0 * MIB - allocated,
            device_total_bytes: 80000.0 * MIB,
            ..TorchMemoryRow::ABSENT
        };
        tick(&mut rows, second * SECOND, row);
    }
    run.tables = vec![rows];
    let raised: Vec<RiskChange> = over(&run)
        .into_iter()
        .filter(|change| change.forecast.level >= RiskLevel::High)
        .collect();
    let torch = Resource::Torch {
        writer: "python-7".to_owned(),
        device: 1,
    };
    assert_eq!(raised[0].resource, torch);
}

#[test]
fn torch_runs_out_of_what_the_program_allows_it() {
    let mut run = recording();
    // As the recorder writes what the hooks of a process told.
    let mut rows = table(TableSpec::torch_memory_of(7, 0));
    for second in 0..1000_u64 {
        let allocated = (1000.0 + second as f64 * 3.0) * MIB;
        let row = TorchMemoryRow {
            allocated_bytes: allocated,
            reserved_bytes: allocated,
            device_total_bytes: 80000.0 * MIB,
            allowed_bytes: 4200.0 * MIB,
            ..TorchMemoryRow::ABSENT
        };
        tick(&mut rows, second * SECOND, row);
    }
    run.tables = vec![rows];
    let changes = over(&run);
    let raised = changes
        .iter()
        .find(|change| change.forecast.level >= RiskLevel::High);
    let torch = Resource::Torch {
        writer: "python-7".to_owned(),
        device: 0,
    };
    assert_eq!(raised.map(|change| &change.resource), Some(&torch));
    let (tracker, _) = ResourceTracker::over(&run, None);
    let share = tracker.verdicts(None)[0].reading.used_share();
    assert!(share.is_some_and(|share| share > 0.9), "{share:?}");
}

#[test]
fn what_a_driver_keeps_for_itself_is_no_part_of_the_limit() {
    let mut run = recording();
    let mut gpu = table(TableSpec::gpu(0));
    tick(&mut gpu, SECOND, gpu_row(60.0, 100.0));
    run.tables = vec![gpu];
    run.events = vec![TimedEvent {
        time_nanos: SECOND,
        event: Event::GpuFound {
            index: 0,
            name: "H200".to_owned(),
            uuid: "GPU-0".to_owned(),
            total_bytes: Some(100),
            reserved_bytes: Some(20),
            part_of: None,
        },
    }];
    let (tracker, _) = ResourceTracker::over(&run, None);
    assert_eq!(tracker.verdicts(None)[0].reading.used_share(), Some(0.75));
}

#[test]
fn a_gpu_that_stands_still_counts_as_read_as_long_as_rows_come() {
    let mut gpu = table(TableSpec::gpu(0));
    tick(&mut gpu, SECOND, gpu_row(6.0 * MIB, 16.0 * MIB));
    let mut run = recording();
    run.tables = vec![tree(20), gpu];
    let still = |run: &Recording| {
        let (tracker, _) = ResourceTracker::over(run, None);
        let verdicts = tracker.verdicts(None);
        let gpu = |verdict: &&crate::tracking::ResourceVerdict| {
            verdict.resource == Resource::Gpu { index: 0 }
        };
        let verdict = verdicts.iter().find(gpu).unwrap().clone();
        (verdict.readings, verdict.watched_secs, verdict.too_young)
    };
    assert_eq!(still(&run), (19, 18.0, false));
    // From a row without values on nobody knows.
    tick(&mut run.tables[1], 9 * SECOND / 2, GpuRow::ABSENT);
    assert_eq!(still(&run), (4, 3.0, true));
}
