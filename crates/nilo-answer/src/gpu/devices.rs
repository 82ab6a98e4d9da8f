//! The GPUs of a machine, and the memory that is in use on one of them.

use nilo_model::gpus::{GpuKind, find_gpu};
use schemars::JsonSchema;
use serde::Serialize;

/// A GPU of this machine.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ListedGpu {
    /// The driver's index, as in `nvidia-smi`.
    pub index: u32,
    /// What its maker calls it.
    pub name: String,
    /// `GPU-…`, or `MIG-…` for a part of a divided GPU.
    pub uuid: String,
    /// All its memory; `null` where it shares that of the host.
    pub total_bytes: Option<u64>,
    /// What the driver keeps for itself.
    pub reserved_bytes: Option<u64>,
    /// CUDA compute capability, such as `9.0`.
    pub compute_capability: Option<String>,
    /// The version of the driver.
    pub driver_version: Option<String>,
}

/// Memory in use on a GPU.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct GpuMemoryNow {
    /// Everything, with what the driver keeps for itself.
    pub total_bytes: Option<u64>,
    /// Held by all processes together.
    pub used_bytes: Option<u64>,
    /// Held by nobody.
    pub free_bytes: Option<u64>,
    /// Share of the last moments in which some kernel ran.
    pub utilization_percent: Option<u32>,
    /// Processes that hold memory, the most first; `null` where the driver does not tell.
    pub processes: Option<Vec<GpuMemoryUser>>,
}

/// A process that holds memory of a GPU.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct GpuMemoryUser {
    /// PID, where the driver's numbers are those of this machine.
    pub pid: Option<u32>,
    /// Its command line, where the process is in sight.
    pub command: Option<String>,
    /// What it holds, its CUDA context included; `null` where the driver does not tell.
    pub used_bytes: Option<u64>,
}

/// Of two GPUs of the same name, such as both kinds of RTX 3080, one has this much more memory; drivers' figures differ by less.
const LARGEST_DIFFERENCE: f64 = 0.12;

impl ListedGpu {
    /// What programs can have of its memory.
    pub fn available_bytes(&self) -> Option<u64> {
        let reserved = self.reserved_bytes.unwrap_or(0);
        self.total_bytes.map(|total| total.saturating_sub(reserved))
    }

    /// What its maker says of this kind of GPU, where the catalogue has it.
    pub fn nominal(&self) -> Option<GpuKind> {
        let available = self.available_bytes()?;
        let kind = find_gpu(&self.name).ok()?;
        let difference = (available as f64 / kind.memory_bytes as f64 - 1.0).abs();
        (difference <= LARGEST_DIFFERENCE).then_some(kind)
    }

    /// The kind of GPU that models are compared with: this one's memory and capability.
    pub fn kind(&self) -> Option<GpuKind> {
        let available = self.available_bytes()?;
        let mut kind = match self.nominal() {
            Some(kind) => kind,
            None => GpuKind::of_memory(&self.name, available),
        };
        kind.name.clone_from(&self.name);
        kind.memory_bytes = available;
        if let Some(capability) = self.capability() {
            kind.capability = capability;
        }
        Some(kind)
    }

    fn capability(&self) -> Option<(u32, u32)> {
        let (major, minor) = self.compute_capability.as_ref()?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn gpu(name: &str, total_bytes: u64) -> ListedGpu {
        ListedGpu {
            index: 0,
            name: name.to_owned(),
            uuid: "GPU-a".to_owned(),
            total_bytes: Some(total_bytes),
            reserved_bytes: Some(GIB / 2),
            compute_capability: Some("7.5".to_owned()),
            driver_version: None,
        }
    }

    #[test]
    fn a_gpu_has_its_own_memory_and_the_catalogues_rates() {
        let kind = gpu("Tesla T4", 15 * GIB).kind().unwrap();
        assert_eq!(kind.memory_bytes, 15 * GIB - GIB / 2);
        assert_eq!(kind.capability, (7, 5));
        assert_eq!(kind.bandwidth_bytes_per_sec, Some(320e9));
    }

    #[test]
    fn a_gpu_of_a_known_name_with_other_memory_is_of_another_kind() {
        assert!(gpu("NVIDIA GeForce RTX 3080", 10 * GIB).nominal().is_some());
        assert!(gpu("NVIDIA GeForce RTX 3080", 12 * GIB).nominal().is_none());
        let kind = gpu("Fake G16", 16 * GIB).kind().unwrap();
        assert_eq!(
            (kind.name.as_str(), kind.bandwidth_bytes_per_sec),
            ("Fake G16", None)
        );
    }
}
