//! Which GPUs a captured job has rows of, and what is in them. The readings are made up, the job is captured.

use std::sync::Arc;

use nilo_runfile::{RowBuffer, Update};
use nilo_sample::Subject;
use nilo_source::gpu::{GpuMaker, GpuProcess, GpuSensors, NvlinkTraffic};

use super::*;
use crate::captured_job::{CapturedJob, JOB, WORKER, events, rows};

const SECOND: u64 = 1_000_000_000;
const STRANGER: u32 = 4242;

/// Two GPUs, of which the captured job can see the first by its environment.
struct TwoGpus {
    gpus: GpuRows,
    buffer: RowBuffer,
    /// Its files are read while the test goes on.
    _job: CapturedJob,
}

impl TwoGpus {
    fn new() -> TwoGpus {
        let job = CapturedJob::at(1);
        let mut gpus = GpuRows::none(&job.roots(), 0, JOB);
        let device = |index| GpuDevice {
            index,
            name: "H200".to_owned(),
            uuid: format!("GPU-{index}"),
            maker: GpuMaker::Nvidia,
            total_bytes: Some(1000),
            reserved_bytes: Some(10),
            part_of: None,
            compute_capability: None,
            driver_version: None,
        };
        gpus.view.devices = Arc::new([device(0), device(1)]);
        gpus.job = vec![JOB, WORKER];
        TwoGpus {
            gpus,
            buffer: RowBuffer::new("recorder", 0),
            _job: job,
        }
    }

    /// A reading of both comes at this second.
    fn take(&mut self, secs: u64, readings: [Result<GpuReading, String>; 2]) -> Update {
        self.gpus.view.read_at_nanos = secs * SECOND;
        self.gpus.view.readings = readings.into();
        self.gpus.take(&mut self.buffer, secs * SECOND);
        self.buffer.take()
    }
}

/// A GPU with 1000 bytes, of which processes hold these.
fn reading(held: &[(u32, u64)]) -> Result<GpuReading, String> {
    let processes = held.iter().map(|(pid, bytes)| GpuProcess {
        pid: *pid,
        bytes: Some(*bytes),
    });
    let used: u64 = held.iter().map(|(_, bytes)| bytes).sum();
    Ok(GpuReading {
        used_bytes: Some(used),
        free_bytes: Some(1000 - used),
        total_bytes: Some(1000),
        utilization_percent: Some(40),
        processes: Some(processes.collect()),
        ..GpuReading::default()
    })
}

fn row(used_bytes: f64, job_bytes: f64) -> GpuRow {
    GpuRow {
        used_bytes,
        total_bytes: 1000.0,
        job_bytes,
        utilization: 0.4,
        ..GpuRow::ABSENT
    }
}

fn of_gpu(update: &Update, index: u32) -> Vec<(u64, GpuRow)> {
    rows(update, &Subject::Gpu { index })
}

fn blind(update: &Update) -> Vec<&str> {
    let told = update.events.iter().filter_map(|timed| match &timed.event {
        Event::Blind { text } => Some(text.as_str()),
        _ => None,
    });
    told.collect()
}

#[test]
fn before_a_job_holds_a_gpu_those_that_it_can_see_are_recorded() {
    let mut two = TwoGpus::new();
    let update = two.take(1, [reading(&[(STRANGER, 300)]), reading(&[])]);
    assert_eq!(of_gpu(&update, 0), [(SECOND, row(300.0, 0.0))]);
    assert_eq!(of_gpu(&update, 1), []);
    let found = Event::GpuFound {
        index: 0,
        name: "H200".to_owned(),
        uuid: "GPU-0".to_owned(),
        total_bytes: Some(1000),
        reserved_bytes: Some(10),
        part_of: None,
    };
    assert_eq!(events(&update), [&found]);
    assert_eq!(two.gpus.readings().collect::<Vec<_>>(), [(0, 1), (1, 0)]);
}

#[test]
fn once_a_job_holds_a_gpu_that_one_is_recorded_and_the_others_are_left() {
    let mut two = TwoGpus::new();
    two.take(1, [reading(&[]), reading(&[])]);
    let update = two.take(
        2,
        [
            reading(&[]),
            reading(&[(JOB, 200), (STRANGER, 100), (WORKER, 50)]),
        ],
    );
    assert_eq!(of_gpu(&update, 1), [(2 * SECOND, row(350.0, 250.0))]);
    assert_eq!(of_gpu(&update, 0), [(2 * SECOND, GpuRow::ABSENT)]);
    // It is the job's from here on, also when the job lets go of it.
    let update = two.take(3, [reading(&[]), reading(&[])]);
    assert_eq!(of_gpu(&update, 1), [(3 * SECOND, row(0.0, 0.0))]);
    assert_eq!(of_gpu(&update, 0), []);
}

#[test]
fn a_level_that_stands_still_is_written_again_after_ten_seconds() {
    let mut two = TwoGpus::new();
    let mut times = Vec::new();
    for secs in 1..=25 {
        let update = two.take(secs, [reading(&[(JOB, 200)]), reading(&[])]);
        times.extend(of_gpu(&update, 0).iter().map(|(time, _)| time / SECOND));
    }
    assert_eq!(times, [1, 11, 21]);
}

