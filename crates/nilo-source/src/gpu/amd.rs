//! AMD GPUs through sysfs: the files of the kernel's `amdgpu` driver, kept open; no library is loaded.
//!
//! | file | is |
//! |---|---|
//! | `class/drm/card*/device/vendor` | `0x1002` for AMD |
//! | `…/mem_info_vram_used`, `…/mem_info_vram_total` | bytes |
//! | `…/gpu_busy_percent` | how busy it is |
//! | `…/hwmon/hwmon*/power1_average` or `power1_input`, `power1_cap` | microwatts |
//! | `…/hwmon/hwmon*/temp1_input` or `temp2_input` | thousandths of a degree |
//! | `…/hwmon/hwmon*/freq1_input`, `freq2_input` | clocks of the compute units and of the memory in hertz |
//! | `…/ras/umc_err_count` | memory errors, a line `ue: N` for those that could not be corrected |
//! | `class/kfd/kfd/proc/PID/vram_ID` | what a process that computes holds; the machine's PIDs (`amd_processes.rs`) |
//!
//! Why clocks are lowered is in a table whose layout changes with the hardware (`gpu_metrics`), and not read.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::descriptors::{read_kernel_file, read_record};
use crate::gpu::amd_processes::ComputeProcesses;
use crate::gpu::driver::{GpuDriver, GpuError};
use crate::gpu::sensors::{SENSORS_AGAIN, is_recent};
use crate::gpu::{GpuDevice, GpuMaker, GpuReading, GpuSensors};
use crate::kernel_text::{labelled, line_after, number};

const AMD_VENDOR: &[u8] = b"0x1002";
/// The list of processes is read when the used memory has changed, and after this long.
const LIST_AGAIN: Duration = Duration::from_secs(1);
/// The files have a number or two short lines.
const FILE_BYTES: usize = 256;

/// The AMD GPUs of this machine.
pub(super) struct AmdGpus {
    cards: Vec<Card>,
    devices: Vec<GpuDevice>,
}

/// A GPU's files, as far as it has them.
struct Card {
    used: Option<OwnedFd>,
    total: Option<OwnedFd>,
    busy: Option<OwnedFd>,
    power: Option<OwnedFd>,
    power_cap: Option<OwnedFd>,
    temperature: Option<OwnedFd>,
    sm_clock: Option<OwnedFd>,
    memory_clock: Option<OwnedFd>,
    errors: Option<OwnedFd>,
    processes: ComputeProcesses,
    /// The used memory when the processes were last listed, and when that was.
    listed: Option<(Option<u64>, Instant)>,
    /// Sensors may make the driver ask the GPU's own processor, which takes up to a millisecond.
    sensors_read_at: Option<Instant>,
}

/// Whether there is an AMD GPU: one folder to look into where there is none.
pub(super) fn has_amd_gpus(sysfs: &Path) -> bool {
    !folders_of_cards(sysfs).is_empty()
}

/// The folders of AMD's GPUs, in the order of their places on the bus.
fn folders_of_cards(sysfs: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(sysfs.join("class/drm")) else {
        return Vec::new();
    };
    let names = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        // Not the connectors, `card0-DP-1`.
        let digits = name.strip_prefix("card")?;
        let is_card = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_card.then(|| entry.path().join("device"))
    });
    let amd = names.filter_map(|folder| {
        let vendor = read_kernel_file(folder.join("vendor")).ok()?;
        let has_memory = folder.join("mem_info_vram_total").exists();
        (vendor.trim_ascii() == AMD_VENDOR && has_memory).then(|| (bus_address(&folder), folder))
    });
    let mut found: Vec<_> = amd.collect();
    found.sort();
    found
}

/// `0000:c1:00.0`.
fn bus_address(folder: &Path) -> String {
    let text = read_kernel_file(folder.join("uevent")).unwrap_or_default();
    let address = line_after(&text, b"PCI_SLOT_NAME=").unwrap_or_default();
    String::from_utf8_lossy(address).into_owned()
}

impl AmdGpus {
    /// Finds the GPUs; `first_index` is the number of the first.
    pub(super) fn open(sysfs: &Path, first_index: u32) -> AmdGpus {
        let mut gpus = AmdGpus {
            cards: Vec::new(),
            devices: Vec::new(),
        };
        for (running, (address, folder)) in folders_of_cards(sysfs).into_iter().enumerate() {
            let card = Card::open(sysfs, &folder, &address);
            gpus.devices.push(GpuDevice {
                index: first_index + running as u32,
                name: name_of(&folder),
                uuid: unique_id(&folder).unwrap_or(address),
                maker: GpuMaker::Amd,
                total_bytes: read_number(card.total.as_ref()).ok().flatten(),
                reserved_bytes: Some(0),
                part_of: None,
                compute_capability: None,
                driver_version: None,
            });
            gpus.cards.push(card);
        }
        gpus
    }
}

impl GpuDriver for AmdGpus {
    fn devices(&self) -> &[GpuDevice] {
        &self.devices
    }

