//! GPUs over time: sensors, several GPUs, GPUs that vanish, drivers that fail or lack functions, from the scenario files of the fake driver.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use nilo_source::gpu::{GpuReading, GpuSensors, GpuSources, GpuThrottling, Gpus, NvlinkTraffic};
use support::fake_nvml::{FakeDriver, GIB};

struct Scenario {
    driver: FakeDriver,
    gpus: Gpus,
    readings: Vec<GpuReading>,
}

impl Scenario {
    fn open(name: &str) -> Scenario {
        Scenario::open_with(name, &[])
    }

    fn open_with(name: &str, lines: &[String]) -> Scenario {
        let driver = FakeDriver::scenario(name, lines);
        let gpus = Gpus::open(&GpuSources::nvidia(driver.library())).unwrap();
        let readings = vec![GpuReading::default(); gpus.devices().len()];
        Scenario {
            driver,
            gpus,
            readings,
        }
    }

    /// Reads every GPU once more; the used bytes of each in GiB, or why there are none.
    fn tick(&mut self) -> Vec<Result<u64, String>> {
        let places = self.readings.iter_mut().enumerate();
        let gpus = &mut self.gpus;
        let read = places.map(|(place, reading)| match gpus.read(place, reading) {
            Ok(()) => Ok(reading.used_bytes.unwrap() / GIB),
            Err(error) => {
                *reading = GpuReading::default();
                Err(error.reason)
            }
        });
        read.collect()
    }
}

#[test]
fn every_sensor_of_several_gpus_is_read() {
    let mut pair = Scenario::open("h100-pair.txt");
    assert_eq!(pair.tick(), [Ok(2), Ok(4)]);
    let first = GpuSensors {
        power_milliwatts: Some(412_345),
        power_limit_milliwatts: Some(700_000),
        temperature_celsius: Some(54),
        sm_clock_mhz: Some(1980),
        memory_clock_mhz: Some(2619),
        throttling: Some(GpuThrottling::default()),
        uncorrected_ecc_errors: Some(0),
        nvlink: Some(NvlinkTraffic {
            sent_bytes: GIB,
            received_bytes: 2 * GIB,
        }),
    };
    assert_eq!(pair.readings[0].sensors, first);
    let second = pair.readings[1].sensors;
    assert_eq!(
        second.throttling.unwrap().reasons().collect::<Vec<_>>(),
        ["power"]
    );
    assert_eq!(second.uncorrected_ecc_errors, Some(2));
    assert_eq!(second.nvlink, None, "it has no NVLink");
    assert_eq!(pair.readings[1].sensor_failure, None);
}

/// Ticks come faster here than sensors are read.
#[test]
fn sensors_are_read_again_after_a_while() {
    let mut pair = Scenario::open("h100-pair.txt");
    let heat = |pair: &Scenario| pair.readings[1].sensors.throttling.unwrap().by_heat;
    pair.tick();
    assert!(!heat(&pair));
    while !heat(&pair) {
        pair.tick();
    }
    assert_eq!(pair.readings[1].sensors.power_milliwatts, Some(699_000));
}

#[test]
fn a_usual_tick_asks_the_driver_twice() {
    let name = "h100-pair.txt";
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("calls");
    let mut pair = Scenario::open_with(name, &[format!("log {}", log.display())]);
    let mut reading = GpuReading::default();
    let mut questions = || {
        std::fs::write(&log, "").unwrap();
        pair.gpus.read(0, &mut reading).unwrap();
        std::fs::read_to_string(&log).unwrap().lines().count()
    };
    // Memory, utilization, the list of processes (which is empty: one call), eight sensors.
    assert_eq!(questions(), 11);
    let usual: Vec<usize> = (0..20).map(|_| questions()).collect();
    assert_eq!(usual.iter().min(), Some(&2), "{usual:?}");
    // A busy machine may let a second pass meanwhile.
    assert!(
        usual.iter().filter(|calls| **calls > 2).count() < 10,
        "{usual:?}"
    );
}

#[test]
fn a_gpu_that_vanishes_fails_alone_and_is_read_again_when_it_is_back() {
    let mut pair = Scenario::open("vanishing.txt");
    let lost = || Err("it has fallen off the bus".to_owned());
    let ticks: Vec<_> = (0..5).map(|_| pair.tick()).collect();
    let expected = [
        [Ok(1), Ok(2)],
        [Ok(1), Ok(2)],
        [Ok(1), lost()],
        [Ok(1), lost()],
        [Ok(1), Ok(2)],
    ];
    assert_eq!(ticks, expected);
    // Its sensors did not wait for a second to pass.
    assert_eq!(pair.readings[1].sensors.power_milliwatts, Some(200_000));
}

#[test]
fn functions_that_a_driver_does_not_have_are_absent_and_the_rest_is_read() {
    let mut old = Scenario::open("old-driver.txt");
    assert_eq!(old.tick(), [Ok(1)]);
    let expected = GpuSensors {
        temperature_celsius: Some(40),
        sm_clock_mhz: Some(1200),
        ..GpuSensors::default()
    };
    let reading = &old.readings[0];
    assert_eq!(reading.sensors, expected);
    assert_eq!(
        (&reading.processes, &reading.sensor_failure),
        (&None, &None)
    );
    assert!(old.driver.folder().join("symbols").exists());
}

#[test]
fn a_question_that_fails_leaves_the_others_and_says_why() {
    let mut failing = Scenario::open("failing-sensors.txt");
    assert_eq!(failing.tick(), [Ok(1)]);
    let reading = &failing.readings[0];
    assert_eq!(
        reading.sensor_failure.as_deref(),
        Some("power: it gives no reason")
    );
    assert_eq!(reading.sensors.power_milliwatts, None);
    assert_eq!(reading.sensors.temperature_celsius, Some(40));
    assert_eq!(
        (reading.utilization_percent, &reading.processes),
        (None, &None)
    );
    failing.tick();
    assert_eq!(failing.tick(), [Ok(1)]);
    assert_eq!(failing.readings[0].utilization_percent, Some(10));
}

#[test]
fn parts_of_a_divided_gpu_have_memory_and_no_sensors() {
    let mut divided = Scenario::open("divided.txt");
    assert_eq!(divided.tick(), [Ok(3), Ok(1), Ok(2)]);
    let parts: Vec<_> = divided.gpus.devices().iter().map(|d| d.part_of).collect();
    assert_eq!(parts, [None, Some(0), Some(0)]);
    let power = |place: usize| divided.readings[place].sensors.power_milliwatts;
    assert_eq!([power(0), power(1), power(2)], [Some(300_000), None, None]);
    assert!(divided.readings.iter().all(|r| r.sensor_failure.is_none()));
}
