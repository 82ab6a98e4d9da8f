//! NVML, the library of NVIDIA's driver: loaded at run time, asked directly, never through `nvidia-smi`.
//!
//! Whoever has no driver pays for one failed `dlopen`.
//! Once loaded it stays until the process ends: unloading it while some thread is still in a call would be fatal, and nothing is gained by it.
//!
//! Values that mean "not known" are sorted out here: `NOT_SUPPORTED` and `NO_PERMISSION`, a process of 2^64-1 bytes, one of zero bytes
//! (drivers that look a translated PID up as one of the host find nothing; a CUDA context is never empty), and one of more than the device has.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{MemoryInfo, ProcessInfo};
use nvml_wrapper::{Device, Nvml};

use crate::gpu::driver::{GpuDriver, GpuError, NoGpus};
use crate::gpu::nvml_sensors::NvmlSensors;
use crate::gpu::{GpuDevice, GpuMaker, GpuProcess, GpuReading};

/// The list of processes is asked for when the used memory has changed, and after this long.
const LIST_AGAIN: Duration = Duration::from_secs(1);
/// The value of MIG mode that means that a GPU is divided.
const MIG_ENABLED: u32 = 1;

/// NVIDIA's GPUs, as far as this process may see them.
pub(super) struct NvidiaGpus {
    opened: Vec<OpenDevice>,
    devices: Vec<GpuDevice>,
    driver_version: Option<String>,
}

struct OpenDevice {
    device: Device<'static>,
    /// The used memory when the processes were last listed, and when that was.
    listed: Option<(Option<u64>, Instant)>,
    sensors: NvmlSensors,
}

/// Whether the library is there: the one thing that is paid on a machine without a driver.
pub(super) fn can_load(library: &OsStr) -> bool {
    let Ok(path) = CString::new(library.as_bytes()) else {
        return false;
    };
    // SAFETY: the path is a valid string. Loading runs the library's initializers, which is what the user of a driver wants.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    !handle.is_null()
}

impl NvidiaGpus {
    /// Loads the driver's library, by its path or name, and finds its GPUs. May take seconds where the driver has to wake them.
    pub(super) fn open(library: &OsStr) -> Result<NvidiaGpus, NoGpus> {
        let nvml = match Nvml::builder().lib_path(library).init() {
            Err(NvmlError::FailedToLoadSymbol(_)) => {
                let reason = format!("{} is another library", library.display());
                return Err(NoGpus::Broken { reason });
            }
            nvml => nvml.map_err(why_not)?,
        };
        let nvml: &'static Nvml = Box::leak(Box::new(nvml));
        let count = nvml.device_count().map_err(why_not)?;
        let mut gpus = NvidiaGpus {
            opened: Vec::new(),
            devices: Vec::new(),
            driver_version: nvml.sys_driver_version().ok(),
        };
        let mut refused = None;
        let mut parts = Vec::new();
        for index in 0..count {
            match nvml.device_by_index(index) {
                Ok(device) if is_divided(&device) => parts.extend(parts_of(&device, index)),
                Ok(device) => gpus.add(device, index, None)?,
                // A GPU that fell off the bus or belongs to others; the rest can still be read.
                Err(error) => refused = Some(error),
            }
        }
        for (running, (part, parent)) in parts.into_iter().enumerate() {
            gpus.add(part, count + running as u32, Some(parent))?;
        }
        match (gpus.devices.is_empty(), refused) {
            (false, _) => Ok(gpus),
            (true, Some(error)) => Err(why_not(error)),
            (true, None) => Err(NoGpus::NoDriver {
                reason: "the driver has no GPU".to_owned(),
            }),
        }
    }

    fn add(
        &mut self,
        device: Device<'static>,
        index: u32,
        part_of: Option<u32>,
    ) -> Result<(), NoGpus> {
        let memory = match device.memory_info() {
            Err(error @ NvmlError::FailedToLoadSymbol(_)) => return Err(why_not(error)),
            memory => memory.ok().filter(is_plausible),
        };
        self.devices.push(GpuDevice {
            index,
            name: device
                .name()
                .unwrap_or_else(|_| "a GPU without a name".to_owned()),
            uuid: device.uuid().unwrap_or_default(),
            maker: GpuMaker::Nvidia,
            total_bytes: memory.as_ref().map(|memory| memory.total),
            reserved_bytes: memory.as_ref().map(|memory| memory.reserved),
            part_of,
            compute_capability: capability_of(&device),
            driver_version: self.driver_version.clone(),
        });
        self.opened.push(OpenDevice {
            device,
            listed: None,
            sensors: NvmlSensors::default(),
        });
        Ok(())
    }
}

