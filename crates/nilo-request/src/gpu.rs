//! GPU memory to ask for: by the driver's account of what the job held, and by PyTorch's account of its devices.
//!
//! The driver knows every process and its CUDA context, but only at the times of the readings; PyTorch knows its own peak exactly.
//! The allocator's *reserved* memory is what a job takes from a device; of it only the *allocated* part is indispensable.
//! Around it lies the context of CUDA and its libraries, known from the device's free memory as long as nobody else is on it.

use nilo_sample::units::{GIB, format_bytes};
use schemars::JsonSchema;
use serde::Serialize;

use crate::facts::{Completeness, RunFacts};
use crate::headroom::{Confidence, headroom};
use crate::rounding::{round_up_bytes, rounding_in_words};
use nilo_analysis::summary::Summary;

/// A context with its libraries is smaller than this; more on the device is somebody else's.
const LARGEST_CONTEXT_BYTES: u64 = 2 * GIB;

/// One device of one process in a run.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct GpuFacts {
    /// The device's index in its process.
    pub device: u32,
    /// Most memory taken from the device, with the context where it is known.
    pub peak_bytes: u64,
    /// Most memory held by tensors.
    pub peak_allocated_bytes: Option<u64>,
    /// The device's memory.
    pub total_bytes: Option<u64>,
}

/// What to ask for on each GPU.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct GpuRequest {
    /// Memory that a GPU should have.
    pub bytes: u64,
    /// How far this carries.
    pub confidence: Confidence,
    /// The rule in words.
    pub rule: String,
    /// The largest peak on one device.
    pub peak_bytes: u64,
    /// The largest peak of what tensors held: less than this cannot do.
    pub peak_allocated_bytes: Option<u64>,
    /// The smallest device that was used.
    pub present_bytes: Option<u64>,
    /// Devices of a run, at most.
    pub devices: u32,
}

/// The devices of a run: those on which the driver saw the job, otherwise those that PyTorch used.
pub(crate) fn gpus_of(summary: &Summary) -> Vec<GpuFacts> {
    unite(by_driver(summary), by_torch(summary))
}

fn unite(mut driver: Vec<GpuFacts>, torch: Vec<GpuFacts>) -> Vec<GpuFacts> {
    let Some(fullest) = driver.iter_mut().max_by_key(|gpu| gpu.peak_bytes) else {
        return torch;
    };
    // A process may call its devices by other numbers than the driver does, so only the fullest of both are taken for the same.
    if let Some(exact) = torch.iter().map(|gpu| gpu.peak_bytes).max() {
        fullest.peak_bytes = fullest.peak_bytes.max(exact);
    }
    fullest.peak_allocated_bytes = torch
        .iter()
        .filter_map(|gpu| gpu.peak_allocated_bytes)
        .max();
    driver
}

fn by_driver(summary: &Summary) -> Vec<GpuFacts> {
    let used = summary.gpus.iter().filter(|gpu| gpu.is_the_jobs());
    used.map(|gpu| GpuFacts {
        device: gpu.index,
        peak_bytes: gpu.peak_job_bytes.unwrap_or(0),
        peak_allocated_bytes: None,
        total_bytes: gpu.total_bytes,
    })
    .collect()
}

fn by_torch(summary: &Summary) -> Vec<GpuFacts> {
    let of_device = |device: &nilo_analysis::torch_memory::TorchMemorySummary| {
        let reserved = device.peak_reserved_bytes?;
        let on_device = device
            .device_total_bytes
            .zip(device.least_free_bytes)
            .map(|(total, free)| total.saturating_sub(free));
        let with_context =
            on_device.filter(|used| *used <= reserved.saturating_add(LARGEST_CONTEXT_BYTES));
        Some(GpuFacts {
            device: device.device,
            peak_bytes: reserved.max(with_context.unwrap_or(0)),
            peak_allocated_bytes: device.peak_allocated_bytes,
            total_bytes: device.device_total_bytes,
        })
    };
    summary.torch_memory.iter().filter_map(of_device).collect()
}