#[test]
fn a_gpu_that_cannot_be_read_is_left_and_said_once() {
    let mut two = TwoGpus::new();
    two.take(1, [reading(&[(JOB, 200)]), reading(&[])]);
    let lost = || Err("GPU is lost".to_owned());
    let update = two.take(2, [lost(), reading(&[])]);
    assert_eq!(of_gpu(&update, 0), [(2 * SECOND, GpuRow::ABSENT)]);
    assert_eq!(
        blind(&update),
        ["GPU 0 (H200) cannot be read: GPU is lost; it is not recorded until it can be"]
    );
    assert!(two.take(3, [lost(), reading(&[])]).is_empty());
    let update = two.take(4, [reading(&[(JOB, 200)]), reading(&[])]);
    assert_eq!(of_gpu(&update, 0), [(4 * SECOND, row(200.0, 200.0))]);
}

#[test]
fn gpus_that_the_user_names_are_recorded_whoever_uses_them() {
    let mut two = TwoGpus::new();
    two.gpus.choose(Some(vec![1]));
    let update = two.take(1, [reading(&[(JOB, 200)]), reading(&[(STRANGER, 100)])]);
    assert_eq!(of_gpu(&update, 0), []);
    assert_eq!(of_gpu(&update, 1), [(SECOND, row(100.0, 0.0))]);
}

#[test]
fn a_share_that_the_driver_does_not_tell_is_absent_and_said_after_a_while() {
    let mut two = TwoGpus::new();
    let untold = || {
        reading(&[]).map(|reading| GpuReading {
            processes: None,
            ..reading
        })
    };
    let update = two.take(1, [untold(), reading(&[])]);
    assert_eq!(of_gpu(&update, 0), [(SECOND, row(0.0, ABSENT))]);
    assert!(blind(&update).is_empty(), "a context takes a moment");
    assert!(blind(&two.take(5, [untold(), reading(&[])])).is_empty());
    let why =
        "the job's share of GPU memory is unknown: the driver does not report memory per process";
    assert_eq!(blind(&two.take(6, [untold(), reading(&[])])), [why]);
    assert!(blind(&two.take(20, [untold(), reading(&[])])).is_empty());
}

#[test]
fn what_sensors_say_is_in_the_row_and_milliwatts_make_no_row() {
    let mut two = TwoGpus::new();
    let warm = |power_milliwatts, by_power| {
        reading(&[(JOB, 200)]).map(|reading| GpuReading {
            sensors: GpuSensors {
                power_milliwatts: Some(power_milliwatts),
                power_limit_milliwatts: Some(700_000),
                temperature_celsius: Some(54),
                sm_clock_mhz: Some(1980),
                memory_clock_mhz: None,
                throttling: Some(GpuThrottling {
                    by_power,
                    ..GpuThrottling::default()
                }),
                uncorrected_ecc_errors: Some(0),
                nvlink: Some(NvlinkTraffic {
                    sent_bytes: 5,
                    received_bytes: 7,
                }),
            },
            ..reading
        })
    };
    let update = two.take(1, [warm(412_300, false), reading(&[])]);
    let expected = GpuRow {
        power_watts: 412.0,
        power_limit_watts: 700.0,
        temperature_celsius: 54.0,
        sm_clock_mhz: 1980.0,
        throttled_by_power: 0.0,
        throttled_by_heat: 0.0,
        throttled_by_hardware: 0.0,
        uncorrected_ecc_errors: 0.0,
        nvlink_sent_bytes: 5.0,
        nvlink_received_bytes: 7.0,
        ..row(200.0, 200.0)
    };
    assert_eq!(of_gpu(&update, 0), [(SECOND, expected)]);
    let update = two.take(2, [warm(411_700, false), reading(&[])]);
    assert_eq!(of_gpu(&update, 0), []);
    let update = two.take(3, [warm(412_000, true), reading(&[])]);
    let throttled = GpuRow {
        throttled_by_power: 1.0,
        ..expected
    };
    assert_eq!(of_gpu(&update, 0), [(3 * SECOND, throttled)]);
}

#[test]
fn a_sensor_that_fails_is_absent_and_said_once() {
    let mut two = TwoGpus::new();
    let failing = || {
        reading(&[(JOB, 200)]).map(|reading| GpuReading {
            sensor_failure: Some("power: it gives no reason".to_owned()),
            ..reading
        })
    };
    let update = two.take(1, [failing(), reading(&[])]);
    assert_eq!(of_gpu(&update, 0), [(SECOND, row(200.0, 200.0))]);
    assert_eq!(
        blind(&update),
        ["a sensor of GPU 0 (H200) cannot be read: power: it gives no reason"]
    );
    assert!(two.take(2, [failing(), reading(&[])]).is_empty());
}

#[test]
fn of_the_machine_alone_nobodys_share_is_told() {
    let mut two = TwoGpus::new();
    two.gpus.watch_host_only();
    let update = two.take(1, [reading(&[(JOB, 200)]), reading(&[])]);
    assert_eq!(of_gpu(&update, 0), [(SECOND, row(200.0, ABSENT))]);
    for secs in [10, 30] {
        let update = two.take(secs, [reading(&[(JOB, 200)]), reading(&[])]);
        assert!(blind(&update).is_empty());
    }
}

#[test]
fn a_driver_that_falls_silent_ends_every_level_and_is_told_once() {
    let mut two = TwoGpus::new();
    two.take(1, [reading(&[(JOB, 200)]), reading(&[])]);
    two.gpus.fall_silent(&mut two.buffer, 2 * SECOND);
    let update = two.buffer.take();
    assert_eq!(of_gpu(&update, 0), [(2 * SECOND, GpuRow::ABSENT)]);
    assert_eq!(blind(&update).len(), 1);
    two.gpus.fall_silent(&mut two.buffer, 3 * SECOND);
    assert!(two.buffer.take().is_empty());
}
