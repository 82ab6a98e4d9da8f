//! Which GPUs there are, asked before and after a measurement.

use std::sync::Arc;
use std::time::Duration;

use nilo_source::gpu::{GpuDevice, GpuReader, GpuStage, GpuView};

use crate::failure::Failure;

/// Opening the driver may have to wake its GPUs.
const LONGEST_OPENING: Duration = Duration::from_secs(15);
/// After a measurement it has had its time.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// Refuses GPUs that are not there.
pub(crate) fn check_devices(wanted: &[u32]) -> Result<(), Failure> {
    if wanted.is_empty() {
        return Ok(());
    }
    let gpus = known_gpus(LONGEST_OPENING).map_err(|reason| {
        Failure::new(reason).hint("leave out --devices to measure everything but GPUs")
    })?;
    let is_known = |index: &u32| gpus.iter().any(|gpu| gpu.index == *index);
    let Some(missing) = wanted.iter().find(|index| !is_known(index)) else {
        return Ok(());
    };
    let names: Vec<String> = gpus
        .iter()
        .map(|gpu| format!("{} ({})", gpu.index, gpu.name))
        .collect();
    Err(Failure::new(format!("there is no GPU {missing}"))
        .hint(format!("--devices takes {}", names.join(", "))))
}

/// A sentence where there is no GPU to be read; asked after a measurement.
pub(crate) fn why_no_gpus() -> Option<String> {
    known_gpus(LAST_WAIT).err()
}

/// The GPUs with their first reading, or a sentence where there are none.
pub(crate) fn read_gpus() -> Result<GpuView, String> {
    opened(LONGEST_OPENING)
}

fn known_gpus(longest: Duration) -> Result<Arc<[GpuDevice]>, String> {
    opened(longest).map(|view| view.devices)
}

fn opened(longest: Duration) -> Result<GpuView, String> {
    let none = || "no NVIDIA or AMD GPU found".to_owned();
    let reader = GpuReader::of_this_process().ok_or_else(none)?;
    let mut view = GpuView::default();
    reader.look(&mut view);
    if view.stage == GpuStage::Opening {
        reader.wait(longest);
        reader.look(&mut view);
    }
    match &view.stage {
        GpuStage::Open if view.devices.is_empty() => Err(none()),
        GpuStage::Open => Ok(view),
        GpuStage::Opening => Err("the GPU driver is not responding".to_owned()),
        GpuStage::Absent(reason) => Err(reason.to_string()),
    }
}
