//! The arrays that a batch goes into.

use nilo_buffer::{BatchTargets, ElementKind};
use pyo3::prelude::*;

use super::arrays::ArrayMemory;

/// Observations and next observations.
pub(super) type Pairs<'py> = Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>;

pub(super) fn memories(arrays: &[Bound<'_, PyAny>]) -> PyResult<Vec<ArrayMemory>> {
    arrays.iter().map(ArrayMemory::of).collect()
}

pub(super) fn pairs(arrays: &Pairs<'_>) -> PyResult<Vec<(ArrayMemory, ArrayMemory)>> {
    arrays
        .iter()
        .map(|(now, next)| Ok((ArrayMemory::of(now)?, ArrayMemory::of(next)?)))
        .collect()
}

/// The arrays of a batch.
pub(super) struct BatchMemory {
    observations: Vec<(ArrayMemory, ArrayMemory)>,
    columns: Vec<ArrayMemory>,
    /// Rewards, terminated, truncated, discounts.
    returns: Vec<ArrayMemory>,
}

impl BatchMemory {
    pub(super) fn of(
        observations: &Pairs<'_>,
        columns: &[Bound<'_, PyAny>],
        returns: &[Bound<'_, PyAny>; 4],
    ) -> PyResult<BatchMemory> {
        let returns = returns
            .iter()
            .map(|array| ArrayMemory::of(array)?.expect(ElementKind::F32));
        Ok(BatchMemory {
            observations: pairs(observations)?,
            columns: memories(columns)?,
            returns: returns.collect::<PyResult<_>>()?,
        })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &ArrayMemory> {
        let observations = self.observations.iter().flat_map(|(now, next)| [now, next]);
        observations.chain(&self.columns).chain(&self.returns)
    }

    /// # Safety
    /// Nobody else uses the arrays meanwhile, and they do not overlap.
    pub(super) unsafe fn targets(&self) -> BatchTargets<'_> {
        // SAFETY: as said above; the kinds of the returns were checked, and bytes fit any kind.
        unsafe {
            BatchTargets {
                observations: self
                    .observations
                    .iter()
                    .map(|(now, next)| (now.items_mut(), next.items_mut()))
                    .collect(),
                columns: self
                    .columns
                    .iter()
                    .map(|column| column.items_mut())
                    .collect(),
                rewards: self.returns[0].items_mut(),
                terminated: self.returns[1].items_mut(),
                truncated: self.returns[2].items_mut(),
                discounts: self.returns[3].items_mut(),
            }
        }
    }
}
