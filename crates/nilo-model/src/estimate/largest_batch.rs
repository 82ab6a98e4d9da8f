//! The largest batch that fits.

use super::estimated::{EstimateError, estimate};
use super::range::ByteRange;
use super::settings::EstimateSettings;
use crate::config::ModelShape;
use crate::gpus::GpuKind;

/// Batches beyond this are not looked at.
pub const LARGEST_BATCH: u64 = 1 << 20;

/// The largest batches for a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargestBatch {
    /// Fits even if the estimate is too low by as much as it may be; 0 where not even one sequence does.
    pub surely: u64,
    /// Fits if the estimate is right.
    pub expected: u64,
}

/// Finds both by trying: memory grows with the batch.
pub fn largest_batch(
    shape: &ModelShape,
    settings: &EstimateSettings,
    gpu: &GpuKind,
) -> Result<LargestBatch, EstimateError> {
    let mut tried = std::collections::BTreeMap::new();
    let mut process = |batch: u64| -> Result<ByteRange, EstimateError> {
        if let Some(known) = tried.get(&batch) {
            return Ok(*known);
        }
        let settings = EstimateSettings {
            batch,
            ..settings.clone()
        };
        let found = estimate(shape, &settings, gpu)?.process;
        tried.insert(batch, found);
        Ok(found)
    };
    let expected = last_that_fits(&mut |batch| Ok(process(batch)?.expected <= gpu.memory_bytes))?;
    let surely = last_that_fits(&mut |batch| {
        Ok(batch <= expected && process(batch)?.high <= gpu.memory_bytes)
    })?;
    Ok(LargestBatch { surely, expected })
}

/// Doubles until it does not fit, then halves the distance.
fn last_that_fits(
    fits: &mut dyn FnMut(u64) -> Result<bool, EstimateError>,
) -> Result<u64, EstimateError> {
    let mut low = 0;
    let mut high = 1;
    while high <= LARGEST_BATCH && fits(high)? {
        low = high;
        high *= 2;
    }
    if high > LARGEST_BATCH {
        return Ok(LARGEST_BATCH);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match fits(middle)? {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(low)
}
