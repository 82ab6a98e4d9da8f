//! Rotary positions: tables of cosines and sines, made once for all layers.

use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Tensor};

/// Cosines and sines of positions.
#[derive(Debug, Clone)]
pub(crate) struct RotaryTables {
    pub(crate) cosine: Tensor,
    pub(crate) sine: Tensor,
}

impl RotaryTables {
    /// For so many positions and numbers of a head.
    pub(crate) fn new(session: &DryRun, positions: u64, numbers: u64, dtype: Dtype) -> Self {
        session.without_grad(|| {
            let angles = {
                let positions_as_floats = session.new_tensor(positions, Dtype::F32);
                let angles = session.new_tensor(positions * numbers / 2, Dtype::F32);
                drop(positions_as_floats);
                angles
            };
            let both = session.cat(&[&angles, &angles]);
            let table = || {
                let values = session.new_like(&both);
                session.new_like(&values)
            };
            let (cosine, sine) = (table(), table());
            let tables = Self {
                cosine: session.cast(&cosine, dtype),
                sine: session.cast(&sine, dtype),
            };
            drop(angles);
            drop(both);
            tables
        })
    }
}
