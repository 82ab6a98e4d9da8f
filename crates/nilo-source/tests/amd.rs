//! AMD's GPUs, from a tree of files as the kernel's driver lays them out.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::path::{Path, PathBuf};
use std::time::Duration;

use nilo_source::gpu::{
    GpuMaker, GpuProcess, GpuReader, GpuReading, GpuSensors, GpuSources, GpuStage, GpuView, Gpus,
};
use support::fake_nvml::{FakeDriver, GIB, gpu};

fn captured() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/amd-sysfs")
}

/// A copy that a test may change.
fn copied() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&captured(), folder.path());
    folder
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn read(gpus: &mut Gpus, place: usize) -> GpuReading {
    let mut reading = GpuReading::default();
    gpus.read(place, &mut reading).unwrap();
    reading
}

#[test]
fn gpus_are_described_in_the_order_of_the_bus_and_other_makers_are_left_alone() {
    let gpus = Gpus::open(&GpuSources::amd(captured())).unwrap();
    let devices = gpus.devices();
    let found: Vec<_> = devices
        .iter()
        .map(|gpu| (gpu.index, gpu.name.as_str(), gpu.uuid.as_str(), gpu.maker))
        .collect();
    let expected = [
        (0, "AMD GPU 0x744c", "0000:43:00.0", GpuMaker::Amd),
        (
            1,
            "AMD Instinct MI300X",
            "GPU-5a1b2c3d4e5f6071",
            GpuMaker::Amd,
        ),
    ];
    assert_eq!(found, expected);
    assert_eq!(devices[1].total_bytes, Some(192 * GIB));
}

#[test]
fn memory_processes_and_sensors_are_read() {
    let mut gpus = Gpus::open(&GpuSources::amd(captured())).unwrap();
    let mut large = read(&mut gpus, 1);
    large.processes.as_mut().unwrap().sort_by_key(|p| p.pid);
    let process = |pid, gib| GpuProcess {
        pid,
        bytes: Some(gib * GIB),
    };
    let expected = GpuReading {
        used_bytes: Some(12 * GIB),
        free_bytes: Some(180 * GIB),
        total_bytes: Some(192 * GIB),
        utilization_percent: Some(87),
        processes: Some(vec![process(4711, 10), process(4712, 1)]),
        sensors: GpuSensors {
            power_milliwatts: Some(415_000),
            power_limit_milliwatts: Some(750_000),
            temperature_celsius: Some(61),
            sm_clock_mhz: Some(2100),
            memory_clock_mhz: Some(1300),
            throttling: None,
            uncorrected_ecc_errors: Some(1),
            nvlink: None,
        },
        sensor_failure: None,
    };
    assert_eq!(large, expected);
    let small = read(&mut gpus, 0);
    assert_eq!(small.utilization_percent, None);
    assert_eq!(small.processes, Some(vec![process(4712, 2)]));
    assert_eq!(small.sensors.power_milliwatts, Some(98_000));
    assert_eq!(small.sensors.temperature_celsius, Some(48));
    assert_eq!(small.sensors.uncorrected_ecc_errors, None);
}

#[test]
fn a_level_that_changes_is_read_from_the_same_files() {
    let tree = copied();
    let mut gpus = Gpus::open(&GpuSources::amd(tree.path())).unwrap();
    let used = tree
        .path()
        .join("class/drm/card1/device/mem_info_vram_used");
    assert_eq!(read(&mut gpus, 1).used_bytes, Some(12 * GIB));
    std::fs::write(&used, format!("{}\n", 20 * GIB)).unwrap();
    assert_eq!(read(&mut gpus, 1).used_bytes, Some(20 * GIB));
    for nonsense in ["", "many\n", "99999999999999999999999\n"] {
        std::fs::write(&used, nonsense).unwrap();
        assert_eq!(read(&mut gpus, 1).used_bytes, None, "{nonsense:?}");
    }
    let more_than_there_is = format!("{}\n", 500 * GIB);
    std::fs::write(&used, more_than_there_is).unwrap();
    assert_eq!(read(&mut gpus, 1).used_bytes, None);
}

#[test]
fn without_the_compute_driver_nobody_is_named() {
    let tree = copied();
    std::fs::remove_dir_all(tree.path().join("class/kfd")).unwrap();
    let mut gpus = Gpus::open(&GpuSources::amd(tree.path())).unwrap();
    assert_eq!(read(&mut gpus, 0).processes, None);
}

#[test]
fn a_machine_without_amd_has_none_and_no_thread() {
    let empty = tempfile::tempdir().unwrap();
    assert!(Gpus::open(&GpuSources::amd(empty.path())).is_err());
    assert!(GpuReader::start(&GpuSources::amd(empty.path())).is_none());
    let tree = copied();
    for card in ["card1", "card2"] {
        let vendor = tree.path().join(format!("class/drm/{card}/device/vendor"));
        std::fs::write(vendor, "0x10de\n").unwrap();
    }
    assert!(GpuReader::start(&GpuSources::amd(tree.path())).is_none());
}

#[test]
fn gpus_of_both_makers_are_one_list() {
    let driver = FakeDriver::new(&[gpu("GPU-a", GIB as i64, 5), gpu("GPU-b", 0, 5)]);
    let sources = GpuSources {
        nvidia_library: Some(driver.library().into()),
        sysfs: Some(captured()),
    };
    let reader = GpuReader::start(&sources).unwrap();
    reader.wait(Duration::from_secs(60));
    let mut view = GpuView::default();
    reader.look(&mut view);
    assert_eq!(view.stage, GpuStage::Open);
    let indices: Vec<u32> = view.devices.iter().map(|gpu| gpu.index).collect();
    assert_eq!(indices, [0, 1, 2, 3]);
    let used: Vec<u64> = view
        .readings
        .iter()
        .map(|r| r.as_ref().unwrap().used_bytes.unwrap() / GIB)
        .collect();
    assert_eq!(used, [1, 0, 3, 12]);
    // NVIDIA's driver is not needed for AMD's GPUs.
    let sources = GpuSources {
        nvidia_library: Some("/nowhere/libnvidia-ml.so.1".into()),
        ..sources
    };
    assert_eq!(Gpus::open(&sources).unwrap().devices().len(), 2);
}
