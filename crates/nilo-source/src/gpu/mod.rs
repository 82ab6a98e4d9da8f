//! GPUs, as NVIDIA's driver counts: memory of the device and of each process on it, and how busy it is.
//!
//! `nvml.rs` asks the driver's library, which is loaded at run time; `reader.rs` does so on a thread of its own, because the driver may take seconds to answer or never do;
//! `owners.rs` tells which of the named processes belong to a job, across PID namespaces; `family.rs` knows the processes of the program that we are part of; `visible.rs` reads `CUDA_VISIBLE_DEVICES`.
//!
//! Three different figures are all called GPU memory: what tensors hold, what PyTorch's allocator has taken, and what the device is short of.
//! This is the third, and the share of it that a process holds: its CUDA context (some hundred MiB) and everything it allocated, cached or not.

mod family;
mod nvml;
mod owners;
mod reader;
mod visible;

pub use family::ProcessSubtree;
pub use nvml::{GpuError, Gpus, NoGpus};
pub use owners::{GpuOwners, GpuShare};
pub use reader::{GpuReader, GpuStage, GpuView};
pub use visible::{CudaView, cuda_view, cuda_view_of};

/// A GPU, or a part of one that is divided (MIG).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuDevice {
    /// The driver's index; parts of divided GPUs are numbered on from the last GPU.
    pub index: u32,
    /// What its maker calls it.
    pub name: String,
    /// `GPU-…`, or `MIG-…` for a part.
    pub uuid: String,
    /// All its memory; `None` where it shares that of the host.
    pub total_bytes: Option<u64>,
    /// What the driver keeps for itself.
    pub reserved_bytes: Option<u64>,
    /// The driver's index of the divided GPU that this is a part of.
    pub part_of: Option<u32>,
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
}

/// A process that has a CUDA context on a GPU.
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
        } = source;
        self.used_bytes = *used_bytes;
        self.free_bytes = *free_bytes;
        self.total_bytes = *total_bytes;
        self.utilization_percent = *utilization_percent;
        match (&mut self.processes, processes) {
            (Some(own), Some(others)) => own.clone_from(others),
            (own, others) => *own = others.clone(),
        }
    }
}