impl GpuDriver for NvidiaGpus {
    fn devices(&self) -> &[GpuDevice] {
        &self.devices
    }

    /// 8 µs a call of the driver: two for memory and utilization, two for the list of processes where it is due, and once a second those of [`NvmlSensors`].
    /// The list of processes stays when the used memory has not changed for less than a second.
    fn read(&mut self, place: usize, reading: &mut GpuReading) -> Result<(), GpuError> {
        let Some(opened) = self.opened.get_mut(place) else {
            return Err(GpuError {
                reason: format!("there is no GPU at place {place}"),
            });
        };
        let memory = match opened.device.memory_info() {
            Ok(memory) => Some(memory).filter(is_plausible),
            Err(NvmlError::NotSupported | NvmlError::NoPermission) => None,
            Err(error) => {
                opened.listed = None;
                opened.sensors.forget();
                return Err(GpuError {
                    reason: in_words(&error),
                });
            }
        };
        reading.used_bytes = memory.as_ref().map(|memory| memory.used);
        reading.free_bytes = memory.as_ref().map(|memory| memory.free);
        reading.total_bytes = memory.as_ref().map(|memory| memory.total);
        let utilization = opened.device.utilization_rates().ok();
        reading.utilization_percent = utilization.map(|rates| rates.gpu.min(100));
        let is_known = opened
            .listed
            .is_some_and(|(used, at)| used == reading.used_bytes && at.elapsed() < LIST_AGAIN);
        if !is_known {
            opened.listed = Some((reading.used_bytes, Instant::now()));
            list_processes(&opened.device, reading);
        }
        opened.sensors.read(&opened.device, reading);
        Ok(())
    }
}

fn list_processes(device: &Device<'_>, reading: &mut GpuReading) {
    let list = match device.running_compute_processes() {
        // Somebody came between counting and listing.
        Err(NvmlError::InsufficientSize(_)) => device.running_compute_processes(),
        list => list,
    };
    let Ok(list) = list else {
        reading.processes = None;
        return;
    };
    let largest = reading.total_bytes.unwrap_or(u64::MAX);
    let processes = reading.processes.get_or_insert_default();
    processes.clear();
    processes.extend(list.iter().map(|process| GpuProcess {
        pid: process.pid,
        bytes: known_bytes(process).filter(|bytes| *bytes <= largest),
    }));
}

fn known_bytes(process: &ProcessInfo) -> Option<u64> {
    match process.used_gpu_memory {
        UsedGpuMemory::Used(bytes) if bytes > 0 => Some(bytes),
        _ => None,
    }
}

fn is_plausible(memory: &MemoryInfo) -> bool {
    memory.total > 0 && memory.used <= memory.total
}

fn capability_of(device: &Device<'_>) -> Option<(u32, u32)> {
    let told = device.cuda_compute_capability().ok()?;
    Some((told.major.try_into().ok()?, told.minor.try_into().ok()?))
}

fn is_divided(device: &Device<'_>) -> bool {
    device
        .mig_mode()
        .is_ok_and(|mode| mode.current == MIG_ENABLED)
}

/// The parts of a divided GPU with its index; places may be empty.
fn parts_of(device: &Device<'static>, index: u32) -> Vec<(Device<'static>, u32)> {
    let places = device.mig_device_count().unwrap_or(0);
    let parts = (0..places).filter_map(|place| device.mig_device_by_index(place).ok());
    parts.map(|part| (part, index)).collect()
}

fn why_not(error: NvmlError) -> NoGpus {
    let reason = in_words(&error);
    match error {
        NvmlError::LibloadingError(_)
        | NvmlError::LibraryNotFound
        | NvmlError::DriverNotLoaded
        | NvmlError::NotFound => NoGpus::NoDriver { reason },
        _ => NoGpus::Broken { reason },
    }
}

pub(super) fn in_words(error: &NvmlError) -> String {
    match error {
        NvmlError::GpuLost => "it has fallen off the bus".to_owned(),
        NvmlError::ResetRequired => "it must be reset before it can be used again".to_owned(),
        NvmlError::LibRmVersionMismatch => {
            "its library and its kernel module are of different versions".to_owned()
        }
        NvmlError::FailedToLoadSymbol(_) => "it is older than version 510".to_owned(),
        NvmlError::Unknown => "it gives no reason".to_owned(),
        error => error.to_string(),
    }
}
