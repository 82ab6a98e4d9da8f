//! Allocations of a traced program through the allocator model: the native half of `nilometer.fit`.

use nilo_allocator::model::AllocatorSettings;
use nilo_allocator::replay::{TapeEvent, replay_tape};
use pyo3::prelude::*;

use crate::errors::value_error;

/// The most bytes allocated, the event that led there, the most bytes reserved, the event that led there.
///
/// An event is the number of an allocation with its size, or the negative of a number to free it.
#[pyfunction]
#[pyo3(signature = (ids, sizes, *, expandable_segments=false))]
pub(crate) fn replay_allocations(
    py: Python<'_>,
    ids: Vec<i64>,
    sizes: Vec<u64>,
    expandable_segments: bool,
) -> PyResult<(u64, usize, u64, usize)> {
    if ids.len() != sizes.len() {
        return Err(value_error(format!(
            "{} ids for {} sizes",
            ids.len(),
            sizes.len()
        )));
    }
    let settings = AllocatorSettings {
        expandable_segments,
        ..AllocatorSettings::default()
    };
    let peaks = py.detach(|| {
        let events = ids.iter().zip(&sizes).map(|(id, bytes)| {
            let number = id.unsigned_abs();
            match *id > 0 {
                true => TapeEvent::Allocate {
                    id: number,
                    bytes: *bytes,
                },
                false => TapeEvent::Free { id: number },
            }
        });
        replay_tape(events, settings)
    });
    let peaks = peaks.map_err(|error| value_error(error.to_string()))?;
    Ok((
        peaks.allocated_bytes,
        peaks.allocated_at,
        peaks.reserved_bytes,
        peaks.reserved_at,
    ))
}
