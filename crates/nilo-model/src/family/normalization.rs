//! Norms of a model, with their weights.

use std::rc::Rc;

use super::build::Build;
use super::shape::NormKind;
use crate::dry_run::memory::Purpose;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Parameter, Tensor};

/// A norm of rows of so many numbers.
#[derive(Debug)]
pub(crate) struct Norm {
    kind: NormKind,
    weight: Rc<Parameter>,
    bias: Option<Rc<Parameter>>,
    width: u64,
}

impl Norm {
    pub(crate) fn new(build: &Build<'_>, kind: NormKind, width: u64) -> Self {
        let has_bias = kind == NormKind::LayerNorm;
        Self {
            kind,
            weight: build.weight(1, width),
            bias: has_bias.then(|| build.weight(1, width)),
            width,
        }
    }

    pub(crate) fn forward(&self, s: &DryRun, x: &Tensor) -> Tensor {
        s.part(Purpose::Normalization, || self.applied(s, x))
    }

    /// Without a word about what its memory is for.
    pub(crate) fn applied(&self, s: &DryRun, x: &Tensor) -> Tensor {
        match self.kind {
            NormKind::LayerNorm => s.layer_norm(x, &self.weight, self.bias.as_ref()),
            NormKind::Rms => s.rms_norm(x, &self.weight, self.width),
            NormKind::RmsPlusOne => s.rms_norm_in_32_bits(x, &self.weight, self.width),
            NormKind::RmsWide => s.rms_norm_then_cast(x, &self.weight, self.width),
        }
    }
}
