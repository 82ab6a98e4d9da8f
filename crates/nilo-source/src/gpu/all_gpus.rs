//! The GPUs of this machine, of every maker: one list, and one way to read each.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::gpu::amd::{AmdGpus, has_amd_gpus};
use crate::gpu::driver::{GpuDriver, GpuError, NoGpus};
use crate::gpu::nvml::{NvidiaGpus, can_load};
use crate::gpu::{GpuDevice, GpuReading};

/// What the driver's package installs, and what container runtimes put into containers.
const NVIDIA_LIBRARY: &str = "libnvidia-ml.so.1";
/// Names another library; empty, no GPU is read.
const LIBRARY_VARIABLE: &str = "NILO_NVML";
/// Names another folder for `/sys`, such as that of the host in a container.
const SYSFS_VARIABLE: &str = "NILO_SYSFS";

/// Where GPUs are looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuSources {
    /// NVIDIA's library, by its path or name.
    pub nvidia_library: Option<OsString>,
    /// Where sysfs is, for AMD's GPUs.
    pub sysfs: Option<PathBuf>,
}

impl GpuSources {
    /// What the environment says, else the usual places; `None` where GPUs are turned off.
    pub fn from_environment() -> Option<GpuSources> {
        let library = std::env::var_os(LIBRARY_VARIABLE);
        if library.as_ref().is_some_and(|path| path.is_empty()) {
            return None;
        }
        let sysfs = std::env::var_os(SYSFS_VARIABLE).unwrap_or_else(|| OsString::from("/sys"));
        Some(GpuSources {
            nvidia_library: Some(library.unwrap_or_else(|| OsString::from(NVIDIA_LIBRARY))),
            sysfs: Some(PathBuf::from(sysfs)),
        })
    }

    /// NVIDIA's alone, through this library.
    pub fn nvidia(library: impl AsRef<OsStr>) -> GpuSources {
        GpuSources {
            nvidia_library: Some(library.as_ref().to_owned()),
            sysfs: None,
        }
    }

    /// AMD's alone, below this folder.
    pub fn amd(sysfs: impl AsRef<Path>) -> GpuSources {
        GpuSources {
            nvidia_library: None,
            sysfs: Some(sysfs.as_ref().to_owned()),
        }
    }

    /// Whether there may be a GPU: a failed `dlopen` and a look into a folder is all that is paid on a machine without one.
    pub(super) fn is_worth_opening(&self) -> bool {
        let has_amd = |sysfs: &PathBuf| has_amd_gpus(sysfs);
        self.nvidia_library.as_deref().is_some_and(can_load)
            || self.sysfs.as_ref().is_some_and(has_amd)
    }
}

/// The GPUs of this machine, as far as this process may see them.
pub struct Gpus {
    drivers: Vec<Box<dyn GpuDriver>>,
    devices: Vec<GpuDevice>,
    /// Of each device its driver, and its place there.
    places: Vec<(usize, usize)>,
}

impl Gpus {
    /// Opens the drivers and finds their GPUs: NVIDIA's first, AMD's numbered after them. May take seconds where a driver has to wake its GPUs.
    pub fn open(sources: &GpuSources) -> Result<Gpus, NoGpus> {
        let mut gpus = Gpus {
            drivers: Vec::new(),
            devices: Vec::new(),
            places: Vec::new(),
        };
        let mut reason = None;
        if let Some(library) = &sources.nvidia_library {
            match NvidiaGpus::open(library) {
                Ok(nvidia) => gpus.add(Box::new(nvidia)),
                Err(error) => reason = Some(error),
            }
        }
        if let Some(sysfs) = &sources.sysfs {
            let highest = gpus.devices.iter().map(|device| device.index).max();
            let first_index = highest.map_or(0, |index| index + 1);
            gpus.add(Box::new(AmdGpus::open(sysfs, first_index)));
        }
        if !gpus.devices.is_empty() {
            return Ok(gpus);
        }
        Err(reason.unwrap_or_else(|| NoGpus::NoDriver {
            reason: "no GPU was found".to_owned(),
        }))
    }

    fn add(&mut self, driver: Box<dyn GpuDriver>) {
        let number = self.drivers.len();
        let places = (0..driver.devices().len()).map(|place| (number, place));
        self.places.extend(places);
        self.devices.extend_from_slice(driver.devices());
        self.drivers.push(driver);
    }

    /// Every GPU, in the order of the readings.
    pub fn devices(&self) -> &[GpuDevice] {
        &self.devices
    }

    /// Reads the GPU at this place of [`Gpus::devices`] into the reading that was taken of it before:
    /// what changes seldom (the list of processes, sensors) stays in it until it is due.
    pub fn read(&mut self, place: usize, reading: &mut GpuReading) -> Result<(), GpuError> {
        let known = self.places.get(place).copied();
        let driver = known.and_then(|(driver, place)| Some((self.drivers.get_mut(driver)?, place)));
        match driver {
            Some((driver, place)) => driver.read(place, reading),
            None => Err(GpuError {
                reason: format!("there is no GPU at place {place}"),
            }),
        }
    }
}
