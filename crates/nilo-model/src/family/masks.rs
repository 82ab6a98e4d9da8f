//! AttentionMasks of attention: which tokens each token sees, where the kernel does not know by itself.

use super::decoder::TokenBatch;
use super::shape::{AttentionLayout, DecoderShape};
use crate::dry_run::ops::AttentionKernel;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Tensor};

/// The masks of a pass.
#[derive(Debug, Clone)]
pub(crate) struct AttentionMasks {
    all: Option<Tensor>,
    window: Option<Tensor>,
}

impl AttentionMasks {
    /// AttentionMasks for tokens behind so many earlier ones.
    pub(crate) fn new(
        s: &DryRun,
        shape: &DecoderShape,
        kernel: AttentionKernel,
        tokens: TokenBatch,
        past: u64,
        dtype: Dtype,
    ) -> Self {
        let of_kind = |window: Option<u64>| {
            let keys = match window.filter(|window| past >= *window) {
                Some(window) => window - 1 + tokens.length,
                None => past + tokens.length,
            };
            let is_needed = match kernel {
                AttentionKernel::Flash => false,
                AttentionKernel::Eager => true,
                AttentionKernel::Sdpa => {
                    shape.attention == AttentionLayout::Indexed
                        || window.is_some_and(|window| window <= keys)
                        || (past > 0 && tokens.length > 1 && keys > tokens.length)
                }
            };
            let is_eager = kernel == AttentionKernel::Eager;
            is_needed.then(|| mask(s, tokens, keys, window.is_some(), is_eager.then_some(dtype)))
        };
        let has_sliding = (0..shape.layers).any(|layer| shape.is_sliding(layer));
        let has_full = (0..shape.layers).any(|layer| !shape.is_sliding(layer));
        Self {
            all: has_full.then(|| of_kind(None)).flatten(),
            window: shape
                .sliding_window
                .filter(|_| has_sliding)
                .and_then(|window| of_kind(Some(window))),
        }
    }

    /// The mask of a layer.
    pub(crate) fn of_layer(&self, is_sliding: bool) -> Option<&Tensor> {
        match is_sliding {
            true => self.window.as_ref(),
            false => self.all.as_ref(),
        }
    }
}

/// Truth values for one sequence, or what is added to the scores of each.
fn mask(
    s: &DryRun,
    tokens: TokenBatch,
    keys: u64,
    is_window: bool,
    added: Option<Dtype>,
) -> Tensor {
    let pairs = tokens.length * keys;
    let truths = || s.new_tensor(pairs, Dtype::U8);
    let mut seen = truths();
    if is_window {
        let within = truths();
        drop(seen);
        let causal = truths();
        seen = truths();
        drop((within, causal));
    }
    match added {
        None => seen,
        Some(dtype) => {
            let result = s.new_tensor(tokens.batch * pairs, dtype);
            drop(seen);
            result
        }
    }
}
