//! GPUs, as their drivers count: memory of the device and of each process on it, how busy it is, what its sensors say.
//!
//! `driver.rs` says what a maker's file offers, and `all_gpus.rs` makes one list of all makers' GPUs.
//! `nvml.rs` asks NVIDIA's library, which is loaded at run time, and `nvml_sensors.rs` for power, temperature and clocks;
//! `amd.rs` reads the files of AMD's driver, and `amd_processes.rs` who computes there.
//! `reader.rs` asks on a thread of its own, because a driver may take seconds to answer or never do;
//! `owners.rs` tells which of the named processes belong to a job, across PID namespaces, and `holders.rs` who holds memory on which GPU at one moment; `family.rs` knows the processes of the program that we are part of;
//! `visible.rs` reads `CUDA_VISIBLE_DEVICES`, and `hip_view.rs` what AMD has in its place.
//!
//! Three different figures are all called GPU memory: what tensors hold, what PyTorch's allocator has taken, and what the device is short of.
//! This is the third, and the share of it that a process holds: its CUDA context (some hundred MiB) and everything it allocated, cached or not.

mod all_gpus;
mod amd;
mod amd_processes;
mod driver;
mod family;
mod hip_view;
mod holders;
mod nvml;
mod nvml_links;
mod nvml_sensors;
mod owners;
mod reader;
mod sensors;
mod visible;

pub use all_gpus::{GpuSources, Gpus};
pub use driver::{GpuError, NoGpus};
pub use family::ProcessSubtree;
pub use holders::{GpuMemoryHolder, GpuMemoryHolders};
pub use owners::{GpuOwners, GpuShare};
pub use reader::{GpuReader, GpuStage, GpuView};
pub use sensors::{GpuSensors, GpuThrottling, NvlinkTraffic};
pub use visible::{CudaView, VISIBILITY_VARIABLES, cuda_view, cuda_view_of};

/// Who made a GPU, and so whose variables hide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuMaker {
    /// NVIDIA.
    #[default]
    Nvidia,
    /// AMD.
    Amd,
}

/// A GPU, or a part of one that is divided (MIG).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuDevice {
    /// The driver's index; parts of divided GPUs are numbered on from the last GPU, and AMD's from the last of NVIDIA's.
    pub index: u32,
    /// What its maker calls it.
    pub name: String,
    /// `GPU-…`, or `MIG-…` for a part; the place on the bus where a GPU has none.
    pub uuid: String,
    /// Who made it.
    pub maker: GpuMaker,
    /// All its memory; `None` where it shares that of the host.
    pub total_bytes: Option<u64>,
    /// What the driver keeps for itself.
    pub reserved_bytes: Option<u64>,
    /// The driver's index of the divided GPU that this is a part of.
    pub part_of: Option<u32>,
    /// Major and minor CUDA compute capability.
    pub compute_capability: Option<(u32, u32)>,
    /// The version of its driver.
    pub driver_version: Option<String>,
}

/// What a GPU says of itself; `None` where its driver does not tell.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct GpuReading {
    /// Held by all processes together.
    pub used_bytes: Option<u64>,
    /// Held by nobody.
    pub free_bytes: Option<u64>,
    /// Both, and what the driver keeps for itself.
    pub total_bytes: Option<u64>,
    /// Share of the last sampling period in which some kernel ran.
    pub utilization_percent: Option<u32>,
    /// Who computes on it.
    pub processes: Option<Vec<GpuProcess>>,
    /// Power, temperature, clocks: read less often than memory, so up to a second old.
    pub sensors: GpuSensors,
    /// Why one of the sensors that it has could not be read.
    pub sensor_failure: Option<String>,
}

/// A process that computes on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuProcess {
    /// In the PID namespace that the driver has in mind: that of the machine, or with later drivers that of the asker.
    pub pid: u32,
    /// What it holds of the GPU's memory, where the driver tells.
    pub bytes: Option<u64>,
}

impl Clone for GpuReading {
    fn clone(&self) -> GpuReading {
        let mut copy = GpuReading::default();
        copy.clone_from(self);
        copy
    }

    /// Reuses the list, so that copying a reading on each tick allocates nothing.
    fn clone_from(&mut self, source: &GpuReading) {
        let GpuReading {
            used_bytes,
            free_bytes,
            total_bytes,
            utilization_percent,
            processes,
            sensors,
            sensor_failure,
        } = source;
        self.used_bytes = *used_bytes;
        self.free_bytes = *free_bytes;
        self.total_bytes = *total_bytes;
        self.utilization_percent = *utilization_percent;
        self.sensors = *sensors;
        self.sensor_failure.clone_from(sensor_failure);
        match (&mut self.processes, processes) {
            (Some(own), Some(others)) => own.clone_from(others),
            (own, others) => *own = others.clone(),
        }
    }
}
