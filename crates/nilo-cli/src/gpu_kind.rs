//! GPUs as they are typed: by name, or by their memory.

use nilo_model::gpus::{GpuKind, GpuNameError, find_gpu};

use crate::args::gpu_memory;
use crate::failure::Failure;

/// GPUs of a table for which none were named: of each size that is common, one.
const COMMON: [&str; 6] = ["T4", "RTX 4090", "A100 40GB", "L40S", "H100 SXM", "H200"];

/// A GPU by its name, or by its memory.
pub(crate) fn named_gpu(name: &str) -> Result<GpuKind, Failure> {
    if let Some(bytes) = gpu_memory(name) {
        return Ok(GpuKind::of_memory(name, bytes));
    }
    find_gpu(name).map_err(|error| match &error {
        GpuNameError::Unknown { name, .. } => Failure::new(format!("no GPU {name:?} is known"))
            .hint("`nilo fit --list` lists all GPUs; a memory such as 24GiB will do as well"),
        GpuNameError::Ambiguous { .. } => Failure::new(&error).hint("name one of them"),
    })
}

/// Those for a table.
pub(crate) fn common_gpus() -> Result<Vec<GpuKind>, Failure> {
    COMMON.iter().map(|name| named_gpu(name)).collect()
}
