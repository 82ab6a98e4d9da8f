//! Which of the driver's GPUs the devices are that PyTorch counts.
//!
//! PyTorch's indices are those of one program: `CUDA_VISIBLE_DEVICES` hides and reorders devices, and the program may set it itself after its start, so the environment proves nothing.
//! Certain is only what leaves no choice: the job was on a single GPU. Anything else has no answer here rather than a wrong one.

use std::collections::HashMap;

use nilo_sample::{RecordedTable, Recording, Subject};

use crate::gpus::GpuSummary;

/// CUDA counts up to this share less than the driver, which keeps some memory for itself.
const LEAST_TOTAL_SHARE: f64 = 0.9;

/// The GPU that everything PyTorch counts is on, with those tables; nothing where that is not certain.
pub(crate) fn only_gpu<'a>(
    recording: &'a Recording,
    gpus: &[GpuSummary],
) -> Option<(u32, Vec<&'a RecordedTable>)> {
    let mut devices: HashMap<String, u32> = HashMap::new();
    let mut tables = Vec::new();
    for table in &recording.tables {
        let Subject::TorchMemory { device, .. } = table.spec.subject else {
            continue;
        };
        let reserved = table.series("reserved_bytes").and_then(|s| s.max());
        if reserved.is_none_or(|(_, most)| most <= 0.0) {
            continue;
        }
        // Two devices of one program are two GPUs.
        if *devices.entry(table.program()).or_insert(device) != device {
            return None;
        }
        tables.push(table);
    }
    let gpu = match gpus {
        [only] => only,
        several => {
            let is_known = |gpu: &GpuSummary| gpu.peak_job_bytes.is_some();
            let mut of_job = several.iter().filter(|gpu| gpu.is_the_jobs());
            let (only, further) = (of_job.next()?, of_job.next());
            (further.is_none() && several.iter().all(is_known)).then_some(only)?
        }
    };
    let has_its_size = |table: &&RecordedTable| {
        let told = table
            .series("device_total_bytes")
            .and_then(|total| total.last());
        match (told, gpu.total_bytes) {
            (Some(told), Some(total)) => {
                (LEAST_TOTAL_SHARE * total as f64..=total as f64).contains(&told)
            }
            _ => true,
        }
    };
    let is_plain = !tables.is_empty() && tables.iter().all(has_its_size);
    is_plain.then_some((gpu.index, tables))
}
