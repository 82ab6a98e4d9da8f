//! GPUs through the fake driver: a real library, loaded and called as the real one is.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::ffi::OsStr;
use std::time::Duration;

use nilo_source::gpu::{
    GpuProcess, GpuReader, GpuReading, GpuSources, GpuStage, GpuView, Gpus, NoGpus,
};
use support::fake_nvml::{FakeDriver, GIB, gpu, process};

const LONG: Duration = Duration::from_secs(60);
const GPU_LOST: u32 = 15;

fn open(lines: &[String]) -> (FakeDriver, Gpus) {
    let driver = FakeDriver::new(lines);
    let gpus = Gpus::open(&GpuSources::nvidia(driver.library())).unwrap();
    (driver, gpus)
}

fn read(gpus: &mut Gpus, place: usize) -> GpuReading {
    let mut reading = GpuReading::default();
    gpus.read(place, &mut reading).unwrap();
    reading
}

#[test]
fn a_gpu_is_described_and_read() {
    let lines = [gpu("GPU-a", 3 * GIB as i64, 37), process("GPU-a", 42, 5000)];
    let (_driver, mut gpus) = open(&lines);
    let device = &gpus.devices()[0];
    assert_eq!(
        (device.index, device.name.as_str(), device.uuid.as_str()),
        (0, "Fake G16", "GPU-a")
    );
    assert_eq!(
        (device.total_bytes, device.reserved_bytes),
        (Some(16 * GIB), Some(GIB))
    );
    let expected = GpuReading {
        used_bytes: Some(3 * GIB),
        free_bytes: Some(12 * GIB),
        total_bytes: Some(16 * GIB),
        utilization_percent: Some(37),
        processes: Some(vec![GpuProcess {
            pid: 42,
            bytes: Some(5000),
        }]),
        ..GpuReading::default()
    };
    assert_eq!(read(&mut gpus, 0), expected);
}

#[test]
fn what_the_driver_does_not_tell_is_none_and_never_zero() {
    let lines = [
        gpu("GPU-a", -1, -1),
        process("GPU-a", 1, -1),
        process("GPU-a", 2, 0),
        process("GPU-a", 3, 99 * GIB as i64),
        gpu("GPU-b", 0, 0),
        process("GPU-b", 4, 99 * GIB as i64),
    ];
    let (_driver, mut gpus) = open(&lines);
    let reading = read(&mut gpus, 0);
    assert_eq!(
        (reading.used_bytes, reading.utilization_percent),
        (None, None)
    );
    let bytes: Vec<Option<u64>> = reading.processes.unwrap().iter().map(|p| p.bytes).collect();
    // Without a size of the device nothing is too much for it.
    assert_eq!(bytes, [None, None, Some(99 * GIB)]);
    assert_eq!(
        read(&mut gpus, 1).processes.unwrap()[0].bytes,
        None,
        "more than the device has"
    );
}

#[test]
fn a_lost_gpu_fails_alone() {
    let lines = [gpu("GPU-a", 1, 0), gpu("GPU-b", 2, 0)];
    let (driver, mut gpus) = open(&lines);
    let lost = [&lines[..], &[format!("fail GPU-a {GPU_LOST}")]].concat();
    driver.say(&lost);
    let error = gpus.read(0, &mut GpuReading::default()).unwrap_err();
    assert_eq!(error.to_string(), "it has fallen off the bus");
    assert_eq!(read(&mut gpus, 1).used_bytes, Some(2));
    assert!(gpus.read(2, &mut GpuReading::default()).is_err());
}

#[test]
fn parts_of_a_divided_gpu_stand_for_it_and_are_numbered_after_the_last_gpu() {
    let part = |uuid: &str| gpu(uuid, 7, -1).replacen("gpu", "part", 1);
    let lines = [
        gpu("GPU-a", 1, 1),
        part("MIG-1"),
        part("MIG-2"),
        gpu("GPU-b", 2, 2),
    ];
    let (_driver, mut gpus) = open(&lines);
    let found: Vec<(u32, &str, Option<u32>)> = gpus
        .devices()
        .iter()
        .map(|device| (device.index, device.uuid.as_str(), device.part_of))
        .collect();
    let expected = [
        (1, "GPU-b", None),
        (2, "MIG-1", Some(0)),
        (3, "MIG-2", Some(0)),
    ];
    assert_eq!(found, expected);
    let reading = read(&mut gpus, 1);
    assert_eq!(
        (reading.used_bytes, reading.utilization_percent),
        (Some(7), None)
    );
}

#[test]
fn no_library_is_no_driver_and_a_broken_one_says_why() {
    let nowhere = OsStr::new("/nowhere/libnvidia-ml.so.1");
    assert!(matches!(
        Gpus::open(&GpuSources::nvidia(nowhere)),
        Err(NoGpus::NoDriver { .. })
    ));
    assert!(GpuReader::start(&GpuSources::nvidia(nowhere)).is_none());
    assert!(GpuReader::start(&GpuSources::nvidia("a\0b")).is_none());
    let driver = FakeDriver::new(&["init 9".to_owned()]);
    let open = || {
        Gpus::open(&GpuSources::nvidia(driver.library()))
            .err()
            .unwrap()
    };
    assert!(matches!(open(), NoGpus::NoDriver { .. }), "not loaded");
    driver.say(&["init 18".to_owned()]);
    assert_eq!(
        open().to_string(),
        "cannot query the NVIDIA driver: its library and its kernel module are of different versions"
    );
    driver.say(&[]);
    assert!(matches!(open(), NoGpus::NoDriver { .. }), "no GPU");
    let other = Gpus::open(&GpuSources::nvidia("libc.so.6")).err().unwrap();
    assert!(other.to_string().ends_with("libc.so.6 is another library"));
}

#[test]
fn whoever_looks_at_a_hanging_driver_does_not_wait_and_sees_when_it_answers_again() {
    let lines = [gpu("GPU-a", 1, 0)];
    let driver = FakeDriver::new(&lines);
    let reader = GpuReader::start(&GpuSources::nvidia(driver.library())).unwrap();
    let mut view = GpuView::default();
    reader.wait(LONG);
    assert!(reader.look(&mut view));
    assert_eq!((&view.stage, view.round), (&GpuStage::Open, 1));
    driver.say(&[&lines[..], &["hang".to_owned()]].concat());
    reader.request();
    reader.wait(Duration::from_millis(50));
    assert!(!reader.look(&mut view));
    let asked = view.asked_at_nanos.unwrap();
    assert!(!view.is_overdue(asked + 1) && view.is_overdue(asked + 10_000_000_000));
    driver.say(&[gpu("GPU-a", 9, 0)]);
    reader.wait(LONG);
    assert!(reader.look(&mut view));
    assert_eq!(view.readings[0].as_ref().unwrap().used_bytes, Some(9));
    assert_eq!((view.round, view.asked_at_nanos), (2, None));
}

#[test]
fn a_driver_that_cannot_be_opened_is_absent_to_the_reader() {
    let driver = FakeDriver::new(&["init 18".to_owned()]);
    let reader = GpuReader::start(&GpuSources::nvidia(driver.library())).unwrap();
    reader.wait(LONG);
    reader.request();
    let mut view = GpuView::default();
    reader.look(&mut view);
    assert!(matches!(
        view.stage,
        GpuStage::Absent(NoGpus::Broken { .. })
    ));
    assert_eq!(view.asked_at_nanos, None);
}