/// What runs call for on each GPU; `None` where none used one. Notes go to `notes`.
pub(crate) fn request_gpu(runs: &[RunFacts], notes: &mut Vec<String>) -> Option<GpuRequest> {
    let largest = |run: &RunFacts| run.gpus.iter().map(|gpu| gpu.peak_bytes).max();
    let whole = runs
        .iter()
        .filter(|run| run.completeness == Completeness::Whole);
    let mut peaks: Vec<f64> = whole.filter_map(largest).map(|peak| peak as f64).collect();
    let seen_whole = !peaks.is_empty();
    if !seen_whole {
        peaks = runs
            .iter()
            .filter_map(largest)
            .map(|peak| peak as f64)
            .collect();
    }
    let advice = headroom(&peaks)?;
    let devices = || runs.iter().flat_map(|run| &run.gpus);
    let peak_bytes = devices().map(|gpu| gpu.peak_bytes).max()?;
    // Runs that did not end well have their say when they took more.
    let called_for = advice.bytes.max(peak_bytes as f64).ceil() as u64;
    let bytes = round_up_bytes(called_for as f64);
    let rule = match rounding_in_words(called_for, bytes) {
        Some(rounding) => format!("{}, {rounding}", advice.rule),
        None => advice.rule,
    };
    let present_bytes = devices().filter_map(|gpu| gpu.total_bytes).min();
    if let Some(present) = present_bytes.filter(|present| *present < bytes) {
        notes.push(format!(
            "the GPUs had {}: with this headroom the job would want larger ones, or a smaller batch",
            format_bytes(present as f64)
        ));
    }
    Some(GpuRequest {
        bytes,
        confidence: if seen_whole {
            advice.confidence
        } else {
            Confidence::Guess
        },
        rule,
        peak_bytes,
        peak_allocated_bytes: devices().filter_map(|gpu| gpu.peak_allocated_bytes).max(),
        present_bytes,
        devices: runs.iter().map(distinct_devices).max().unwrap_or(0),
    })
}

/// Devices by their index: ranks that see one device each all call it 0, so this may be too few, never too many.
fn distinct_devices(run: &RunFacts) -> u32 {
    let mut devices: Vec<u32> = run.gpus.iter().map(|gpu| gpu.device).collect();
    devices.sort_unstable();
    devices.dedup();
    devices.len() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::run;

    fn device(device: u32, gib: u64) -> GpuFacts {
        GpuFacts {
            device,
            peak_bytes: gib * GIB,
            peak_allocated_bytes: Some(gib * GIB / 2),
            total_bytes: Some(80 * GIB),
        }
    }

    #[test]
    fn the_fullest_device_of_each_run_counts() {
        let with = |gpus: Vec<GpuFacts>| RunFacts {
            gpus,
            ..run("a", 1)
        };
        let runs = [
            with(vec![device(0, 10), device(1, 20)]),
            with(vec![device(0, 30), device(1, 10)]),
            with(vec![]),
        ];
        let found = request_gpu(&runs, &mut Vec::new()).unwrap();
        assert_eq!((found.bytes, found.peak_bytes), (36 * GIB, 30 * GIB));
        assert_eq!((found.devices, found.present_bytes), (2, Some(80 * GIB)));
        assert_eq!(found.peak_allocated_bytes, Some(15 * GIB));
        assert!(request_gpu(&runs[2..], &mut Vec::new()).is_none());
    }

    #[test]
    fn the_driver_says_which_devices_and_torch_knows_the_peak_between_two_readings() {
        let seen = |device: u32, gib: u64| GpuFacts {
            device,
            peak_bytes: gib * GIB,
            peak_allocated_bytes: None,
            total_bytes: Some(80 * GIB),
        };
        // Two ranks that call their device 0 each, and the driver's two devices.
        let united = unite(
            vec![seen(4, 20), seen(5, 22)],
            vec![device(0, 24), device(0, 20)],
        );
        let figures: Vec<_> = united
            .iter()
            .map(|gpu| (gpu.device, gpu.peak_bytes / GIB, gpu.peak_allocated_bytes))
            .collect();
        assert_eq!(figures, [(4, 20, None), (5, 24, Some(12 * GIB))]);
        assert_eq!(unite(vec![], vec![device(0, 24)]), [device(0, 24)]);
    }

    #[test]
    fn a_device_that_is_too_small_is_said() {
        let mut notes = Vec::new();
        let runs = [RunFacts {
            gpus: vec![device(0, 78)],
            ..run("a", 1)
        }];
        assert_eq!(request_gpu(&runs, &mut notes).unwrap().bytes, 100 * GIB);
        assert!(notes[0].contains("the GPUs had 80.00 GiB"), "{notes:?}");
    }
}