    fn read(&mut self, place: usize, reading: &mut GpuReading) -> Result<(), GpuError> {
        let Some(card) = self.cards.get_mut(place) else {
            return Err(GpuError {
                reason: format!("there is no AMD GPU at place {place}"),
            });
        };
        card.read(reading).map_err(|error| {
            // Whatever it says next is read anew.
            (card.listed, card.sensors_read_at) = (None, None);
            let reason = match error {
                Errno::NODEV => "it is gone".to_owned(),
                error => std::io::Error::from(error).to_string(),
            };
            GpuError { reason }
        })
    }
}

impl Card {
    fn open(sysfs: &Path, folder: &Path, address: &str) -> Card {
        let hwmon = std::fs::read_dir(folder.join("hwmon")).ok();
        let hwmon = hwmon.and_then(|mut entries| Some(entries.next()?.ok()?.path()));
        let open_sensor = |names: &[&str]| {
            let folder = hwmon.as_ref()?;
            names.iter().find_map(|name| open(&folder.join(name)))
        };
        Card {
            used: open(&folder.join("mem_info_vram_used")),
            total: open(&folder.join("mem_info_vram_total")),
            busy: open(&folder.join("gpu_busy_percent")),
            power: open_sensor(&["power1_average", "power1_input"]),
            power_cap: open_sensor(&["power1_cap"]),
            temperature: open_sensor(&["temp1_input", "temp2_input"]),
            sm_clock: open_sensor(&["freq1_input"]),
            memory_clock: open_sensor(&["freq2_input"]),
            errors: open(&folder.join("ras/umc_err_count")),
            processes: ComputeProcesses::of_gpu(sysfs, address),
            listed: None,
            sensors_read_at: None,
        }
    }

    fn read(&mut self, reading: &mut GpuReading) -> Result<(), Errno> {
        let used = read_number(self.used.as_ref())?;
        let total = read_number(self.total.as_ref())?;
        let is_plausible = used <= total;
        reading.total_bytes = total.filter(|_| is_plausible);
        reading.used_bytes = used.filter(|_| is_plausible);
        let both = reading.total_bytes.zip(reading.used_bytes);
        reading.free_bytes = both.map(|(total, used)| total - used);
        let busy = read_number(self.busy.as_ref()).ok().flatten();
        reading.utilization_percent = busy.map(|percent| percent.min(100) as u32);
        let now = Instant::now();
        let is_known = self
            .listed
            .is_some_and(|(used, at)| used == reading.used_bytes && now - at < LIST_AGAIN);
        if !is_known {
            self.listed = Some((reading.used_bytes, now));
            self.processes.list(reading);
        }
        if !is_recent(self.sensors_read_at, now, SENSORS_AGAIN) {
            self.sensors_read_at = Some(now);
            reading.sensors = self.sensors();
        }
        Ok(())
    }

    fn sensors(&self) -> GpuSensors {
        let read = |file: &Option<OwnedFd>| read_number(file.as_ref()).ok().flatten();
        let scaled = |file, divisor| read(file).map(|value| value / divisor);
        let small = |file, divisor| scaled(file, divisor).and_then(|v| u32::try_from(v).ok());
        GpuSensors {
            power_milliwatts: scaled(&self.power, 1000),
            power_limit_milliwatts: scaled(&self.power_cap, 1000),
            temperature_celsius: small(&self.temperature, 1000),
            sm_clock_mhz: small(&self.sm_clock, 1_000_000),
            memory_clock_mhz: small(&self.memory_clock, 1_000_000),
            throttling: None,
            uncorrected_ecc_errors: self.errors.as_ref().and_then(uncorrected_errors),
            nvlink: None,
        }
    }
}

fn uncorrected_errors(file: &OwnedFd) -> Option<u64> {
    let mut buffer = [0; FILE_BYTES];
    labelled(read_record(file, &mut buffer).ok()?, b"ue:")
}

fn open(path: &Path) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// The number in a file; none where there is no such file or no number in it.
fn read_number(file: Option<&OwnedFd>) -> Result<Option<u64>, Errno> {
    let Some(file) = file else {
        return Ok(None);
    };
    let mut buffer = [0; FILE_BYTES];
    match read_record(file, &mut buffer) {
        Ok(text) => Ok(number(text)),
        // What this GPU does not have, or does not say while it sleeps.
        Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::INVAL | Errno::BUSY) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What its maker calls it, which only GPUs for data centres tell; else by its number.
fn name_of(folder: &Path) -> String {
    let text = |name: &str| {
        let bytes = read_kernel_file(folder.join(name)).ok()?;
        let text = String::from_utf8_lossy(bytes.trim_ascii()).into_owned();
        (!text.is_empty()).then_some(text)
    };
    let by_number = || format!("AMD GPU {}", text("device").unwrap_or_default());
    text("product_name").unwrap_or_else(|| by_number().trim_end().to_owned())
}

/// As AMD's own tools write it: `GPU-` and sixteen digits.
fn unique_id(folder: &Path) -> Option<String> {
    let text = read_kernel_file(folder.join("unique_id")).ok()?;
    let digits = text.trim_ascii();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    is_number.then(|| format!("GPU-{}", String::from_utf8_lossy(digits)))
}
