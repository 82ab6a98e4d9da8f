//! All five parts of `nilo gpu` in one answer.

use nilo_model::catalogue::KnownModel;
use nilo_model::gpus::GpuKind;
use schemars::JsonSchema;
use serde::Serialize;

use super::compatibility::GpuCompatibility;
use super::devices::{GpuMemoryNow, ListedGpu};
use super::requirements::{ModelRequirement, requirements};
use super::throughput::GpuThroughput;

/// The value of [`GpuAnswer::schema`].
pub const GPU_SCHEMA: &str = "nilo.gpu/1";

/// What a GPU is, does and has room for.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct GpuAnswer {
    /// `nilo.gpu/1`.
    #[schemars(extend("const" = GPU_SCHEMA))]
    pub schema: &'static str,
    /// When it was made, in local time: `2026-11-15T07:55:30`.
    pub timestamp: String,
    /// The index of the GPU that memory, throughput and compatibility are about; `null` where it is none of this machine.
    pub device: Option<u32>,
    /// All GPUs of this machine; empty where none was found, or where another GPU was asked about.
    pub gpu_info: Vec<ListedGpu>,
    /// Why there are none.
    pub no_gpu_info: Option<String>,
    /// Memory in use on the device.
    pub memory: Option<GpuMemoryNow>,
    /// Why it is not known.
    pub no_memory: Option<String>,
    /// What models take, at batch 1 with 512 tokens.
    pub model_requirements: Vec<ModelRequirement>,
    /// What the device was measured to do.
    pub throughput: Option<GpuThroughput>,
    /// Why it was not measured.
    pub no_throughput: Option<String>,
    /// Which models fit: the device, the GPU that was asked about, or common GPUs where there is none.
    pub compatibility: Vec<GpuCompatibility>,
    /// What was assumed, and what is not known.
    pub notes: Vec<String>,
}

/// What was found out about the GPUs of this machine; a part that is absent has a sentence that says why.
#[derive(Debug, Clone)]
pub struct MachineGpus {
    /// When, in local time.
    pub timestamp: String,
    /// The GPU that was looked at.
    pub device: Option<u32>,
    /// All GPUs.
    pub gpu_info: Result<Vec<ListedGpu>, String>,
    /// Memory in use on the device.
    pub memory: Result<GpuMemoryNow, String>,
    /// What it was measured to do.
    pub throughput: Result<GpuThroughput, String>,
    /// What is not known.
    pub notes: Vec<String>,
}

impl GpuAnswer {
    /// Models beside these kinds of GPUs, after what was found on the machine. No models are all of the catalogue.
    pub fn of(machine: MachineGpus, models: &[KnownModel], kinds: &[GpuKind]) -> Self {
        let (model_requirements, problems) = match kinds.first() {
            Some(kind) => requirements(models, kind),
            None => (Vec::new(), Vec::new()),
        };
        let free = machine
            .memory
            .as_ref()
            .ok()
            .and_then(|memory| memory.free_bytes);
        let free = free.filter(|_| machine.device.is_some() && kinds.len() == 1);
        let compatibility = kinds
            .iter()
            .map(|kind| GpuCompatibility::of(&model_requirements, kind, free, kinds.len() == 1))
            .collect();
        let mut notes = machine.notes;
        notes.extend(problems);
        let (gpu_info, no_gpu_info) = told(machine.gpu_info);
        let (memory, no_memory) = told(machine.memory);
        let (throughput, no_throughput) = told(machine.throughput);
        Self {
            schema: GPU_SCHEMA,
            timestamp: machine.timestamp,
            device: machine.device,
            gpu_info: gpu_info.unwrap_or_default(),
            no_gpu_info,
            memory,
            no_memory,
            model_requirements,
            throughput,
            no_throughput,
            compatibility,
            notes,
        }
    }
}

fn told<T>(found: Result<T, String>) -> (Option<T>, Option<String>) {
    match found {
        Ok(found) => (Some(found), None),
        Err(why) => (None, Some(why)),
    }
}
